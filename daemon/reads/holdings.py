"""What one tenant has: for who hands all of it over, or must know what is left of it behind a purge.

Method: one snapshot of the projections says up to which record. What they hold is counted by whose it is
(`projections/holdings.py`), and each record of the tenant up to there is looked at for sealed parts: whether the key of
each part that it owns is still there. Nothing is unsealed. `readable` is what a purge of everything leaves nothing in.
"""

from __future__ import annotations

from collections import Counter

from daemon.asking import NOBODY, Asking
from daemon.reads.audit import head_result
from daemon.wire import audit_results as r
from journal.codes import Part
from journal.frames import parts_of, rows_between
from journal.record import Head, decode_value
from journal.store import Store
from journal.vault import SlotState
from projections.holdings import held_by
from projections.state import State
from projections.store import ProjectionStore

CHUNK_RECORDS = 4096
READABLE_TOLD = 100


def holdings(
    store: Store, projections: ProjectionStore, name: str, number: int, asking: Asking = NOBODY,
    destroyed: frozenset[int] = frozenset(),
) -> r.TenantHoldings:  # fmt: skip
    """Of the tenant `name`; `number` 0: it never began, and has nothing. `destroyed`: slots whose keys count as gone.

    Raises DamagedRow, DamagedRecord, and Refused once `asking` is to end.
    """
    with projections.snapshot() as snapshot:
        state = State(snapshot, projections.counters, snapshot.head)
        seq = snapshot.watermark_seq()
        held = held_by(state, number, asking.check) if number else None
    with store.env.read() as txn:
        chain = store.log.chain_of(txn, seq)
    told = r.TenantHoldings(
        tenant=name, head=head_result(store, Head(store.epoch, seq, chain)), records=0,
        entries={} if held is None else held.entries,
        things={} if held is None else {
            database: r.ThingsOut(count=each.total, digest=each.digest) for database, each in held.things.items()
        },
        readable={}, readable_seqs=[], destroyed=0,
    )  # fmt: skip
    if number:
        _look_at_parts(store, number, told, asking, destroyed)
    return told


def _look_at_parts(
    store: Store, number: int, told: r.TenantHoldings, asking: Asking, destroyed: frozenset[int]
) -> None:
    readable: Counter[str] = Counter()
    last = told.head.seq
    for first in range(1, last + 1, CHUNK_RECORDS):
        asking.step("holdings", first - 1, last)
        with store.env.read() as txn:
            for row in rows_between(store.log, txn, first, min(first + CHUNK_RECORDS - 1, last)):
                if row.outline().tenant != number:
                    continue
                told.records += 1
                own = [part for part in parts_of(decode_value(row.seq, row.value).event) if part.owner_seq == row.seq]
                there = [part for part in own if part.slot and not _is_gone(store, part.slot, destroyed)]
                told.destroyed += len(own) - len(there)
                readable.update(Part(part.part).wire for part in there)
                if there and len(told.readable_seqs) < READABLE_TOLD:
                    told.readable_seqs.append(row.seq)
    told.readable = dict(sorted(readable.items()))


def _is_gone(store: Store, slot: int, destroyed: frozenset[int]) -> bool:
    return slot in destroyed or store.vault.state(slot) is SlotState.SHREDDED
