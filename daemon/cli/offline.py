"""A store that nobody holds (`audit`, `export`): read by this process, and nothing is written under $STATE.

Method: a child walks the journal before this process opens it, for pages out of order can kill a reader. LMDB sees
the store's files through links in a scratch directory, where its lock files come to lie; the scratch fold of
`--rebuild` stands there too. The store's own lock is held meanwhile.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import lmdb
import msgspec

from daemon.asking import Tell
from daemon.cli.export_tenant import held_offline
from daemon.prepare import UNSET
from daemon.reads.audit import audit, head_result, region_findings, tenant_findings
from daemon.wire.audit_results import AuditResult
from daemon.wire.exchange_params import AuditParams
from daemon.wire.results import FindingOut, HeadResult
from journal.copying import make_lock_file
from journal.errors import DamagedStore, StoreAbsent, StoreIO, StoreLocked
from journal.keycheck import check_keys
from journal.layout import DATA_FILE, StateDir, StoreLock, new_path, read_format
from journal.masterkey import Keys
from journal.store import Destroying, Store
from journal.verify import Finding, Verification, verify_in_child
from projections.rows import DamagedRow
from projections.store import ProjectionStore

_REBUILD: Final = "Run `noctuary rebuild`: they are folded again."
_RESTORE: Final = "Put back the file that belongs to this store."
NO_KEY: Final = Keys(keyless=True)
NOT_COMPARED: Final = "the projections are not compared: what is there isn't trusted, the daemon folds it anew"


@dataclass(frozen=True, slots=True)
class View(StateDir):
    """The names of a store whose LMDB files are seen through links under `root`; the rest is at its place."""

    real: StateDir

    @property
    def format_file(self) -> Path:
        return self.real.format_file

    @property
    def purges_file(self) -> Path:
        return self.real.purges_file

    @property
    def vault_file(self) -> Path:
        return self.real.vault_file

    @property
    def head_file(self) -> Path:
        return self.real.head_file


def _to_nobody(_phase: str, _done: int, _of: int) -> None:
    """Nobody wants to know how far it is."""


def store_at(state: Path) -> str:
    """The id of the store in `state`, hex. Raises StoreAbsent, DamagedStore."""
    return read_format(StateDir(state).format_file).hex()


def audit_offline(
    state: Path, params: AuditParams, tell: Tell = _to_nobody, keys: Keys = NO_KEY
) -> dict[str, Any] | None:
    """The result as on the wire, with `notes`; None when the lock is held. `tell` hears how far it is. It takes no
    master key; with one, whether that is the right one is seen, and whether it opens every slot.

    Raises NoctuaryFault.
    """
    real = StateDir(state.absolute())
    try:
        lock = _lock(real)
    except StoreLocked:
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="noctuary-audit-") as scratch:
            return _audit(Store(View(Path(scratch), real), lock, readonly=True, keys=keys), params, tell)
    finally:
        lock.release()


def _lock(real: StateDir) -> StoreLock:
    """The store's lock, without making its file: one that isn't there is held by nobody. Raises StoreLocked."""
    if not real.root.is_dir():
        raise StoreAbsent(f"{real.root} does not exist")
    real.check_safe()
    try:
        descriptor = os.open(real.lock_file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return StoreLock(-1)
    except OSError as error:
        raise StoreIO(f"lock: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise StoreLocked(f"{real.root} is open in another process") from error
    return StoreLock(descriptor)


@contextmanager
def open_to_read(state: Path, keys: Keys = NO_KEY) -> Iterator[tuple[Store, list[Destroying]]]:
    """The store in `state`, checked as at a start and walked in a child, with the records that destroy keys.

    Raises StoreLocked when another process has it open, StoreAbsent, MasterKeyFault before the walk, and DamagedStore
    for whatever is found.
    """
    real = StateDir(state.absolute())
    lock = _lock(real)
    try:
        with tempfile.TemporaryDirectory(prefix="noctuary-read-") as scratch:
            view = View(Path(scratch), real)
            store = Store(view, lock, readonly=True, keys=keys)
            store.store_id = _store_id(real)
            store.check_master_key()
            _link_journal(view)
            for found in verify_in_child(view.root).findings:
                raise DamagedStore("journal", f"{found.code}: {found.what}", found.action, found.seq)
            try:
                yield store, store.check(None)
            except lmdb.Error as error:
                raise DamagedStore("journal", str(error), _RESTORE) from error
            finally:
                store.close(clean=False)
    finally:
        lock.release()


def _link_journal(view: View) -> None:
    view.journal_dir.mkdir()
    (view.journal_dir / DATA_FILE).symlink_to(view.real.journal_dir.resolve() / DATA_FILE)
    make_lock_file(view.journal_dir)  # where the scratch disk is full, this says so


def _audit(store: Store, params: AuditParams, tell: Tell) -> dict[str, Any]:
    view = cast(View, store.dir)
    try:
        store.store_id = _store_id(view.real)
    except DamagedStore as error:
        return _only(0, [_fault(error)])
    store.check_master_key()
    _link_journal(view)
    tell("walk", 0, 1)  # in a child, which doesn't say how far it is
    walked = verify_in_child(view.root)
    if walked.findings:
        return _damaged(store.store_id, walked)
    try:
        store.check(None)
        return _opened(store, view, walked, params, tell)
    except lmdb.Error as error:
        fault = DamagedStore("journal", str(error), _RESTORE)
    except DamagedStore as error:
        fault = error
    finally:
        store.close(clean=False)
    return _only(walked.records, [_fault(fault)])


def _store_id(real: StateDir) -> bytes:
    """Raises StoreAbsent, and DamagedStore where FORMAT is lost but the rest of a store is there."""
    try:
        return read_format(real.format_file)
    except StoreAbsent:
        unfinished = new_path(real.format_file).exists()
        if unfinished or not (real.journal_dir.exists() or real.vault_file.exists()):
            raise
    raise DamagedStore("FORMAT", "it is missing, but a journal or a vault is there", _RESTORE)


def _opened(store: Store, view: View, walked: Verification, params: AuditParams, tell: Tell) -> dict[str, Any]:
    """What an opened journal says: its keys, the range and the heads asked about, the fold."""
    bounded = any(value is not UNSET for value in (params.from_seq, params.to_seq, params.against))
    if bounded:
        asked = AuditParams(from_seq=params.from_seq, to_seq=params.to_seq, against=params.against)
        nothing = ProjectionStore.open(view.root / "nothing", store.boot_id)
        try:
            result = audit(store, nothing, asked)
        finally:
            nothing.close(clean=False)
        result.digests = {}  # of nothing
    else:
        findings = [_finding(each) for each in check_keys(store.log, store.vault)]
        head = head_result(store, store.log.head())
        result = AuditResult(records=walked.records, head=head, digests={}, findings=findings)
    if result.findings:
        return _told(result)
    if params.tenant is not UNSET:
        result.holdings = held_offline(store, params.tenant)
    if not params.rebuild:
        return _told(result)
    notes = _rebuilt(store, view, result, tell)
    return _told(result, notes)


def _rebuilt(store: Store, view: View, result: AuditResult, tell: Tell) -> list[str]:
    """Fold the journal beside the store, and compare at the record where the trusted projections stand."""
    folded = ProjectionStore.open(view.root / "folded", store.boot_id)
    try:
        notes = _compared(store, view, folded, result, tell)
        folded.catch_up(store.log, partial(tell, "fold"))
        result.digests = folded.digests()
        result.findings += region_findings(folded)
        result.findings += tenant_findings(store, folded)
    finally:
        folded.close(clean=False)
    return notes


def _compared(store: Store, view: View, folded: ProjectionStore, result: AuditResult, tell: Tell) -> list[str]:
    live: ProjectionStore | None = None
    try:
        place = view.real.projections_dir
        live = ProjectionStore.open_readonly(place, view.root / "projections", store.boot_id, store.log)
        if live is None:
            return [NOT_COMPARED]
        folded.catch_up(store.log, partial(tell, "fold"), live.head.seq)
        wanted, found = folded.digests(), live.digests()
    except DamagedStore as error:
        result.findings.append(_fault(error))
        return []
    except (lmdb.Error, DamagedRow):
        return [NOT_COMPARED]
    finally:
        if live is not None:
            live.env.close()
    result.findings += [
        FindingOut(code="projection_differs", seq=None, what=name, action=_REBUILD)
        for name, digest in wanted.items()
        if found[name] != digest
    ]
    return [f"the projections were compared at record {live.head.seq}"]


def _damaged(store_id: bytes, walked: Verification) -> dict[str, Any]:
    head: HeadResult | None = None
    if walked.head is not None:
        epoch, seq, chain = walked.head
        head = HeadResult(store=store_id.hex(), epoch=epoch, seq=seq, chain=chain.hex(), at=None)
    return _only(walked.records, [_finding(each) for each in walked.findings], head)


def _only(records: int, findings: list[FindingOut], head: HeadResult | None = None) -> dict[str, Any]:
    """What there is to tell of a store that wasn't opened."""
    told: dict[str, Any] = msgspec.to_builtins({"records": records, "head": head, "findings": findings})
    return {**told, "digests": {}, "notes": []}


def _finding(found: Finding) -> FindingOut:
    return FindingOut(code=found.code, seq=found.seq, what=found.what, action=found.action)


def _fault(error: DamagedStore) -> FindingOut:
    return FindingOut(code="store_damaged", seq=error.seq, what=f"{error.what}: {error.found}", action=error.action)


def _told(result: AuditResult, notes: list[str] | None = None) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(result)
    return {**told, "notes": notes or []}
