"""One file of an earlier day among newer ones, under a real daemon: refused, or made again from the journal."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from journal.events import MemoryCreated, Purged, PurgeTarget
from journal.record import Actor, Cause, Record, encode_body
from journal.store import open_store, purge_parts
from ops.drills.damage import files_of
from tests.system.process import DaemonProcess, everything

RESTORED = {"journal/lock.mdb", "projections/lock.mdb"}  # LMDB's tables of readers: nothing is kept in them


def remember(daemon: DaemonProcess, name: str) -> None:
    for number in range(30):
        daemon.call("remember", kind="raw", role="user", text=f"{name} {number}", session={"agent": "a", "key": "k"})


def purge_one(state: Path) -> None:
    """Destroy the newest memory, as the verb will."""
    now_ms = time.time_ns() // 1_000_000
    store = open_store(state, version="test", now_ms=now_ms)
    try:
        made = [each.event for chunk in store.log.chunks() for each in chunk if isinstance(each.event, MemoryCreated)]
        purged = Purged(targets=(PurgeTarget(made[-1].kind, made[-1].id),), parts=made[-1].parts)
        seq = store.log.head().seq + 1
        body = encode_body(Record(seq, now_ms, 1, Actor(0, 0, 0), Cause(seq, "purge"), purged))
        purge_parts(store, [body], [], store.log.state)
    finally:
        store.close(clean=True)


class Days:
    """`early`: a copy of the state directory from before half of the writing, a purge and two openings."""

    def __init__(self, daemon: DaemonProcess, end: Callable[[DaemonProcess], object]) -> None:
        self.daemon = daemon
        self.early = daemon.state.with_name("early")
        self.latest = daemon.state.with_name("latest")
        daemon.start()
        remember(daemon, "early")
        assert daemon.stop() == 0
        shutil.copytree(daemon.state, self.early)
        daemon.start()
        remember(daemon, "late")
        assert daemon.stop() == 0
        purge_one(daemon.state)
        daemon.start()
        remember(daemon, "latest")
        self.memories = everything(daemon)
        self.digests = daemon.audit()["digests"]
        end(daemon)
        (daemon.state / "reserve").write_bytes(b"")  # 32 MiB that need no copying
        daemon.state.rename(self.latest)

    def begin(self) -> None:
        """The latest state again."""
        self.daemon.close()
        shutil.rmtree(self.daemon.state, ignore_errors=True)
        shutil.copytree(self.latest, self.daemon.state)

    def bring_back(self, *names: str) -> None:
        for name in names:
            target, source = self.daemon.state / name, self.early / name
            if target.is_dir():
                shutil.rmtree(target)
            else:
                target.unlink(missing_ok=True)
            if source.is_dir():
                shutil.copytree(source, target)
            elif source.exists():
                shutil.copy2(source, target)

    def refused(self) -> str:
        """What the daemon says of it; nothing was touched."""
        before = files_of(self.daemon.state)
        self.daemon.log.unlink(missing_ok=True)
        self.daemon.spawn()
        assert self.daemon.wait() == 65, self.daemon.logged()[-2000:]
        after = files_of(self.daemon.state)
        assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} <= RESTORED
        return self.daemon.logged()

    def whole(self) -> None:
        """It opens, and nothing is missing or other than it was."""
        self.daemon.start()
        assert everything(self.daemon) == self.memories
        audit = self.daemon.audit()
        assert (audit["digests"], audit["findings"]) == (self.digests, [])


@pytest.fixture(scope="module", params=["stop", "kill"])
def lived(request: pytest.FixtureRequest) -> Iterator[Days]:
    with tempfile.TemporaryDirectory(prefix="noctuary-") as name:
        daemon = DaemonProcess(Path(name))
        try:
            yield Days(daemon, getattr(DaemonProcess, request.param))
        finally:
            daemon.close()


@pytest.fixture
def days(lived: Days) -> Days:
    lived.begin()
    return lived


def test_an_earlier_journal_is_refused(days: Days) -> None:
    days.bring_back("journal")
    assert "the journal went back" in days.refused()
    days.bring_back("head")  # now only the projections' watermark knows of what came after
    assert "The journal went back" in days.refused()
    days.bring_back("projections")  # and now only the vault's nonce
    assert "another time" in days.refused()


def test_an_earlier_vault_is_refused(days: Days) -> None:
    days.bring_back("vault")
    assert "another time" in days.refused()


def test_an_earlier_head_is_behind_and_costs_nothing(days: Days) -> None:
    days.bring_back("head")
    days.whole()


def test_earlier_purges_are_written_again(days: Days) -> None:
    kept = (days.daemon.state / "purges").read_bytes()
    days.bring_back("purges")
    assert not (days.daemon.state / "purges").exists()
    days.whole()
    assert (days.daemon.state / "purges").read_bytes() == kept


def test_earlier_projections_are_caught_up(days: Days) -> None:
    days.bring_back("projections")
    days.whole()
    assert days.daemon.call("status")["recovery"]["from_seq"] > 0
