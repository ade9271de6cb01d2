"""Cursors of paged lists: bound to the query they were made for and to the head it was asked at.

Base64 (URL, unpadded) of: epoch u32, the last one given u64, head seq u64 (big-endian), 8 bytes of the query's digest.
Invariant: a cursor goes on only in the epoch it was made in. A store that was restored uses numbers anew.
"""

from __future__ import annotations

import base64
import struct
from hashlib import blake2b
from typing import Any

import msgspec

from daemon.refusal import Reason, Refused

_CURSOR = struct.Struct(">IQQ8s")


def _fingerprint(query: str) -> bytes:
    return blake2b(query.encode(), digest_size=8).digest()


def encode_cursor(last: int, head_seq: int, query: str, epoch: int) -> str:
    """A cursor that goes on behind `last`, in the state of `head_seq`."""
    packed = _CURSOR.pack(epoch, last, head_seq, _fingerprint(query))
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def decode_cursor(cursor: Any, query: str, head_seq: int, epoch: int) -> tuple[int, int]:
    """`(last, head_seq)` in a cursor; without one from the start at this head. Raises Refused: `conflict` when it was
    made in another epoch.
    """
    if cursor is msgspec.UNSET:
        return 0, head_seq
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        made_in, last, made_at, fingerprint = _CURSOR.unpack(base64.urlsafe_b64decode(padded))
    except (ValueError, struct.error):
        raise Refused(Reason.INVALID_INPUT, "not a cursor", parameter="cursor") from None
    if fingerprint != _fingerprint(query):
        raise Refused(Reason.INVALID_INPUT, "a cursor of another query", parameter="cursor")
    if made_in != epoch:
        raise Refused(
            Reason.CONFLICT, f"a cursor of epoch {made_in}: this store was restored since; begin anew",
            parameter="cursor", current={"epoch": epoch},
        )  # fmt: skip
    return last, made_at
