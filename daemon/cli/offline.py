"""`noctuary audit --state DIR`: the store is opened for reading by this process if nobody holds its lock."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from daemon.prepare import UNSET
from daemon.reads.audit import audit, head_result
from daemon.wire.results import AuditResult, FindingOut
from journal.errors import DamagedStore, StoreLocked
from journal.keycheck import check_keys
from journal.store import Store, open_store
from journal.verify import verify_in_child
from projections.store import ProjectionStore


def audit_offline(state: Path, rebuild: bool) -> dict[str, Any] | None:
    """The result as on the wire; None when the lock is held. Raises NoctuaryFault."""
    try:
        store = open_store(state, version="", now_ms=0, readonly=True)
    except StoreLocked:
        return None
    except DamagedStore as error:
        finding = {"code": "store_damaged", "seq": error.seq, "what": str(error), "action": error.action}
        return {"records": 0, "head": None, "digests": {}, "findings": [finding]}
    try:
        told = msgspec.to_builtins(_audit(store, state, rebuild))
    finally:
        store.close(clean=False)
    return dict(told)


def _audit(store: Store, state: Path, rebuild: bool) -> AuditResult:
    """Pages out of order can kill a reader, so a child walks first."""
    walked = verify_in_child(state)
    found = walked.findings or check_keys(store.log, store.vault)
    findings = [FindingOut(code=f.code, seq=f.seq, what=f.what, action=f.action) for f in found]
    if findings or not rebuild:
        head = head_result(store, store.log.head())
        return AuditResult(records=walked.records, head=head, digests={}, findings=findings)
    projections = ProjectionStore.open(store.dir.projections_dir, store.boot_id)
    try:
        projections.catch_up(store.log)
        params = SimpleNamespace(from_seq=UNSET, to_seq=UNSET, rebuild=True, against=UNSET)
        return audit(store, projections, params)
    finally:
        projections.close(clean=True)
