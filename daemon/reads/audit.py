"""audit: is the journal what was written, and are the projections what folding it gives?

Method: everything is compared as of one moment. The walk ends at the head as of its begin; the live projections'
digests and the record they stand at come from one transaction, and a scratch store is folded exactly to that
record. So a service that goes on meanwhile changes nothing in what is found.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from daemon.prepare import UNSET
from daemon.refusal import Reason, Refused
from daemon.wire import results as r
from daemon.wire.times import format_ms
from journal.errors import DamagedRecord
from journal.keycheck import check_keys
from journal.record import Head
from journal.store import Store
from journal.verify import Finding, ShouldStop, WalkStopped, never, verify_log
from projections.store import ProjectionStore

RETRY_MS = 1000


def audit(store: Store, projections: ProjectionStore, params: Any, should_stop: ShouldStop = never) -> r.AuditResult:
    """Walk the log; with `rebuild` fold it beside the live one and compare digests.

    Raises StoreIO, and Refused as unavailable once `should_stop` says so.
    """
    try:
        return _audit(store, projections, params, should_stop)
    except WalkStopped:
        raise Refused(Reason.UNAVAILABLE, "the audit was ended: the daemon stops", retry_after_ms=RETRY_MS) from None


def _audit(store: Store, projections: ProjectionStore, params: Any, should_stop: ShouldStop) -> r.AuditResult:
    from_seq = 1 if params.from_seq is UNSET else max(1, params.from_seq)
    head = store.log.head()
    to_seq = head.seq if params.to_seq is UNSET else min(params.to_seq, head.seq)
    checked = verify_log(store.log, from_seq, to_seq, should_stop=should_stop)
    found = list(checked.findings) or _keys(store, should_stop)
    findings = [r.FindingOut(code=f.code, seq=f.seq, what=f.what, action=f.action) for f in found]
    digests: dict[str, str] = {}
    if not checked.findings and params.rebuild:
        seq, digests = projections.digests_at(lambda: _go_on(should_stop))
        findings += _compare(store, seq, digests, should_stop)
    elif not checked.findings:
        digests = projections.digests()
    result = r.AuditResult(records=checked.records, head=head_result(store, head), digests=digests, findings=findings)
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


def _go_on(should_stop: ShouldStop) -> None:
    """Raises WalkStopped when it is not to go on."""
    if should_stop():
        raise WalkStopped


def _keys(store: Store, should_stop: ShouldStop) -> list[Finding]:
    """What is odd about the vault. Only a part of the journal may have been walked: another may be damaged."""
    try:
        return check_keys(store.log, store.vault, should_stop)
    except DamagedRecord as error:
        return [Finding("record_damaged", error.seq, f"its {error.check} check failed", error.action)]


def _compare(store: Store, seq: int, live: dict[str, str], should_stop: ShouldStop) -> list[r.FindingOut]:
    """Fold the journal up to record `seq` into a scratch store, and compare it with the digests as of then."""
    scratch = store.dir.make_audit_dir()
    try:
        folded = _folded(store, scratch, seq, should_stop)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return [
        r.FindingOut(
            code="projection_differs", seq=None, what=name,
            action="Stop the daemon, delete the directory projections/ and start it: it is folded again.",
        )
        for name in folded
        if folded[name] != live[name]
    ]  # fmt: skip


def _folded(store: Store, scratch: Path, seq: int, should_stop: ShouldStop) -> dict[str, str]:
    """The digests of the journal's records up to `seq`, folded in the directory `scratch`."""
    rebuilt = ProjectionStore.open(scratch, store.boot_id)
    try:
        rebuilt.catch_up(store.log, lambda _seq, _to_seq: _go_on(should_stop), to_seq=seq)
        return rebuilt.digests_at(lambda: _go_on(should_stop))[1]
    finally:
        rebuilt.close(clean=False)


def _against(store: Store, noted: Any) -> str:
    head = store.log.head()
    if noted.store != store.store_id.hex():
        return "other store"
    if noted.seq > head.seq:
        return f"journal behind by {noted.seq - head.seq}"
    chain = b""  # of a damaged record: it is not what was noted, whoever did that
    with store.env.read() as txn, suppress(DamagedRecord):
        chain = store.log.chain_of(txn, noted.seq)
    return "same" if chain.hex() == noted.chain else f"rewritten at {noted.seq}"
