"""residue: does anything that the state directory holds still yield a text (contract ERASURE §5)?

For operators, of the store as a whole. Whose a text is, is told as of now: of a text that several memories share one
that has it by right is named, if there is one, so that what was purged is named only for what it left.

What is looked for is in no log, no record and no count. Nothing is written.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from daemon.asking import NOBODY, Asking
from daemon.wire import erasure_results as e
from daemon.wire.erasure_params import ResidueParams
from journal.codes import Part, Status
from journal.errors import DamagedRecord
from journal.events import EVENT_WORDS, Ref
from journal.residue import Found, Readable, search
from journal.store import Store
from journal.tsid import memory_ref
from projections import texts
from projections.rows import MemoryRow
from projections.state import State
from projections.store import ProjectionStore


def residue(
    store: Store, projections: ProjectionStore, params: ResidueParams, asking: Asking = NOBODY, root: Path | None = None
) -> e.ResidueResult:
    """What is found below `root` (None: the store's directory). Raises Refused once `asking` is to end, StoreIO,
    DamagedStore, DamagedRow."""
    found = search(store, root or store.dir.root, params.pattern.encode(), asking.step)
    with projections.snapshot() as snapshot:
        state = State(snapshot, projections.counters, snapshot.head)
        return _told(store, state, found)


def tenants_told(store: Store, result: e.ResidueResult) -> frozenset[int]:
    """The numbers of the tenants in whose records something was found, 0 for the store's own."""
    tenants = set()
    with store.env.read() as txn:
        for seq in {each.seq for each in result.readable}:
            with suppress(DamagedRecord):
                record = store.log.get(txn, seq)
                tenants.add(0 if record is None else record.tenant)
    return frozenset(tenants)


def _told(store: Store, state: State, found: Found) -> e.ResidueResult:
    return e.ResidueResult(
        bytes=[e.PlainRemnant(file=each.file, offset=each.offset) for each in found.plain],
        readable=[_remnant(store, state, each) for each in found.readable],
        files=found.files, ciphertexts_tried=found.tried, unopenable=found.unopenable, cut=found.cut,
    )  # fmt: skip


def _remnant(store: Store, state: State, found: Readable) -> e.ReadableRemnant:
    whose, row = _whose(state, found)
    try:
        part = Part(found.part).wire
    except ValueError:  # of a later version
        part = str(found.part)
    return e.ReadableRemnant(
        seq=found.seq, part=part, memory=None if whose is None else memory_ref(*whose),
        status=None if row is None else row.status.wire, type=_type(store, found.seq),
    )  # fmt: skip


def _type(store: Store, seq: int) -> str | None:
    """What kind of record a part is of: a session's key is of no memory."""
    try:
        with store.env.read() as txn:
            record = store.log.get(txn, seq)
    except DamagedRecord:
        return None
    return None if record is None else EVENT_WORDS[type(record.event)]


def _whose(state: State, found: Readable) -> tuple[Ref | None, MemoryRow | None]:
    """The memory, and its row if it is known."""
    if found.memory is None:
        return None, None
    row = state.memory(found.memory[1])
    if found.part != Part.TEXT or (row is not None and row.status is not Status.PURGED):
        return found.memory, row
    for tsid in texts.sharing(state, found.seq):
        shared = state.memory(tsid)
        if shared is not None and shared.status is not Status.PURGED:
            return (shared.kind, tsid), shared
    return found.memory, row
