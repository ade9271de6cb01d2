"""What a purge destroys: every sealed part that the memories own, whatever record it stands in, and what goes along.

Of a memory: its text unless another unpurged memory shares it (a forgotten one counts), its particulars, vector, and
the words and particulars of each record about it; the parts of proposals that name it; what was asked under a key about
it. A session's key and defaults go with the last of its memories, an entity's name with the last memory that names it.
Each part is listed once, with the first memory that takes it along; one whose key is destroyed already isn't listed.

Two things are not done. Words about a memory that is held are evidence too: a proposal that names it is not taken along
with its other end, so that purge is refused as one of the held memory would be. And a memory of which a record can't be
read is left as it is, with all that is its own, because nobody can say which keys are: the others go.

The plan reads a state and records, so that a dry run and the writer make the same one. It costs a look for each memory,
each of its records and edges, and for each text, line of versions, session and entity one look at who has it; no record
that it makes outgrows a frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from daemon import limits
from daemon.cascading import REVISIONS, Going, RecordOf, genesis, versions
from journal import events
from journal.codes import Cascade, EdgeType, Mark, Part, ProposalStatus
from journal.errors import DamagedRecord
from journal.events import PurgeTarget, Ref, SealedPart
from projections import edges, idempotency, names, proposals, sessions, tables, texts
from projections.rows import MemoryRow
from projections.state import KEY32_32, KEY64, KEY64_64, State

TARGETS_A_RECORD = 1000
RECORD_BYTES = 3 << 20
"""About as long a record may be as JSON: with its bytes as base64 the frame of it is a line. The last of its memories
may go a little beyond."""
PARTS_A_RECORD = 12_000
REFS_A_PURGE = 600_000
"""Ids of what survives in all records of one purge: of many memories each tells fewer."""
REFS_AT_LEAST = 10
_TARGET_BYTES, _PART_BYTES, _REF_BYTES = 1024, 192, 32
_DERIVED = int(EdgeType.DERIVED_FROM)

IsShredded = Callable[[int], bool]
"""Whether a slot's key is destroyed already."""


class Erased(NamedTuple):
    """One memory of a purge, and which of its parts hold its text, if that goes."""

    target: PurgeTarget
    text: SealedPart | None


class Piece(NamedTuple):
    """What one PURGE record says."""

    erased: list[Erased]
    parts: list[SealedPart]
    sessions: list[int]
    proposals: list[int]
    entities: list[int]


class Planned(NamedTuple):
    """A whole purge. `held`: memories that are held, and that words which would go are about."""

    pieces: list[Piece]
    held: list[Ref]


def plan(state: State, record: RecordOf, going: Going, is_shredded: IsShredded, session: int = 0) -> Planned:
    """What is destroyed with the memories that go, and of `session` (a number) what is its own if no memory is left in
    it. What can't be read is left out of `going`. Raises DamagedRow; DamagedRecord when nothing else is left."""
    while True:
        making = Plan(state, record, going, is_shredded)
        pieces = list(making.pieces(session))
        if not making.unreadable:
            return Planned(pieces, sorted(making.held))
        going.leave_out(making.unreadable)
        if not going.rows:
            raise next(iter(making.unreadable.values()))


def left_behind(
    state: State, record: RecordOf, purged: Iterable[tuple[int, MemoryRow]], is_shredded: IsShredded
) -> Iterator[tuple[int, MemoryRow, SealedPart]]:
    """What a purge of memories that are `purged` already would still take, with the first of them that takes it along:
    nothing, unless a purge left it. One of which a record can't be read is left out. Raises DamagedRow."""
    making = Plan(state, record, Going(state, record, Cascade.NONE, lambda: None), is_shredded)
    for tsid, row in purged:
        piece = Piece([], [], [], [], [])
        with suppress(DamagedRecord):
            making._erase(tsid, row, piece)
        yield from ((tsid, row, part) for part in piece.parts)


class Plan:
    """Makes pieces of at most `TARGETS_A_RECORD` memories and about `RECORD_BYTES`. Of use only when nothing turned out
    to be `unreadable`: what goes with what depends on all."""

    def __init__(self, state: State, record: RecordOf, going: Going, is_shredded: IsShredded) -> None:
        self._state, self._record, self._going, self._is_shredded = state, record, going, is_shredded
        self.unreadable: dict[int, DamagedRecord] = {}
        self.held: set[Ref] = set()
        self._taken: set[tuple[int, int]] = set()
        self._sessions: set[int] = set()
        self._entities: set[int] = set()
        self._proposals: set[int] = set()
        self._sharers: dict[int, int] = {}  # of a text, by the record that owns it
        self._lines: dict[int, _Line] = {}  # of versions, by each of them
        self._told_each = max(REFS_AT_LEAST, min(limits.DOWNSTREAM_TOLD, REFS_A_PURGE // (4 * len(going.rows) or 1)))

    def pieces(self, session: int = 0) -> Iterator[Piece]:
        """Raises DamagedRow, and DamagedRecord for the session."""
        piece, size_bytes = Piece([], [], [], [], []), 0
        for tsid, row in self._going.rows.items():
            parts = len(piece.parts)
            try:
                erased = self._erase(tsid, row, piece)
            except DamagedRecord as error:
                self.unreadable[tsid] = error
                continue
            piece.erased.append(erased)
            size_bytes += _size_bytes(erased.target) + _PART_BYTES * (len(piece.parts) - parts)
            if size_bytes >= RECORD_BYTES or len(piece.erased) == TARGETS_A_RECORD:
                yield from _in_records(piece)
                piece, size_bytes = Piece([], [], [], [], []), 0
        if session:
            self._take_session(session, piece)
        if piece.erased or piece.parts:
            yield from _in_records(piece)

    def _erase(self, tsid: int, row: MemoryRow, piece: Piece) -> Erased:
        event = genesis(self._record, row)
        first = len(piece.parts)
        text, kept, sharers = self._text(tsid, row, event, piece)
        incoming = list(edges.incoming(self._state, tsid))
        revises = any(edge[0] in REVISIONS for edge in (*incoming, *edges.outgoing(self._state, tsid)))
        own = (part for part in event.parts if part.owner_seq == row.seq and part.part != Part.TEXT)
        self._take(piece, own)
        self._about(tsid, piece)
        self._take_session(row.session, piece)
        self._take_entities(event.entities, piece)
        taken = piece.parts[first:]
        text_bytes = 0 if text is None else text.length
        copies = sorted(set(self._going.copies.get(tsid, ())))
        derived = self._surviving(child for edge_type, _, child in incoming if edge_type == _DERIVED)
        sources = self._surviving(source for _, source in event.sources)
        others = self._line(tsid).left if revises else []
        target = PurgeTarget(
            row.kind, tsid, keys_shredded=len(taken), payload_bytes=sum(part.length for part in taken),
            text_bytes=text_bytes, text_retained_shared=0 if kept is None else kept.length, text_shared_with=sharers,
            entity_links_removed=len(event.entities), quoting_purged=self._refs(copies),
            derived_surviving=self._refs(derived), sources_surviving=self._refs(sources),
            versions_surviving=self._refs(others), quoting_purged_count=len(copies),
            derived_surviving_count=len(derived), sources_surviving_count=len(sources),
            versions_surviving_count=len(others),
        )  # fmt: skip
        return Erased(target, text)

    def _take(self, piece: Piece, parts: Iterable[SealedPart]) -> None:
        for part in parts:
            key = part.owner_seq, part.part
            if part.slot and key not in self._taken and not self._is_shredded(part.slot):
                self._taken.add(key)
                piece.parts.append(part)

    # --- the text ------------------------------------------------------------------------------------

    def _text(
        self, tsid: int, row: MemoryRow, event: events.MemoryCreated, piece: Piece
    ) -> tuple[SealedPart | None, SealedPart | None, int]:
        """`(the text that goes, the text that stays, how many still have it)`."""
        part = next((each for each in event.parts if each.part == Part.TEXT and each.slot), None)
        if part is None or (self._is_shredded(part.slot)):
            return None, None, 0
        sharers = self._sharers.get(part.owner_seq)
        if sharers is None:
            sharers = sum(not self._going.goes(user) for user in texts.sharing(self._state, part.owner_seq))
            sharers += part.owner_seq != row.seq and self._owner_stays(part.owner_seq)
            self._sharers[part.owner_seq] = sharers
        if sharers:
            return None, part, sharers
        self._take(piece, (part,))
        return part, None, 0

    def _owner_stays(self, seq: int) -> bool:
        """Whether the memory whose record owns a text does not go. One that can't be read has it still."""
        try:
            event = self._event(seq)
        except DamagedRecord:
            return True
        return isinstance(event, events.MemoryCreated) and not self._going.goes(event.id)

    # --- records about it ----------------------------------------------------------------------------

    def _about(self, tsid: int, piece: Piece) -> None:
        for key, _ in self._state.entries(tables.TOUCHES, KEY64.pack(tsid)):
            event = self._event(KEY64_64.unpack(key)[1])
            if _is_about(event, tsid):
                self._take(piece, _own(event))
        for seq in idempotency.about_memory(self._state, tsid):
            self._take(piece, _own(self._event(seq)))
        for proposal in proposals.naming_in_any_status(self._state, tsid):
            self._take_proposal(proposal, piece)

    def _take_proposal(self, proposal: int, piece: Piece) -> None:
        row = proposals.get(self._state, proposal)
        if row is None or proposal in self._proposals:
            return
        self._proposals.add(proposal)
        before = len(piece.parts)
        for seq in (row.made_seq, row.decided_seq):
            if seq:
                self._take(piece, _own(self._event(seq)))
        if len(piece.parts) > before:
            self.held.update(self._held_in(row))
        if len(piece.parts) > before or row.status == ProposalStatus.PROPOSED:
            piece.proposals.append(proposal)

    def _held_in(self, row: proposals.ProposalRow) -> Iterator[Ref]:
        """The end of a proposal that is held. What goes is not: that was looked at before."""
        for ref in (row.memory, row.other):
            memory = None if ref is None else self._state.memory(ref[1])
            if ref is not None and memory is not None and memory.has(Mark.HELD) and not memory.has(Mark.PURGED):
                yield ref

    def _event(self, seq: int) -> Any:
        record = self._record(seq)
        if record is None:
            raise DamagedRecord(seq, "missing")
        return record.event

    # --- sessions, entities ----------------------------------------------------------------------------

    def _take_session(self, number: int, piece: Piece) -> None:
        """Its key and its defaults, when nothing of it is left."""
        if not number or number in self._sessions:
            return
        self._sessions.add(number)
        row = self._state.session(number)
        if row is None or not self._is_whole(number, row.turns):
            return
        before = len(piece.parts)
        seq = row.defaults_seq
        while seq and seq != row.owner_seq:
            event = self._event(seq)
            self._take(piece, _own(event))
            seq = getattr(event, "defaults_before", 0)
        self._take(piece, _own(self._event(row.owner_seq)))
        for seq in idempotency.about_session(self._state, number):
            self._take(piece, _own(self._event(seq)))
        if len(piece.parts) > before:
            piece.sessions.append(number)

    def _is_whole(self, number: int, turns: int) -> bool:
        if turns:  # most often the last one is there, and no other is looked at
            value = self._state.get(tables.TURNS, KEY32_32.pack(number, turns))
            if value is not None and not self._going.goes(KEY64.unpack(value[: KEY64.size])[0]):
                return False
        members = (*sessions.turn_ids(self._state, number), *sessions.other_ids(self._state, number))
        return all(self._going.goes(tsid) for tsid in members)

    def _take_entities(self, numbers: Sequence[int], piece: Piece) -> None:
        for number in numbers:
            if number in self._entities:
                continue
            self._entities.add(number)
            if not all(self._going.goes(tsid) for tsid in names.memories_naming(self._state, number)):
                continue
            row = names.entity_of(self._state, number)
            before = len(piece.parts)
            if row is not None:
                self._take(piece, _own(self._event(row.owner_seq)))
            if len(piece.parts) > before:
                piece.entities.append(number)

    # --- what survives -----------------------------------------------------------------------------------

    def _line(self, tsid: int) -> _Line:
        """All versions of it, before and after; looked up once for all of them."""
        if tsid not in self._lines:
            line, waiting = _Line([]), deque([tsid])
            self._lines[tsid] = line
            while waiting:
                for other in versions(self._state, waiting.popleft()):
                    if other not in self._lines:
                        self._lines[other] = line
                        waiting.append(other)
                        if not self._going.goes(other):
                            line.left.append(other)
            line.left.sort()
        return self._lines[tsid]

    def _surviving(self, tsids: Iterable[int]) -> list[int]:
        return sorted({tsid for tsid in tsids if not self._going.goes(tsid)})

    def _refs(self, tsids: Sequence[int]) -> tuple[Ref, ...]:
        """The first of them."""
        found = ((tsid, self._going.rows.get(tsid) or self._state.memory(tsid)) for tsid in tsids[: self._told_each])
        return tuple([(row.kind, tsid) for tsid, row in found if row is not None])


class _Line(NamedTuple):
    """The versions of one memory that survive, by id."""

    left: list[int]


def _size_bytes(target: PurgeTarget) -> int:
    told = (target.quoting_purged, target.derived_surviving, target.sources_surviving, target.versions_surviving)
    return _TARGET_BYTES + _REF_BYTES * sum(map(len, told))


def _in_records(piece: Piece) -> Iterator[Piece]:
    """What one record can say, and the parts that it can't in further ones, without memories."""
    parts = piece.parts
    yield piece._replace(parts=parts[:PARTS_A_RECORD])
    for at in range(PARTS_A_RECORD, len(parts), PARTS_A_RECORD):
        yield Piece([], parts[at : at + PARTS_A_RECORD], [], [], [])


def _own(event: Any) -> tuple[SealedPart, ...]:
    """The parts of an event that is no memory's beginning: none of them is shared."""
    parts: tuple[SealedPart, ...] = getattr(event, "parts", ())
    return parts


def _is_about(event: Any, tsid: int) -> bool:
    """Whether what is sealed with an event is this memory's. What another's record says of it in passing (a flag, a
    boost) is not; what is said of several goes with the first of them."""
    if isinstance(event, events.MemoryCreated | events.Purged):
        return False
    if isinstance(event, events.Held):
        return True
    memory = getattr(event, "memory", None)
    return memory is not None and memory[1] == tsid


def held_among(rows: Iterable[tuple[int, MemoryRow]]) -> list[Ref]:
    """Those that may not be purged."""
    return [(row.kind, tsid) for tsid, row in rows if row.has(Mark.HELD)]
