"""What a purge destroys: every sealed part that the memories own, whatever record it stands in, and what goes along.

Of a memory: its text unless another unpurged memory shares it (a forgotten one counts), its particulars, vector, and
the words and particulars of each record about it; the parts of proposals that name it; what was asked under a key about
it. A session's key and defaults go with the last of its memories, an entity's name with the last memory that names it.
Each part is listed once, with the first memory that takes it along; one whose key is destroyed already isn't listed.

The plan reads a state and records, so that a dry run and the writer make the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from daemon import limits
from daemon.cascading import REVISIONS, Going, RecordOf, genesis, versions
from journal import events
from journal.codes import EdgeType, Mark, Part, ProposalStatus
from journal.errors import DamagedRecord
from journal.events import PurgeTarget, Ref, SealedPart
from projections import edges, idempotency, names, proposals, sessions, tables, texts
from projections.rows import MemoryRow
from projections.state import KEY32_32, KEY64, KEY64_64, State

TARGETS_A_RECORD = 1000
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


class Plan:
    """Makes pieces of at most `TARGETS_A_RECORD` memories. Holds the parts of one piece, and the keys of all."""

    def __init__(self, state: State, record: RecordOf, going: Going, is_shredded: IsShredded) -> None:
        self._state, self._record, self._going, self._is_shredded = state, record, going, is_shredded
        self._taken: set[tuple[int, int]] = set()
        self._sessions: set[int] = set()
        self._entities: set[int] = set()
        self._proposals: set[int] = set()

    def pieces(self) -> Iterator[Piece]:
        """Raises DamagedRow, DamagedRecord."""
        waiting = iter(self._going.rows.items())
        while chunk := list(islice(waiting, TARGETS_A_RECORD)):
            piece = Piece([], [], [], [], [])
            for tsid, row in chunk:
                piece.erased.append(self._erase(tsid, row, piece))
            yield piece

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
        target = PurgeTarget(
            row.kind, tsid, keys_shredded=len(taken), payload_bytes=sum(part.length for part in taken),
            text_bytes=text_bytes, text_retained_shared=0 if kept is None else kept.length, text_shared_with=sharers,
            entity_links_removed=len(event.entities), quoting_purged=self._refs(self._going.copies.get(tsid, ())),
            derived_surviving=self._surviving(child for edge_type, _, child in incoming if edge_type == _DERIVED),
            sources_surviving=self._surviving(source for _, source in event.sources),
            versions_surviving=self._surviving(self._line(tsid)) if revises else (),
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
        owners = (tsid,) if part.owner_seq == row.seq else self._owner_of(part.owner_seq)
        users = [*texts.sharing(self._state, part.owner_seq), *owners]
        sharers = sum(not self._going.goes(user) for user in users)
        if sharers:
            return None, part, sharers
        self._take(piece, (part,))
        return part, None, 0

    def _owner_of(self, seq: int) -> Iterator[int]:
        event = self._event(seq)
        if isinstance(event, events.MemoryCreated):
            yield event.id

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
        if len(piece.parts) > before or row.status == ProposalStatus.PROPOSED:
            piece.proposals.append(proposal)

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

    def _line(self, tsid: int) -> Iterator[int]:
        """All versions of it, before and after."""
        seen, waiting = {tsid}, [tsid]
        while waiting:
            for other in versions(self._state, waiting.pop(0)):
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
                    yield other

    def _surviving(self, tsids: Iterable[int]) -> tuple[Ref, ...]:
        left = (tsid for tsid in tsids if not self._going.goes(tsid))
        return self._refs(islice(left, limits.DOWNSTREAM_TOLD))

    def _refs(self, tsids: Iterable[int]) -> tuple[Ref, ...]:
        found = ((tsid, self._going.rows.get(tsid) or self._state.memory(tsid)) for tsid in sorted(set(tsids)))
        return tuple([(row.kind, tsid) for tsid, row in found if row is not None])


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
