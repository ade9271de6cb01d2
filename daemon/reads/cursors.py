"""Cursors of paged answers: bound to the query, the store's history, and the head they were made at.

A cursor is base64 of: epoch u32, then u64 each of the last place given, the head, the total, how many were given, and
what else a query needs to say where it was; then BLAKE2b-128 of all that and the query, keyed with the store's key for
hashes. So a client can't make one up, or change one: it goes on where this daemon, or one before it on this store, has
left off.
"""

from __future__ import annotations

import base64
import struct
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from daemon.refusal import Reason, Refused

_PLACE = struct.Struct(">IQQQQQ")
_DIGEST_BYTES = 16


class Cursors(NamedTuple):
    """What makes the cursors of one query, and reads them. `hash_key` is the vault's."""

    query: str
    epoch: int
    hash_key: bytes

    def encode(self, last: int, head: int, total: int = 0, given: int = 0, more: int = 0) -> str:
        """A cursor that goes on behind `last`, in the state of `head`."""
        packed = _PLACE.pack(self.epoch, last, head, total, given, more)
        return base64.urlsafe_b64encode(packed + self._digest(packed)).decode().rstrip("=")

    def decode(self, cursor: Any, head: int) -> Place:
        """Where to go on; without a cursor from the start at this head. Raises Refused: `conflict` when it was made in
        another epoch.
        """
        if cursor is msgspec.UNSET:
            return Place(0, head)
        try:
            data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True)
            packed, digest = data[: _PLACE.size], data[_PLACE.size :]
            epoch, last, made_at, total, given, more = _PLACE.unpack(packed)
        except (ValueError, struct.error):
            raise Refused(Reason.INVALID_INPUT, "not a cursor", parameter="cursor") from None
        if digest != self._digest(packed):
            raise Refused(Reason.INVALID_INPUT, "a cursor of another query, or none of ours", parameter="cursor")
        if epoch != self.epoch:
            raise Refused(
                Reason.CONFLICT, f"a cursor of epoch {epoch}: this store was restored since; begin anew",
                parameter="cursor", current={"epoch": self.epoch},
            )  # fmt: skip
        return Place(last, made_at, total, given, more)

    def _digest(self, packed: bytes) -> bytes:
        query = self.query.encode()
        return blake2b(packed + query, key=self.hash_key, digest_size=_DIGEST_BYTES).digest()


class Place(NamedTuple):
    """`last`: what was given last, 0 at the start, as is all but the head."""

    last: int
    head: int
    total: int = 0
    given: int = 0
    more: int = 0
