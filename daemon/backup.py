"""backup: a copy of the store on the daemon's host, made while it serves. What is written, and how, is in
`journal/backup.py`; here is who is told what.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import lmdb
import msgspec
import structlog

from daemon.asking import Asking
from daemon.prepare import UNSET
from daemon.refusal import Reason, Refused
from daemon.wire import exchange_results as r
from daemon.wire.times import format_ms
from journal.backup import NoRoomThere, Place, Source, Written, back_up
from journal.destination import OccupiedDirectory
from journal.errors import CannotCreate, DamagedStore, NoctuaryFault
from journal.events import Opened
from journal.manifest import PARTS
from journal.store import Store
from journal.verify import Finding, WalkStopped

if TYPE_CHECKING:
    from daemon.service import Service

RETRY_MS = 1000

log = structlog.get_logger("backup")


def backup(service: Service, params: Any, asking: Asking) -> r.BackupResult:
    """Write the parts asked for into the directory; its manifest, and what could not be removed. Raises Refused."""
    try:
        written = back_up(_source(service, asking), params.dir, PARTS if params.parts is UNSET else params.parts)
    except WalkStopped:
        asking.check()
        raise
    except (NoctuaryFault, OSError, lmdb.Error) as error:
        if isinstance(error, DamagedStore) and error.what.startswith("journal"):
            service.store.note(Finding("record_damaged", error.seq, f"{error.what}: {error.found}", error.action))
        raise _refusal(error) from error
    _log(written)
    answer = msgspec.convert(msgspec.to_builtins(written.manifest), r.BackupResult)
    if written.leftover:
        answer.leftover = list(written.leftover)
    return answer


def _source(service: Service, asking: Asking) -> Source:
    store, writer = service.store, service.writer
    return Source(
        store,
        _version(store),
        lambda: format_ms(service.moment.now_ms()),
        lambda: writer.between(lambda: Place(store.log.head(), store.log.state)),
        asking.step,
        asking.should_stop,
    )


def _version(store: Store) -> str:
    """Of the program that has the store open. Raises DamagedRecord."""
    with store.env.read() as txn:
        opened = store.log.get(txn, store.log.state.opened_seq)
    return opened.event.version if opened is not None and isinstance(opened.event, Opened) else ""


def _refusal(error: NoctuaryFault | OSError | lmdb.Error) -> Refused:
    """What the caller is told. A disk that can't be written to is the backup's matter: the daemon goes on."""
    if isinstance(error, OccupiedDirectory):
        return Refused(Reason.CONFLICT, str(error), parameter="dir")
    if isinstance(error, CannotCreate):
        return Refused(Reason.INVALID_INPUT, str(error), parameter="dir")
    if isinstance(error, NoRoomThere):
        return Refused(
            Reason.READ_ONLY, "there is not enough room for the backup",
            parameter="dir", free_bytes=error.space.free_bytes, needed_bytes=error.space.needed_bytes,
        )  # fmt: skip
    if isinstance(error, DamagedStore | lmdb.Error):
        seq = getattr(error, "seq", None)
        log.error("backup_damaged", seq=seq)
        return Refused(Reason.DAMAGED, f"nothing was backed up: {error}", seq=seq)
    name = _errno_name(error)
    log.error("backup_failed", error_class=type(error).__name__, why=name)
    told = f"the backup could not be written: {name or error}"
    return Refused(Reason.UNAVAILABLE, told, parameter="dir", errno=name, retry_after_ms=RETRY_MS)


def _errno_name(error: BaseException) -> str | None:
    """Of the system's error that is behind it, None when nothing says."""
    behind: BaseException | None = error
    while behind is not None:
        if isinstance(behind, OSError) and behind.errno is not None:
            return errno.errorcode.get(behind.errno)
        behind = behind.__cause__
    return None


def _log(written: Written) -> None:
    for what in PARTS:
        part = written.manifest.part(what)
        if part is not None:
            log.info("backup", what=what, epoch=part.epoch, seq=part.seq, bytes=part.file.bytes)
    if written.why is not None:
        why = _errno_name(written.why)
        log.warning("backup_leftover", what=written.leftover, error_class=type(written.why).__name__, why=why)
