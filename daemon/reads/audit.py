"""audit: is the journal what was written, and are the projections what folding it gives?"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from daemon.prepare import UNSET
from daemon.wire import results as r
from daemon.wire.times import format_ms
from journal.keycheck import check_keys
from journal.record import Head
from journal.store import Store
from journal.verify import verify_log
from projections.store import ProjectionStore


def audit(store: Store, projections: ProjectionStore, params: Any) -> r.AuditResult:
    """Walk the log; with `rebuild` fold it beside the live one and compare digests. Raises StoreIO."""
    from_seq = 1 if params.from_seq is UNSET else max(1, params.from_seq)
    head = store.log.head()
    to_seq = head.seq if params.to_seq is UNSET else min(params.to_seq, head.seq)
    checked = verify_log(store.log, from_seq, to_seq)
    found = list(checked.findings)
    if not found:
        found += check_keys(store.log, store.vault)
    findings = [r.FindingOut(code=f.code, seq=f.seq, what=f.what, action=f.action) for f in found]
    digests: dict[str, str] = {}
    if not checked.findings:
        digests = projections.digests()
        if params.rebuild:
            findings += _compare(store, projections)
    result = r.AuditResult(records=checked.records, head=head_result(store, head), digests=digests, findings=findings)
    if params.against is not UNSET:
        result.against = [_against(store, noted) for noted in params.against]
    return result


def head_result(store: Store, head: Head) -> r.HeadResult:
    """A head on the wire."""
    at = None
    with store.env.read() as txn:
        record = store.log.get(txn, head.seq) if head.seq else None
        if record is not None:
            at = format_ms(record.at_ms)
    return r.HeadResult(store=store.store_id.hex(), epoch=head.epoch, seq=head.seq, chain=head.chain.hex(), at=at)


def _compare(store: Store, projections: ProjectionStore) -> list[r.FindingOut]:
    """Fold the whole journal into a scratch store and compare it with the live one at the same head."""
    scratch = Path(store.dir.root) / "audit.new"
    shutil.rmtree(scratch, ignore_errors=True)
    rebuilt = ProjectionStore.open(scratch, store.boot_id)
    try:
        for _ in range(8):
            rebuilt.catch_up(store.log)
            live = projections.digests()
            if projections.head.seq == rebuilt.head.seq:
                break
        folded = rebuilt.digests()
    finally:
        rebuilt.close(clean=False)
        shutil.rmtree(scratch, ignore_errors=True)
    return [
        r.FindingOut(
            code="projection_differs", seq=None, what=name,
            action="Stop the daemon, delete the directory projections/ and start it: it is folded again.",
        )
        for name in folded
        if folded[name] != live[name]
    ]  # fmt: skip


def _against(store: Store, noted: Any) -> str:
    head = store.log.head()
    if noted.store != store.store_id.hex():
        return "other store"
    if noted.seq > head.seq:
        return f"journal behind by {noted.seq - head.seq}"
    with store.env.read() as txn:
        chain = store.log.chain_of(txn, noted.seq)
    return "same" if chain.hex() == noted.chain else f"rewritten at {noted.seq}"
