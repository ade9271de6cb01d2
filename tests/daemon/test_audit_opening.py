"""The walk of an opening: done once, in a child, before this process maps the journal; and it can be ended."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.opening import open_all, open_journal, open_projections
from journal.codes import CallerRole, Via
from journal.errors import DamagedStore
from journal.events import Opened
from journal.layout import FORMAT_VERSION
from journal.log import Log
from journal.record import Actor, Cause, Record, encode_body
from journal.verify import WalkStopped

NOW_MS = 1_790_000_000_000
_seen: list[list[bool]] = []
"""The list of the test that runs: for each process that is started, whether the journal is mapped."""


def _on_event(name: str, _arguments: tuple[Any, ...]) -> None:
    if name == "subprocess.Popen" and _seen:
        _seen[-1].append("journal/data.mdb" in Path("/proc/self/maps").read_text("utf-8"))


sys.addaudithook(_on_event)


@pytest.fixture
def walks() -> Iterator[list[bool]]:
    _seen.append([])
    yield _seen[-1]
    _seen.pop()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A store that was stopped cleanly."""
    root = tmp_path / "state"
    close(*open_all(root, "test", NOW_MS)[:2])
    return root


def close(store: Any, projections: Any) -> None:
    projections.close(True)
    store.close(True)


def reboot(root: Path) -> None:
    """Let the journal's newest opening be one under another boot, and the projections unsynced."""
    store = open_journal(root, "test", NOW_MS)
    projections, _ = open_projections(store)
    seq = store.log.head().seq + 1
    event = Opened(bytes(16), "test", FORMAT_VERSION, store.epoch, store.vault.nonces[0])
    record = Record(seq, NOW_MS, 0, Actor(0, CallerRole.DAEMON, Via.DAEMON), Cause(seq, "open"), event)
    opened = msgspec.structs.replace(store.log.state, opened_seq=seq)
    store.log.append([encode_body(record)], [], opened)
    store.close(False)
    projections.close(False)
    content = root / "projections" / "OPEN"
    content.write_bytes(bytes(len(content.read_bytes())))


def test_a_clean_stop_is_opened_without_a_walk(state: Path, walks: list[bool]) -> None:
    close(*open_all(state, "test", NOW_MS)[:2])
    assert walks == []


def test_a_new_store_is_made_without_a_walk(tmp_path: Path, walks: list[bool]) -> None:
    close(*open_all(tmp_path / "new", "test", NOW_MS)[:2])
    assert walks == []


def test_after_a_reboot_the_journal_is_walked_once_and_before_it_is_mapped(state: Path, walks: list[bool]) -> None:
    reboot(state)
    del walks[:]
    store, projections, recovery = open_all(state, "test", NOW_MS)
    assert recovery.boot_changed and recovery.rebuilt
    assert walks == [False]
    close(store, projections)


def test_absent_projections_cost_one_walk_before_the_journal_is_mapped(state: Path, walks: list[bool]) -> None:
    (state / "projections" / "data.mdb").unlink()
    close(*open_all(state, "test", NOW_MS)[:2])
    assert walks == [False]


def test_a_check_of_everything_after_a_reboot_is_one_walk(state: Path, walks: list[bool]) -> None:
    reboot(state)
    del walks[:]
    store = open_journal(state, "test", NOW_MS, check_all=True)
    assert walks == [False]
    store.close(False)


def test_projections_whose_watermark_is_spoilt_cost_one_walk(state: Path, walks: list[bool]) -> None:
    """Their place is looked at last, for a store that is refused is left untouched."""
    data = state / "projections" / "data.mdb"
    data.write_bytes(bytes(data.stat().st_size))
    close(*open_all(state, "test", NOW_MS)[:2])
    assert walks == [True]


def test_what_the_walk_finds_refuses_the_store(state: Path, walks: list[bool]) -> None:
    store = open_journal(state, "test", NOW_MS)
    with store.env.write() as txn:
        txn.put(b"\0" * 7 + b"\1", b"spoilt" * 20, db=store.env.db("records"))
    store.close(False)
    with pytest.raises(DamagedStore, match="record_damaged at 1"):
        open_journal(state, "test", NOW_MS, check_all=True)
    assert walks == [False]


def test_a_walk_that_is_ended_writes_nothing_and_gives_the_lock_up(state: Path) -> None:
    before = (state / "vault").read_bytes(), (state / "head").read_bytes()
    with pytest.raises(WalkStopped):
        open_journal(state, "test", NOW_MS, check_all=True, should_stop=lambda: True)
    assert before == ((state / "vault").read_bytes(), (state / "head").read_bytes())
    store = open_journal(state, "test", NOW_MS, should_stop=lambda: True)
    assert isinstance(store.log, Log)
    assert store.found_seq == 1
    store.close(True)
