"""What has happened to each memory, after it was made: `happenings` (TSID u64, seq u64) → `Happening` u8, CRC-32C.

Part of the projection `chain`. How a memory began stands in its creating record and is not kept here, so most memories
have no entry. What sleep does to many memories at once (a pass, a bulk recipe, recalls, new scores) is no happening.
An edge or a fact that came of a proposal is told by the proposal.
Invariant: one table, `HAPPENINGS`, says which event is what to whom; a test holds it complete over the union of events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import lmdb

from journal import events
from journal.codes import CohortAction, Happening, Mark
from journal.record import Record
from projections import rows, tables
from projections.newest import newest_first
from projections.state import KEY64, KEY64_64, State

Happened = Iterable[tuple[int, Happening]]

_MARKED = {
    (int(Mark.RESOLVED), True): Happening.RESOLVE,
    (int(Mark.RESOLVED), False): Happening.UNRESOLVE,
    (int(Mark.ARCHIVED), True): Happening.ARCHIVE,
    (int(Mark.ARCHIVED), False): Happening.UNARCHIVE,
    (int(Mark.PROTECTED), True): Happening.PROTECT,
    (int(Mark.PROTECTED), False): Happening.UNPROTECT,
}
_COHORT = {
    int(CohortAction.QUARANTINE): Happening.QUARANTINE,
    int(CohortAction.DEMOTE): Happening.DEMOTE,
    int(CohortAction.REDERIVE): Happening.REDERIVE,
}


def _to_one(happening: Happening) -> Callable[..., Happened]:
    return lambda event: ((event.memory[1], happening),)


def _to_each(happening: Happening) -> Callable[..., Happened]:
    return lambda event: [(tsid, happening) for _, tsid in event.memories]


def _marked(event: events.Marked) -> Happened:
    happening = _MARKED.get((event.mark, event.on))
    return () if happening is None else ((event.memory[1], happening),)


def _superseded(event: events.Superseded) -> Happened:
    return ((event.predecessor[1], Happening.SUPERSEDE),)


def _related(event: events.Related) -> Happened:
    return () if event.proposal else ((event.source[1], Happening.RELATE),)


def _purged(event: events.Purged) -> Happened:
    return [(target.id, Happening.PURGE) for target in event.targets]


def _held(event: events.Held) -> Happened:
    happening = Happening.HOLD if event.on else Happening.RELEASE
    return [(tsid, happening) for _, tsid in event.memories]


def _cohort(event: events.CohortMade) -> Happened:
    return [(change.id, _COHORT[event.action]) for change in event.changes]


def _lifted(event: events.CohortLifted) -> Happened:
    return [(change.id, Happening.LIFT) for change in event.changes]


HAPPENINGS: dict[type, Callable[..., Happened]] = {
    events.Moved: _to_one(Happening.REVISE),
    events.Superseded: _superseded,
    events.Marked: _marked,
    events.EmbedFailed: _to_one(Happening.EMBED_FAILED),
    events.Reaffirmed: _to_one(Happening.REAFFIRM),
    events.Verified: _to_one(Happening.VERIFY),
    events.Reinforced: _to_one(Happening.REINFORCE),
    events.Weakened: _to_one(Happening.WEAKEN),
    events.Forgotten: _to_one(Happening.FORGET),
    events.Recovered: _to_one(Happening.RECOVER),
    events.Pruned: _to_each(Happening.PRUNE),
    events.Purged: _purged,
    events.Related: _related,
    events.Held: _held,
    events.CohortMade: _cohort,
    events.CohortLifted: _lifted,
}


def fold(state: State, record: Record, event: object) -> None:
    for tsid, happening in HAPPENINGS[type(event)](event):
        key = KEY64_64.pack(tsid, record.seq)
        state.put(tables.HAPPENINGS, key, rows.seal_row(key, bytes((happening,))))


def newest(cursor: lmdb.Cursor, tsid: int) -> Iterator[tuple[int, Happening]]:
    """`(seq, what)` of what has happened to a memory after it was made, newest first, by a cursor of `happenings`.
    Raises DamagedRow."""
    for key, payload in newest_first(cursor, tables.HAPPENINGS, KEY64.pack(tsid)):
        yield KEY64_64.unpack(key)[1], Happening(payload[0])


FOLDS: dict[type, Callable[..., None]] = dict.fromkeys(HAPPENINGS, fold)
