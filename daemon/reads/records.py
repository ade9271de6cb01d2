"""records: who did what and when, as frames.

Method: what a question names decides where it looks. A memory's records come from the index of what touched it, a
session's memories from the session's lists; a time or an actor's uid leaves out blocks of 256 records that hold none
of it. All else is a walk over the outlines of the records in short transactions, which unseals and decodes nothing
but what it answers.

`total` counts all that match, once (of whole tenants it is known): a cursor carries it, with how many of them were
given. Records never change, so it stays true; what is written after the first page is on no page. The records of a
session are those that name it: opened, reopened, touched, closed, the memories written into it, what passes say of it,
and all that was done to one of its memories (the index of what touched them leads there).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import lmdb

from daemon.asked import window
from daemon.asking import Asking
from daemon.caller import Caller
from daemon.failures import note_damage
from daemon.feed import behind_damage
from daemon.prepare import UNSET, parse_memory, parse_session, parse_time
from daemon.reads import proposals
from daemon.reads.cursors import Cursors
from daemon.reads.listing import PAGE_BYTES
from daemon.reads.reading import Reading, reading
from daemon.refusal import Reason, Refused
from daemon.wire import exchange_results as r
from journal.codes import CallerRole
from journal.errors import DamagedRecord
from journal.events import SessionClosed, SessionOpened, SessionReopened, SessionTouched
from journal.frames import TAG_OF_WORD, TYPE_OF_TAG, Frame, FrameMaker, Level, Outline, Row, encode_frame, rows_between
from journal.record import decode_value
from projections import blocks, sessions, tables, usage
from projections.known_at import mentions
from projections.rows import DamagedRow
from projections.state import State

if TYPE_CHECKING:
    from daemon.service import Service

CHUNK_RECORDS = 4096
"""Looked at in one transaction."""
_SESSION_EVENTS = (SessionOpened, SessionReopened, SessionClosed, SessionTouched)
_CREATED = TAG_OF_WORD["memory_created"]
_NAMES_SESSIONS = frozenset(
    tag
    for tag, event_type in TYPE_OF_TAG.items()
    if event_type in _SESSION_EVENTS or {"session", "sessions"}.intersection(cast(Any, event_type).__struct_fields__)
)
"""The events that may name a session. The memories in it are found by its lists."""


class _Query(NamedTuple):
    """The conditions that an outline answers. `tenants`, `tags`, `actor` None: any."""

    tenants: frozenset[int] | None
    tags: frozenset[int] | None
    since_ms: int | None
    until_ms: int | None
    actor: int | CallerRole | None

    def has_no_condition(self) -> bool:
        """Whether every record of the tenants is meant."""
        return self == _Query(self.tenants, None, None, None, None)

    def admits(self, outline: Outline) -> bool:
        if self.tenants is not None and outline.tenant not in self.tenants:
            return False
        if self.tags is not None and outline.tag not in self.tags:
            return False
        if self.since_ms is not None and outline.at_ms < self.since_ms:
            return False
        if self.until_ms is not None and outline.at_ms >= self.until_ms:
            return False
        if self.actor is None:
            return True
        return self.actor == (outline.actor.role if isinstance(self.actor, CallerRole) else outline.actor.uid)


class _Place(NamedTuple):
    """Where to look, within the first and the last record asked for. `seqs`: there only, ascending. `blocks`: in
    these only. `session`: the number of the one whose records are wanted, `members` those that created its memories,
    `memories` those memories, `touching` the records that may be about one of them.
    `about`: the memory that records at these numbers are about, 0 for none.
    """

    first: int
    last: int
    seqs: tuple[int, ...] | None
    blocks: frozenset[int] | None
    session: int | None
    members: frozenset[int]
    about: tuple[int, frozenset[int]]
    memories: frozenset[int] = frozenset()
    touching: frozenset[int] = frozenset()

    def is_whole(self) -> bool:
        """Whether every record between the first and the last is meant."""
        return self.seqs is None and self.blocks is None and self.session is None

    def ranges(self, after: int) -> Iterator[tuple[int, int]]:
        """Runs of records behind `after`, at most `CHUNK_RECORDS` each."""
        first = max(self.first, after + 1)
        if self.seqs is not None:
            yield from ((seq, seq) for seq in self.seqs if first <= seq <= self.last)
            return
        size = CHUNK_RECORDS if self.blocks is None else blocks.BLOCK_RECORDS
        while first <= self.last:
            end = min((first // size + 1) * size - 1, self.last)
            if self.blocks is None or first // size in self.blocks:
                yield first, end
            first = end + 1


def records(service: Service, params: Any, caller: Caller, tenants: tuple[str, ...], asking: Asking) -> r.RecordsResult:
    """A page of records, in order. Raises Refused."""
    level = Level(params.level)
    _check_rights(params, caller, level)
    names = tuple(service.names.tenant_numbers) if params.store_wide else tenants
    try:
        return _Search(service, params, names, level, asking).page()
    except (DamagedRow, DamagedRecord) as error:
        note_damage(service.store, service.projections, error)
        raise behind_damage(service, "records", error) from error


def tells_what_is_sealed(params: Any) -> bool:
    """Whether a question of the whole store is told more of each tenant than that there was something."""
    return bool(params.store_wide) and Level(params.level) is not Level.SKELETON


def _check_rights(params: Any, caller: Caller, level: Level) -> None:
    if params.store_wide and (params.tenants is not UNSET or params.tenant is not UNSET):
        raise Refused(Reason.INVALID_INPUT, "give either store_wide or tenants", parameter="store_wide")
    if params.store_wide and caller.role is not CallerRole.OPERATOR:
        raise Refused(Reason.DENIED, "only operators read the whole store", parameter="store_wide")
    if level is not Level.SKELETON and not caller.export:
        raise Refused(Reason.DENIED, f"level {level} needs the grant `export`", parameter="level")
    if level is Level.CONTENT and not caller.content:
        raise Refused(Reason.DENIED, "content needs the grant `content`", parameter="level")


class _Search:
    def __init__(
        self, service: Service, params: Any, names: tuple[str, ...], level: Level, asking: Asking
    ) -> None:  # fmt: skip
        self._service = service
        self._params = params
        self._level = level
        self._asking = asking
        self._log = service.store.log
        store = service.store
        self._maker = FrameMaker(store.log, store.vault, store.sealer, self._tenant_name)
        query = repr(("records", names if not params.store_wide else "store", _asked(params)))
        self._cursors = Cursors(query, store.epoch, store.vault.hash_key)
        with reading(store, service.projections, service.names, names, 0, False, asking=asking) as view:
            self._query = _query(params, None if params.store_wide else view.tenants)
            place = self._cursors.decode(params.cursor, view.state.head.seq)
            self._after, head_seq = place.last, place.head
            self._counted = None if params.cursor is UNSET else (place.total, place.given)
            self._place = _place(view, params, head_seq)
        self._head_seq = head_seq
        if self._counted is None and self._query.has_no_condition() and self._place.is_whole():
            total = self._count()
            self._counted = None if total is None else (total, 0)

    def _tenant_name(self, number: int) -> str | None:
        row = self._service.names.tenants.get(number)
        return None if row is None else row.name

    def _count(self) -> int | None:
        """How many records there are in the whole range, where that is known without a look at them."""
        tenants, place = self._query.tenants, self._place
        if tenants is None:
            return max(0, place.last - place.first + 1)
        if place.first > 1:
            return None
        with self._service.projections.snapshot() as snapshot:
            if snapshot.watermark_seq() != place.last:
                return None  # somebody wrote meanwhile: what is counted there is of another head
            state = State(snapshot, self._service.projections.counters, snapshot.head)
            return sum(usage.of_tenant(state, tenant).records for tenant in tenants)

    def page(self) -> r.RecordsResult:
        """Up to `limit` frames, to what a line can carry, and to the first record that is damaged. Raises Refused, and
        DamagedRecord when that comes first.
        """
        frames: list[Frame] = []
        try:
            found = self._fill(frames)
        except DamagedRecord as error:
            if not frames:
                raise
            note_damage(self._service.store, self._service.projections, error)
            found = len(frames) + 1  # the next page begins with the damage, and says so
        total, given = self._counted or (found, 0)
        given += len(frames)
        return r.RecordsResult(
            frames=cast("list[r.Frame]", frames),
            next_cursor=self._cursor(frames[-1].seq, total, given) if frames and given < total else None,
            total=total,
            hash_key=self._hash_key(),
        )

    def _fill(self, frames: list[Frame]) -> int:
        """Put the frames of a page there; how many match, those behind the page too when nobody has counted them."""
        size_bytes, found, full = 0, 0, False
        for txn, row in self._matches(self._after):
            found += 1
            if full:
                continue  # the first page counts them all
            frame = self._maker.frame(txn, row, self._level)
            size_bytes += len(encode_frame(frame)) + 1
            if size_bytes > PAGE_BYTES and not frames:
                raise Refused(Reason.TOO_LARGE, "a frame is too large for a line", seq=row.seq, limit=PAGE_BYTES)
            if size_bytes <= PAGE_BYTES:
                frames.append(frame)
            full = size_bytes > PAGE_BYTES or len(frames) == self._params.limit
            if full and self._counted is not None:
                break
        return found

    def _cursor(self, last: int, total: int, given: int) -> str:
        return self._cursors.encode(last, self._head_seq, total, given)

    def _hash_key(self) -> Any:
        whole = self._params.store_wide and self._level is Level.CONTENT
        return self._service.store.vault.hash_key.hex() if whole else UNSET

    def _matches(self, after: int) -> Iterator[tuple[lmdb.Transaction, Row]]:
        """The records that match, each with a transaction in which it can be read."""
        for first, last in self._place.ranges(after):
            self._asking.step("records", first, self._head_seq)
            with self._log.env.read() as txn:
                for row in rows_between(self._log, txn, first, last):
                    outline = row.outline()
                    self._check_is_about(row, outline)
                    if self._query.admits(outline) and self._is_of_session(row, outline):
                        yield txn, row

    def _check_is_about(self, row: Row, outline: Outline) -> None:
        """Raises DamagedRow when the index of what touched a memory leads to a record that is not about it."""
        (about, seqs), tenants = self._place.about, self._query.tenants
        if row.seq not in seqs:
            return
        is_foreign = tenants is not None and outline.tenant not in tenants
        if is_foreign or not mentions(decode_value(row.seq, row.value).event, about):
            raise DamagedRow(tables.TOUCHES)

    def _is_of_session(self, row: Row, outline: Outline) -> bool:
        number = self._place.session
        if number is None or row.seq in self._place.members:
            return True
        if outline.tag == _CREATED or (outline.tag not in _NAMES_SESSIONS and row.seq not in self._place.touching):
            return False
        event: Any = decode_value(row.seq, row.value).event
        if row.seq in self._place.touching and not self._place.memories.isdisjoint(_done_to(event)):
            return True
        named = event.number if isinstance(event, _SESSION_EVENTS) else getattr(event, "session", None)
        return number == named or number in getattr(event, "sessions", ())


def _done_to(event: Any) -> Iterator[int]:
    """The memories that an event is about; not those that it moves beside."""
    ends = (getattr(event, name, None) for name in ("memory", "source", "target", "predecessor"))
    yield from (end[1] for end in ends if end is not None)
    yield from (ref[1] for ref in getattr(event, "memories", ()) if isinstance(ref, tuple))


def _asked(params: Any) -> tuple[Any, ...]:
    """What a cursor is bound to, beside the tenants."""
    names = ("since", "until", "from_seq", "memory", "session", "types", "actor", "level", "store_wide")
    found = {name: getattr(params, name) for name in names}
    if params.session is not UNSET:
        found["session"] = parse_session("session", params.session)  # an id has more than one spelling
    if params.memory is not UNSET:
        found["memory"] = parse_memory("memory", params.memory)
    return tuple(found.values())


def _query(params: Any, tenants: frozenset[int] | None) -> _Query:
    actor = None if params.actor is UNSET else params.actor
    since, until = window("", params)
    return _Query(
        tenants=tenants,
        tags=None if params.types is UNSET else frozenset(TAG_OF_WORD[word] for word in params.types),
        since_ms=since,
        until_ms=until,
        actor=CallerRole.from_wire(actor) if isinstance(actor, str) else actor,
    )


def _place(view: Reading, params: Any, head_seq: int) -> _Place:
    """Where to look. Raises Refused for a memory or a session that is not ours."""
    seqs = number = None
    about: tuple[int, frozenset[int]] = (0, frozenset())
    members = memories = touching = frozenset[int]()
    first = 1 if params.from_seq is UNSET else max(1, params.from_seq)
    if params.memory is not UNSET:
        kind, tsid = parse_memory("memory", params.memory)
        row = view.memory(tsid, kind)
        if row is None:
            raise Refused(Reason.NOT_FOUND, "no such memory", parameter="memory")
        own = view.seqs_about(tsid, row)
        seqs, about = tuple(proposals.seqs_about(view, tsid, own)), (tsid, frozenset(own))
    if params.session is not UNSET:
        number = view.session_number(parse_session("session", params.session))
        if number is None:
            raise Refused(Reason.NOT_FOUND, "no such session", parameter="session")
        found = [(tsid, row) for tsid in _members(view, number) if (row := view.memory(tsid)) is not None]
        members = frozenset([row.seq for _, row in found])
        memories = frozenset([tsid for tsid, _ in found])
        touching = frozenset([seq for tsid, row in found for seq in view.seqs_about(tsid, row)]) - members
        first = max(first, _opened_seq(view, number))
    within = None if seqs is not None else _blocks(view, params)
    return _Place(first, head_seq, seqs, within, number, members, about, memories, touching)


def _opened_seq(view: Reading, number: int) -> int:
    """No record before this one names the session."""
    row = view.session(number)
    return 1 if row is None else row.owner_seq


def _members(view: Reading, number: int) -> list[int]:
    return sessions.turn_ids(view.state, number) + sessions.other_ids(view.state, number)


def _blocks(view: Reading, params: Any) -> frozenset[int] | None:
    """The blocks that can hold what is asked for; None: all. What the store writes for itself is in no block, so
    whoever asks for that too goes through all."""
    found: frozenset[int] | None = None
    if params.store_wide:
        return None
    if params.since is not UNSET or params.until is not UNSET:
        found = _blocks_of_time(view, params)
    if isinstance(params.actor, int):
        prefix = blocks.KEY.pack(blocks.ACTOR, params.actor, 0)[:-4]
        mine = frozenset(blocks.KEY.unpack(key)[2] for key, _ in view.state.entries(tables.BLOCKS, prefix))
        found = mine if found is None else found & mine
    return found


def _blocks_of_time(view: Reading, params: Any) -> frozenset[int]:
    since = None if params.since is UNSET else parse_time("since", params.since)[0]
    until = None if params.until is UNSET else parse_time("until", params.until)[0]
    found = set()
    for key, payload in view.state.entries(tables.BLOCKS, blocks.KEY.pack(blocks.TIME, 0, 0)[:-4]):
        least, greatest = blocks.BOUNDS.unpack(payload)
        if (since is None or greatest >= since) and (until is None or least < until):
            found.add(blocks.KEY.unpack(key)[2])
    return frozenset(found)
