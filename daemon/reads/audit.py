"""audit: is the journal what was written, and are the projections what folding it gives?

Method: everything is compared as of one moment. The walk ends at the head as of its begin; the live projections'
digests and the record they stand at come from one transaction, and a scratch store is folded exactly to that
record. So a service that goes on meanwhile changes nothing in what is found.

The rows of the provenance region are compared with the edges, which are the truth about them, and with their indexes:
all of them with `rebuild`, else the newest `PLAIN_REGION_ROWS` of each tenant. What a digest leaves out (where keys lie
in the vault) is read for its checksums. A projection that is found wrong is noted as damaged, so that it is folded
again beside the service. With `rebuild` every entry of the projections is asked whose it is too
(`projections/tenancy.py`): none may join two tenants. And no key is left of what is purged (`reads/audit_living.py`):
of all that ever was with `rebuild`, else of what was purged last.

Records, keys and digests are the store's. What a finding in the projections names (a memory, the key of an entry) is
told to whom its tenant is open; others are told that there is something, and of which projection.

It tells how far it is in four phases: `walk` (records), `keys` (once), `digests` (steps of entries), `fold` (records).
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from daemon.asking import NOBODY, Asking
from daemon.prepare import UNSET, invalid
from daemon.reads.audit_living import living_findings
from daemon.wire import results as r
from daemon.wire.audit_results import AuditResult
from daemon.wire.times import format_ms
from journal.errors import DamagedRecord
from journal.forks import forked_seq
from journal.frames import rows_between
from journal.keycheck import check_keys
from journal.record import Head
from journal.store import Store
from journal.tsid import memory_ref
from journal.verify import Finding, Progress, WalkStopped, verify_log
from projections.blocks import SLOT
from projections.region_check import disagreeing
from projections.rows import DamagedRow
from projections.state import State
from projections.store import DIGEST_STEP_ENTRIES, ProjectionStore
from projections.tables import BLOCKS, PROJECTIONS, REGION
from projections.tenancy import crossing

CROSSINGS_TOLD = 100
_REFOLD = "Run `noctuary rebuild`; what is still found then stands in the journal: tell who wrote it."

FOLDED_AGAIN = frozenset({"projection_differs", "projection_damaged", "provenance_differs"})
"""The codes of what is wrong with projections only."""
PLAIN_REGION_ROWS = 10_000
"""Half a second or so."""
PLAIN_PURGED = 500
"""Each costs up to a millisecond: its records are read."""


Sees = Callable[[int], bool]
"""Whether the caller may be told of what belongs to the tenant of that number."""


def everything(tenant: int) -> bool:
    """What an operator sees, and whoever opens the store itself."""
    return True


def audit(
    store: Store, projections: ProjectionStore, params: Any, asking: Asking = NOBODY, sees: Sees = everything
) -> AuditResult:
    """Walk the log; with `rebuild` fold it beside the live one and compare digests.

    Raises StoreIO, and Refused once `asking` is to end.
    """
    try:
        return _audit(store, projections, params, asking, sees)
    except WalkStopped:
        asking.check()
        raise


def _audit(store: Store, projections: ProjectionStore, params: Any, asking: Asking, sees: Sees) -> AuditResult:
    from_seq = 1 if params.from_seq is UNSET else max(1, params.from_seq)
    head = store.log.head()
    to_seq = head.seq if params.to_seq is UNSET else min(params.to_seq, head.seq)
    if head.seq and from_seq > to_seq:
        name = "from_seq" if params.from_seq is not UNSET and from_seq > head.seq else "to_seq"
        raise invalid(name, f"no record lies from {from_seq} to {to_seq}", limit=head.seq)

    def walked(at: Progress) -> None:
        asking.step("walk", at.seq - from_seq + 1, at.to_seq - from_seq + 1)

    checked = verify_log(store.log, from_seq, to_seq, walked, asking.should_stop)
    found = list(checked.findings) or _keys(store, asking)
    findings = [r.FindingOut(code=f.code, seq=f.seq, what=f.what, action=f.action) for f in found]
    digests: dict[str, str] = {}
    if not checked.findings and params.rebuild:
        seq, digests = _digests(projections, asking)
        findings += _compare(store, projections, seq, digests, asking)
        findings += tenant_findings(store, projections, asking, sees)
    elif not checked.findings:
        digests = projections.digests() if asking is NOBODY else _digests(projections, asking)[1]
    if not checked.findings:
        findings += region_findings(projections, asking, None if params.rebuild else PLAIN_REGION_ROWS, sees)
        findings += _slot_findings(projections, asking)
        findings += _living_findings(store, projections, asking, None if params.rebuild else PLAIN_PURGED, sees)
    result = AuditResult(records=checked.records, head=head_result(store, head), digests=digests, findings=findings)
    if params.against is not UNSET:
        result.against = [_against(store, noted) for noted in params.against]
    return result


def head_result(store: Store, head: Head) -> r.HeadResult:
    """A head on the wire. One whose record is damaged has no time."""
    at = None
    with store.env.read() as txn, suppress(DamagedRecord):
        record = store.log.get(txn, head.seq) if head.seq else None
        if record is not None:
            at = format_ms(record.at_ms)
    return r.HeadResult(store=store.store_id.hex(), epoch=head.epoch, seq=head.seq, chain=head.chain.hex(), at=at)


def _keys(store: Store, asking: Asking) -> list[Finding]:
    """What is odd about the vault. Only a part of the journal may have been walked: another may be damaged."""
    asking.step("keys", 0, 1)
    try:
        return check_keys(store.log, store.vault, asking.should_stop)
    except DamagedRecord as error:
        return [Finding("record_damaged", error.seq, f"its {error.check} check failed", error.action)]


def _digests(projections: ProjectionStore, asking: Asking) -> tuple[int, dict[str, str]]:
    """`(the record they stand at, digests)`. What is written meanwhile may add a step."""
    env = projections.env  # once: a rebuild may put another in its place
    with env.read() as txn:
        entries = [env.entries(txn, name) for names in PROJECTIONS.values() for name in names]
    steps = sum(-(-each // DIGEST_STEP_ENTRIES) for each in entries)
    taken = itertools.count()
    return projections.digests_at(lambda: asking.step("digests", min(next(taken), steps), steps))


def _compare(
    store: Store, projections: ProjectionStore, seq: int, live: dict[str, str], asking: Asking
) -> list[r.FindingOut]:
    """Fold the journal up to record `seq` into a scratch store, and compare it with the digests as of then. What
    differs is noted as damaged."""
    scratch = store.dir.make_audit_dir()
    try:
        folded = _folded(store, scratch, seq, asking)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    differing = [name for name in folded if folded[name] != live[name]]
    for name in differing:
        if projections.damaged.isdisjoint(PROJECTIONS[name]):  # else what is damaged in it is known already
            projections.note_damage(PROJECTIONS[name][0])
    return [_wrong("projection_differs", name, name) for name in differing]


def _wrong(code: str, what: str, projection: str) -> r.FindingOut:
    action = f"It is folded again beside the service; without one: `noctuary rebuild {projection}`."
    return r.FindingOut(code=code, seq=None, what=what, action=action)


def _damaged(projections: ProjectionStore, error: DamagedRow) -> list[r.FindingOut]:
    projections.note_damage(error.database)
    owner = next((name for name, owned in PROJECTIONS.items() if error.database in owned), "all")
    return [_wrong("projection_damaged", error.database, owner)]


def region_findings(
    projections: ProjectionStore, asking: Asking = NOBODY, newest: int | None = None, sees: Sees = everything
) -> list[r.FindingOut]:
    """Where the provenance region, its indexes and the edges don't say the same; `newest`: of so many rows of each
    tenant only. Raises Refused once `asking` is to end."""

    def told(kind: int, tsid: int) -> str:
        row = state.memory(tsid) if sees is not everything else None
        return memory_ref(kind, tsid) if sees is everything or (row is not None and sees(row.tenant)) else REGION

    with projections.snapshot() as snapshot:
        state = State(snapshot, projections.counters, snapshot.head)
        try:
            found = dict.fromkeys(told(*ref) for ref in disagreeing(state, asking.check, newest))
        except DamagedRow as error:
            return _damaged(projections, error)
    if found:
        projections.note_damage(REGION)
    return [_wrong("provenance_differs", what, "provenance") for what in found]


def _slot_findings(projections: ProjectionStore, asking: Asking) -> list[r.FindingOut]:
    """What is damaged in the one thing that digests leave out."""
    with projections.snapshot() as snapshot:
        state = State(snapshot, projections.counters, snapshot.head)
        try:
            for _ in state.entries(BLOCKS, bytes((SLOT,))):
                asking.check()
        except DamagedRow as error:
            return _damaged(projections, error)
    return []


def _living_findings(
    store: Store, projections: ProjectionStore, asking: Asking, newest: int | None, sees: Sees
) -> list[r.FindingOut]:
    try:
        return living_findings(store, projections, asking, newest, sees)
    except DamagedRow as error:
        return _damaged(projections, error)


def tenant_findings(
    store: Store, projections: ProjectionStore, asking: Asking = NOBODY, sees: Sees = everything
) -> list[r.FindingOut]:
    """Entries that name things of two tenants, or are nobody's: `cross_tenant`, at most CROSSINGS_TOLD of them. What
    their keys are is told to whom everything is open. Raises Refused once `asking` is to end."""
    with projections.snapshot() as snapshot, store.env.read() as txn:
        state = State(snapshot, projections.counters, snapshot.head)

        def of_record(seq: int) -> int | None:
            row = next(rows_between(store.log, txn, seq, seq))
            return row.outline().tenant

        try:
            found = list(itertools.islice(crossing(state, asking.check, of_record), CROSSINGS_TOLD))
        except DamagedRow as error:
            return _damaged(projections, error)
        except DamagedRecord as error:
            return [r.FindingOut(code="record_damaged", seq=error.seq, what=str(error), action=error.action)]
    if sees is everything:
        told = [f"{each.database} {each.key.hex()}" for each in found]
    else:
        told = list(dict.fromkeys(each.database for each in found))
    return [r.FindingOut(code="cross_tenant", seq=None, what=what, action=_REFOLD) for what in told]


def _folded(store: Store, scratch: Path, seq: int, asking: Asking) -> dict[str, str]:
    """The digests of the journal's records up to `seq`, folded in the directory `scratch`."""
    rebuilt = ProjectionStore.open(scratch, store.boot_id)
    try:
        rebuilt.catch_up(store.log, lambda reached, _head: asking.step("fold", reached, seq), to_seq=seq)
        return _digests(rebuilt, asking)[1]
    finally:
        rebuilt.close(clean=False)


def _against(store: Store, noted: Any) -> str:
    """What became of a head that was noted. One of an earlier epoch, from behind the place that a restore went on
    from, is rewritten from the record on that says so.
    """
    head, forked = store.log.head(), None
    if noted.store != store.store_id.hex():
        return "other store"
    if noted.epoch < head.epoch:
        with suppress(DamagedRecord):  # it is a finding; what can be said is said
            forked = forked_seq(store.log, noted.epoch)
        if forked is not None and noted.seq > forked:
            return f"rewritten at {forked + 1}"
    if noted.seq > head.seq:
        return f"journal behind by {noted.seq - head.seq}"
    chain = b""  # of a damaged record: it is not what was noted, whoever did that
    with store.env.read() as txn, suppress(DamagedRecord):
        chain = store.log.chain_of(txn, noted.seq)
    return "same" if chain.hex() == noted.chain else f"rewritten at {noted.seq}"
