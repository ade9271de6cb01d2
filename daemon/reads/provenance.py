"""session_provenance: what came out of a session, and how a row of the provenance region is told.

`content_hash_hi` is nowhere at rest: it is made of the living text when a row is served, for who may read that text.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from daemon.prepare import parse_session
from daemon.reads.memories import partition_name
from daemon.reads.reading import Reading
from daemon.refusal import Reason, Refused
from daemon.wire import provenance_results as r
from daemon.wire.times import format_ms
from journal.codes import EdgeType, Kind
from journal.errors import DamagedRecord, PartUnreadable
from journal.tsid import format_tsid, memory_ref
from projections import edges, provenance, region, rows, sessions, tables
from projections.region import STATE_WORDS, RegionRow
from projections.rows import MemoryRow

MAX_ROWS = 20_000
"""What a line of 8 MiB can carry; more is `truncated`."""
_DERIVED = int(EdgeType.DERIVED_FROM)


def session_provenance(reading: Reading, params: Any) -> r.SessionProvenanceResult:
    """Rows by pass, then fact; then, if asked for, the notes that clients made of it. Raises Refused (not_found)."""
    number = reading.session_number(parse_session("session", params.session))
    if number is None:
        raise Refused(Reason.NOT_FOUND, "no such session", parameter="session")
    made = list(islice(provenance.rows_of_session(reading.state, number), MAX_ROWS + 1))
    told = [row_told(reading, row) for row in made[:MAX_ROWS]]
    notes = _client_notes(reading, number, [row.target_tsid for row in made])
    session = reading.session(number)
    assert session is not None
    room = MAX_ROWS - len(told) if params.include_clients else 0
    told += [_note_told(reading, session.id, number, tsid, row) for tsid, row in notes[:room]]
    truncated = len(made) > MAX_ROWS or (params.include_clients and len(notes) > room)
    return r.SessionProvenanceResult(derived=told, truncated=truncated, client_notes=len(notes))


def row_told(reading: Reading, row: RegionRow) -> r.ProvenanceRow:
    """A row as it is served. Raises DamagedRow when it and its target don't agree."""
    memory = reading.memory(row.target_tsid, row.prefix_kind)
    if memory is None or memory.dead != (row.flags == region.TOMBSTONE):
        raise rows.DamagedRow(tables.REGION)
    return r.ProvenanceRow(
        id=memory_ref(row.prefix_kind, row.target_tsid),
        session=f"session:{format_tsid(row.session_id)}" if row.session_id else None,
        state=STATE_WORDS[row.flags],
        pass_=row.pass_number or None,
        fact_index=row.fact_index,
        batch_count=row.batch_count,
        turn_count=row.turn_count,
        first_seq=row.first_seq or None,
        last_seq=row.last_seq or None,
        partition=partition_name(reading, row.partition_seq) if row.partition_seq else None,
        at=format_ms(row.consolidated_at),
        source=_source_ref(reading, row.source_tsid),
        content_hash_hi=_hash_hi(reading, memory),
    )


def _source_ref(reading: Reading, tsid: int) -> str | None:
    row = reading.memory(tsid) if tsid else None
    return None if row is None else memory_ref(row.kind, tsid)


def _hash_hi(reading: Reading, row: MemoryRow) -> int:
    """0 for whoever may not read the text, and of a text that isn't a living one."""
    if not reading.content or row.dead:
        return 0
    try:
        return region.hash_hi(reading.text(reading.genesis(row)[1]).encode())
    except DamagedRecord:
        reading.note_damage(row.seq, "journal record")
    except PartUnreadable as error:
        if error.state == "damaged":
            reading.note_damage(row.seq, "sealed part")
    return 0


def _client_notes(reading: Reading, number: int, by_pass: list[int]) -> list[tuple[int, MemoryRow]]:
    """The notes of a session that no pass made: those that carry it, those made from its turns, and what took the place
    of either or of a pass's; by id."""
    state = reading.state
    found = set(sessions.other_ids(state, number))
    for turn in sessions.turn_ids(state, number):
        found.update(made for _, kind, made in reading.incoming(turn, _DERIVED) if kind == Kind.NOTE)
    for tsid in [*by_pass, *found]:
        found.update(_successors(reading, tsid))
    by_clients = (tsid for tsid in sorted(found) if next(provenance.places_of(state, tsid), None) is None)
    notes = ((tsid, reading.memory(tsid, Kind.NOTE)) for tsid in by_clients)
    return [(tsid, row) for tsid, row in notes if row is not None]


def _successors(reading: Reading, tsid: int) -> Iterator[int]:
    """What took the place of a memory, version after version."""
    row = reading.memory(tsid)
    while row is not None and row.superseded_by:
        yield row.superseded_by
        row = reading.memory(row.superseded_by)


def _note_told(reading: Reading, session: int, number: int, tsid: int, row: MemoryRow) -> r.ProvenanceRow:
    """A client's note, told like a row: its turns are those of what it stands on that are turns of this session."""
    sources = (reading.memory(source) for _, _, source in edges.grounding(reading.state, tsid))
    turns = sorted(
        (source for source in sources if source is not None and source.turn and source.session == number),
        key=lambda source: source.turn,
    )
    return r.ProvenanceRow(
        id=memory_ref(row.kind, tsid),
        session=f"session:{format_tsid(session)}",
        state=STATE_WORDS[region.TOMBSTONE if row.dead else region.LIVE],
        pass_=None,
        fact_index=None,
        batch_count=None,
        turn_count=len(turns),
        first_seq=turns[0].turn if turns else None,
        last_seq=turns[-1].turn if turns else None,
        partition=partition_name(reading, turns[0].partition) if turns else None,
        at=format_ms(row.at_ms),
        source=None,
        content_hash_hi=_hash_hi(reading, row),
    )
