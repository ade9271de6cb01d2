"""Is a key left of what is purged? A part is to go with the last memory that it is about.

Method: what a purge of the purged memories would take is planned once more, as it is planned for a purge; whatever
still has its key then was left behind, by a purge that didn't list it. It costs a look for each memory that was purged,
and for each record about it. What was asked about it behind its purge, under an idempotency key, is sealed since: no
purge could take it, and it has no words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import lmdb

from daemon.asking import Asking
from daemon.erasing import left_behind
from daemon.wire.results import FindingOut
from journal.codes import Mark
from journal.errors import DamagedRecord
from journal.events import Purged
from journal.store import Store
from journal.tsid import memory_ref
from journal.vault import SlotState
from projections.rows import MemoryRow
from projections.state import State
from projections.store import ProjectionStore

KEY_LEFT = "key_left"
FINDINGS_TOLD = 100
_ACTION = "What it seals can still be opened: look with `noctuary residue` what it says, and tell who wrote it."


def living_findings(
    store: Store, projections: ProjectionStore, asking: Asking, newest: int | None, sees: Callable[[int], bool]
) -> list[FindingOut]:
    """`key_left` for each part that can be opened though all that it is about is purged, at most FINDINGS_TOLD of them.
    `newest`: looks at so many memories that were purged last only. Raises DamagedRow, and Refused once `asking` is to
    end."""
    found: list[FindingOut] = []
    purged_by: dict[int, int] = {}
    with projections.snapshot() as snapshot, store.env.read() as txn:
        state = State(snapshot, projections.counters, snapshot.head)
        purged = _purged(store, txn, state, asking, newest, purged_by)
        is_gone = _is_gone(store)
        for tsid, row, part in left_behind(state, lambda seq: store.log.get(txn, seq), purged, is_gone):
            if part.owner_seq > purged_by[tsid]:
                continue
            what = memory_ref(row.kind, tsid) if sees(row.tenant) else "a memory of another tenant"
            found.append(FindingOut(code=KEY_LEFT, seq=part.owner_seq, what=what, action=_ACTION))
            if len(found) == FINDINGS_TOLD:
                break
    return found


def _is_gone(store: Store) -> Callable[[int], bool]:
    """Whether nothing can be opened with a slot; one that is damaged is another finding."""
    return lambda slot: store.vault.state(slot) is not SlotState.KEYED


def _purged(
    store: Store, txn: lmdb.Transaction, state: State, asking: Asking, newest: int | None, purged_by: dict[int, int]
) -> Iterator[tuple[int, MemoryRow]]:
    """The memories that are purged, the last first; `purged_by` is told by which record. A record that can't be read is
    another finding."""
    left = newest
    for seq in reversed(store.log.destroying_seqs()):
        asking.check()
        try:
            record = store.log.get(txn, seq)
        except DamagedRecord:
            continue
        for target in record.event.targets if record is not None and isinstance(record.event, Purged) else ():
            row = state.memory(target.id)
            if row is None or not row.has(Mark.PURGED):
                continue
            if left == 0:
                return
            left = None if left is None else left - 1
            asking.check()
            purged_by[target.id] = seq
            yield target.id, row
