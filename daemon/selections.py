"""Acting on a selection in two steps: a dry run that tells and gives a token, then the act with the token.

The token is stateless: base64 of a `Token`, big-endian (epoch u32, record u64, counts u32 each, BLAKE2b-128 of what was
selected and of what would be touched, u64 that tells one dry run from the next), then a keyed BLAKE2b-128 over that and
what it is bound to: tenant, verb, what is to be done, and the selection in one spelling. So it can't be made up,
changed, or used for anything else.

Selecting may look at everything, so it is done in a read (`find` in `daemon/reads/resolving.py`). The writer is given
what was found (`Resolved`) and decides whether it still holds: it looks only at what records since then speak of.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from daemon.asked import Content, content_of, time_of, window
from daemon.prepare import UNSET, invalid, parse_memory, parse_session
from daemon.refusal import Reason, Refused
from daemon.view import View
from journal import events
from journal.codes import Kind, Origin, Part, Status
from journal.errors import DamagedRecord, PartUnreadable
from journal.particulars import Particulars, decode_particulars
from journal.sealing import keyed_hash
from projections.happenings import HAPPENINGS
from projections.rows import MemoryRow

Tsids = npt.NDArray[np.uint64]

ALIVE_OR_NOT = tuple(status.wire for status in Status if status is not Status.PURGED)
"""What an action means when no status is asked for: all that there still is, forgotten and quarantined too."""
OPENED_MOST = 4096
"""Memories whose content the writer opens to see what is still meant; from there on it has who asks look again."""
_LISTS = ("origins", "kinds", "status", "tags")
_PACKED = struct.Struct(">IQII16s16sQ")
_MAC_BYTES = 16
_CANONICAL = msgspec.msgpack.Encoder(order="deterministic").encode


class Token(NamedTuple):
    """What a dry run found, at record `seq`: of how many memories, and of which exactly. `look`: a random number, where
    it matters which dry run it was."""

    epoch: int
    seq: int
    selected_count: int
    touched_count: int
    selected: bytes
    touched: bytes
    look: int = 0

    @property
    def found(self) -> tuple[int, int, bytes, bytes]:
        """What two dry runs have in common that found the same."""
        return self.selected_count, self.touched_count, self.selected, self.touched

    def fingerprint(self, hash_key: bytes) -> bytes:
        """By which its use is known again. It is of ids and numbers only, not of what the selection asks for: that can
        be content, of which nothing may outlast a purge."""
        return keyed_hash(hash_key, b"used", _PACKED.pack(*self))[:_MAC_BYTES]


class Fields(NamedTuple):
    """What of a selection the rows alone can tell, and `content`, which they can't; None: not asked for."""

    ids: frozenset[tuple[int, int]] | None
    session: int | None
    producers: frozenset[int] | None
    kinds: frozenset[int] | None
    origins: frozenset[int] | None
    statuses: frozenset[int]
    since: int | None
    until: int | None
    content: Content | None
    stamp: Any = UNSET
    """What is asked of the producer, as it was asked: a stamp may get its number later."""

    @property
    def is_sealed(self) -> bool:
        """Whether content is asked for."""
        return self.content is not None

    def fit(self, tsid: int, row: MemoryRow) -> bool:
        """Whether a memory is meant as far as its row can tell."""
        return (
            row.status in self.statuses
            and (self.kinds is None or row.kind in self.kinds)
            and (self.origins is None or row.origin in self.origins)
            and (self.producers is None or row.producer in self.producers)
            and (self.session is None or row.session == self.session)
            and (self.since is None or self.since <= row.at_ms)
            and (self.until is None or row.at_ms < self.until)
            and (self.ids is None or (row.kind, tsid) in self.ids)
        )


class Resolved(NamedTuple):
    """What a selection meant at record `seq`: TSIDs in id order, and what derives from them when that is touched too.
    `used`: the token's fingerprint, where its use is kept. `again`: it was used already, by this cohort."""

    seq: int
    token: Token
    fields: Fields | None
    selected: tuple[int, ...] = ()
    downstream: tuple[int, ...] = ()
    again: int = 0
    used: bytes = b""


def check(sel: Any, parameter: str = "sel", purged: bool = False) -> None:
    """An empty selection, a window that ends before it starts, and what nothing can be done about are refused."""
    given = {name for name in sel.__struct_fields__ if getattr(sel, name) is not UNSET}
    if sel.producer is not UNSET and all(each is UNSET for each in msgspec.structs.astuple(sel.producer)):
        given.discard("producer")
    if not given:
        raise invalid(parameter, "an empty selection means everything: say which memories")
    if sel.status is not UNSET and Status.PURGED.wire in sel.status and not purged:
        raise invalid(f"{parameter}.status", "nothing can be done about what is purged")
    window(f"{parameter}.", sel)


def canonical(sel: Any) -> bytes:
    """One spelling for all that mean the same."""
    said: dict[str, Any] = {}
    for name in sel.__struct_fields__:
        value = getattr(sel, name)
        if value is UNSET:
            continue
        if name == "ids":
            value = sorted({parse_memory("sel.ids", ref) for ref in value})
        elif name == "session":
            value = parse_session("sel.session", value)
        elif name in ("since", "until"):
            value = time_of(sel, name, "sel.")
        elif name == "producer":
            value = {key: each for key, each in msgspec.structs.asdict(value).items() if each is not UNSET}
        elif name in _LISTS:
            value = sorted(set(value))
        said[name] = value
    return _CANONICAL(said)


def bound_to(tenant: str, verb: str, what: str, downstream: bool, sel: Any) -> bytes:
    """What a token is good for."""
    return _CANONICAL((tenant, verb, what, downstream, canonical(sel)))


def seal(token: Token, hash_key: bytes, bound: bytes) -> str:
    packed = _PACKED.pack(*token)
    mac = keyed_hash(hash_key, b"token", packed, bound)[:_MAC_BYTES]
    return _spelled(packed + mac)


def _spelled(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unseal(text: str, hash_key: bytes, bound: bytes, epoch: int) -> Token:
    """The token. Raises Refused: `invalid_input` when it is none, or for something else; `conflict` when it was given
    in another epoch."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
        token = Token(*_PACKED.unpack(data[: _PACKED.size]))
    except (ValueError, struct.error):
        raise invalid("token", "not a token") from None
    if _spelled(data) != text:  # one token, one spelling: no padding, no bits that mean nothing
        raise invalid("token", "not a token")
    if data[_PACKED.size :] != keyed_hash(hash_key, b"token", data[: _PACKED.size], bound)[:_MAC_BYTES]:
        raise invalid("token", "a token for something else, or none of ours")
    if token.epoch != epoch:
        message = f"a token of epoch {token.epoch}: this store was restored since; ask anew"
        raise Refused(Reason.CONFLICT, message, parameter="token", current=epoch)
    return token


def open_half(text: str) -> bytes:
    """What of a token is made from ids and numbers only: without its keyed hash, which is bound to the selection. Empty
    when it is no token."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)[: _PACKED.size]
    except ValueError:
        return b""


def digest_of(tsids: Tsids) -> bytes:
    """BLAKE2b-128 of a set of memories, which are in id order."""
    return blake2b(tsids.astype(">u8").tobytes(), digest_size=16).digest()


def digest_of_all(tsids: Iterable[int]) -> bytes:
    """The same, of a set in any order."""
    return digest_of(np.array(sorted(tsids), np.uint64))


def changed(current: int | None = None) -> Refused:
    """What who comes with a stale token is told."""
    more = {} if current is None else {"current": current}
    message = "the selection finds something else than it did: look again, and use the new token"
    return Refused(Reason.CONFLICT, message, parameter="token", **more)


def fields_of(sel: Any, session: int | None, producers: Iterable[int] | None) -> Fields:
    """`session` and `producers` are what the selection names, as numbers. Raises Refused."""
    codes = {
        name: None if getattr(sel, name) is UNSET else frozenset(int(enum.from_wire(w)) for w in getattr(sel, name))
        for name, enum in (("kinds", Kind), ("origins", Origin))
    }
    words = ALIVE_OR_NOT if sel.status is UNSET else sel.status
    ids = None if sel.ids is UNSET else frozenset(parse_memory("sel.ids", ref) for ref in sel.ids)
    return Fields(
        ids, session, None if producers is None else frozenset(producers), codes["kinds"], codes["origins"],
        frozenset(int(Status.from_wire(word)) for word in words), *window("sel.", sel), content_of(sel), sel.producer,
    )  # fmt: skip


def stamp_fits(match: Any, *stamp: str | None) -> bool:
    """Whether a producer (agent, model, version, extractor; None: has none) has what is asked of it."""
    wanted = (match.agent, match.model, match.version, match.extractor)
    return all(each is UNSET or each == has for each, has in zip(wanted, stamp, strict=True))


def require_unchanged(view: View, tenant: int, resolved: Resolved) -> None:
    """See that what was found in the read is what the selection means now. Raises Refused (conflict).

    Only memories that records since then speak of can have come or gone. Where content is asked for, what is sealed of
    one that may have is opened: not of a member, unless it was filed anew, and of the others only where all else fits.
    """
    fields = resolved.fields
    assert fields is not None
    members = set(resolved.selected)
    opened: dict[tuple[int, int], bool] = {}
    for tsid, event in _spoken_of(view, resolved):
        if isinstance(event, events.ProducerNamed):
            named = (event.agent, event.model, event.version, event.extractor)
            if fields.producers is not None and stamp_fits(fields.stamp, *named):
                fields = fields._replace(producers=fields.producers | {event.number})
            continue
        row = view.memory(tenant, tsid)
        if row is None:
            continue
        is_member, fits = tsid in members, fields.fit(tsid, row)
        if fits and fields.content is not None and (not is_member or isinstance(event, events.Moved)):
            of = tsid, row.particulars_seq
            if of not in opened:
                if len(opened) == OPENED_MOST:
                    raise changed()
                opened[of] = _has_content(view, fields.content, row)
            fits = opened[of]
        if is_member != fits:
            raise changed()


def _has_content(view: View, content: Content, row: MemoryRow) -> bool:
    """Whether a memory has what is asked for. One that can't be read is meant, as in the read that finds them."""
    try:
        particulars = _unsealed(view, row.particulars_seq, Part.PARTICULARS)
        text = b"" if content.text is None else _unsealed(view, row.seq, Part.TEXT)
    except DamagedRecord:
        return True
    except PartUnreadable as error:
        return error.state == "damaged"
    return content.fits(decode_particulars(particulars) if particulars else Particulars(), text.decode())


def _unsealed(view: View, seq: int, code: Part) -> bytes:
    """The plaintext of that part of record `seq`, empty when it has none. Raises DamagedRecord, PartUnreadable."""
    record = view.record(seq)
    if record is None:
        raise DamagedRecord(seq, "missing")
    parts: tuple[events.SealedPart, ...] = getattr(record.event, "parts", ())
    part = next((each for each in parts if each.part == code), None)
    return b"" if part is None else view.unseal(part)


def derives_since(view: View, tenant: int, resolved: Resolved) -> bool:
    """Whether something was made since then from what is to be touched."""
    touched = {*resolved.selected, *resolved.downstream}
    return any(
        isinstance(event, events.MemoryCreated) and any(source in touched for _, source in event.sources)
        for _, event in _spoken_of(view, resolved)
    )


def _spoken_of(view: View, resolved: Resolved) -> Iterator[tuple[int, events.AnyEvent]]:
    """The memories that the tenant's records since then speak of, with the event."""
    for seq in range(resolved.seq + 1, view.next_seq):
        record = view.own_record(seq)
        if record is None:
            continue
        event = record.event
        if isinstance(event, events.MemoryCreated | events.ProducerNamed):
            yield getattr(event, "id", 0), event
            continue
        happened = HAPPENINGS.get(type(event))
        for tsid, _ in () if happened is None else happened(event):
            yield tsid, event
