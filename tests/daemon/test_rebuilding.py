"""A rebuild beside an opened service: the same state after it, whoever reads meanwhile, and nothing when it fails."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon import rebuilding, service
from daemon.asking import Asking
from daemon.reads.operator import Operator
from daemon.refusal import Reason, Refused
from daemon.tending import Tending, leave_copy, what_heals
from daemon.wire.exchange_params import RebuildParams
from daemon.wire.request import decode_request
from daemon.wire.results import RecoveryOut
from journal.layout import new_path
from journal.space import SpaceGuard
from projections import tables
from projections.copy import copied_seq
from tests.model.opened import OPERATOR, OpenedService

NOW_MS = 1_790_000_000_000
WITHIN_S = 60.0
STATUS = b'{"jsonrpc":"2.0","id":1,"method":"status","params":{}}'
TURN = {"kind": "raw", "role": "user"}
COUNT_MEMORIES = """
import lmdb, sys
env = lmdb.open(sys.argv[1], max_dbs=32, readonly=True)
memories = env.open_db(b"memories", create=False)
print(env.begin().stat(memories)["entries"])
"""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenedService]:
    made = OpenedService(tmp_path / "state", lambda: NOW_MS)
    turn = {**TURN, "session": {"agent": "a", "key": "k"}, "idempotency_key": "one"}
    first = made.write("remember", {**turn, "text": "t", "entities": [{"name": "n", "type": "x"}]})["id"]
    note = {"kind": "note", "origin": "told", "derived_from": [first], "evidence": [first], "text": "t"}
    made.write("remember", note)
    made.write("forget", {"id": first})
    yield made
    made.close(True)


def ids(opened: OpenedService) -> set[str]:
    return {memory["id"] for memory in opened.read("list", {"limit": 1000})["memories"]}


def mapped(directory: Path) -> list[str]:
    """Data files of projections that this process has mapped, as the kernel tells them."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted(
        {
            line.split(maxsplit=5)[5]
            for line in lines
            if f"{directory.parent}" in line and "projections" in line and "data.mdb" in line
        }
    )


def damage(opened: OpenedService, *databases: str) -> None:
    """Flip a bit in every value of these databases."""
    projections = opened.projections
    with projections.env.write() as txn:
        for database in databases:
            handle = projections.env.db(database)
            for key, value in list(txn.cursor(db=handle)):
                txn.put(key, bytes((value[0] ^ 1, *value[1:])), db=handle)


@pytest.mark.parametrize("what", ["all", *tables.PROJECTIONS])
def test_what_is_rebuilt_is_what_was_there(opened: OpenedService, what: str) -> None:
    procedure = {"kind": "procedure", "origin": "derived", "derived_from": list(ids(opened)), "text": "p"}
    made = opened.write("remember", procedure)["id"]
    opened.write("propose", {"proposal_kind": "retention", "action": "archive", "memory": made})
    sel = {"action": "quarantine", "sel": {"ids": [made]}}
    opened.write("cohort", {**sel, "token": opened.write("cohort", sel)["token"]})
    before, counters, listed = opened.digests(), opened.projections.counters, ids(opened)
    for database in tables.PROJECTIONS.get(what, tables.DATABASES):
        damage(opened, database)
    assert opened.digests() != before
    answer = opened.read("rebuild", {} if what == "all" else {"what": what})
    assert answer["rebuilt"] == (list(tables.PROJECTIONS) if what == "all" else [what])
    assert opened.digests() == before
    assert opened.projections.counters == counters
    assert ids(opened) == listed
    assert not new_path(opened.store.dir.projections_dir).exists()
    added = opened.write("remember", {**TURN, "text": "behind it"})["id"]
    assert ids(opened) == {*listed, added}
    opened.reopen(clean=False)
    assert ids(opened) == {*listed, added} and opened.folded <= 1


def test_who_reads_keeps_what_they_began_with_and_it_is_released_behind_them(opened: OpenedService) -> None:
    directory = opened.store.dir.projections_dir
    collecting = gc.isenabled()
    gc.disable()  # released because nothing holds it, not because somebody looked for circles
    try:
        before = ids(opened)
        with opened.projections.snapshot() as snapshot:
            opened.read("rebuild", {})
            assert mapped(directory) == [f"{directory}/data.mdb", f"{directory}/data.mdb (deleted)"]
            opened.write("remember", {**TURN, "text": "later"})
            rows = list(snapshot.prefix(tables.MEMORIES, b""))
            assert len(rows) == len(before) + 1  # the forgotten one has a row too
            assert len(ids(opened)) == len(before) + 1
        del snapshot
        assert mapped(directory) == [f"{directory}/data.mdb"]
    finally:
        if collecting:
            gc.enable()


def test_writes_and_reads_go_on_through_many_rebuilds(opened: OpenedService) -> None:
    wrong: list[str] = []
    written = set(ids(opened))
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            known = set(written)
            found = ids(opened)
            if not known <= found:
                wrong.append("lost")

    reader = threading.Thread(target=read)
    reader.start()
    rebuilt: list[int] = []

    def rebuild() -> None:
        for what in ("all", "memories", "all"):
            opened.read("rebuild", {"what": what})
            rebuilt.append(1)

    rebuilder = threading.Thread(target=rebuild)
    rebuilder.start()
    count = 0
    while rebuilder.is_alive():
        count += 1
        written.add(opened.write("remember", {**TURN, "text": f"{count}"})["id"])
        if count > 400:
            break  # a page of the list holds no more
    rebuilder.join(WITHIN_S)
    done.set()
    reader.join(WITHIN_S)
    assert wrong == [] and len(rebuilt) == 3 and count > 10
    assert ids(opened) == written
    audit = opened.read("audit", {"rebuild": True})
    assert audit["findings"] == []


def params(what: str = "all") -> RebuildParams:
    return msgspec.convert({"what": what}, RebuildParams)


def test_cancelling_it_changes_nothing(opened: OpenedService) -> None:
    before, env = opened.digests(), opened.projections.env
    asking = Asking(tell=lambda phase, done, of: asking.cancel())
    with pytest.raises(Refused) as refused:
        opened.service.read("rebuild", params(), OPERATOR, asking=asking)
    assert refused.value.reason is Reason.UNAVAILABLE and refused.value.data["cancelled"]
    assert opened.projections.env is env and opened.digests() == before
    assert not new_path(opened.store.dir.projections_dir).exists()


def test_at_the_swap_it_is_too_late_to_cancel(opened: OpenedService) -> None:
    before, env = opened.digests(), opened.projections.env
    asking = Asking(tell=lambda phase, done, of: asking.cancel() if phase == "swap" else None)
    opened.service.read("rebuild", params(), OPERATOR, asking=asking)
    assert opened.projections.env is not env and opened.digests() == before


def test_the_death_of_the_child_changes_nothing(opened: OpenedService, monkeypatch: pytest.MonkeyPatch) -> None:
    before, env = opened.digests(), opened.projections.env
    start = subprocess.Popen

    def start_and_kill(*words: Any, **options: Any) -> Any:
        child = start(*words, **options)
        os.kill(child.pid, signal.SIGKILL)
        return child

    monkeypatch.setattr(subprocess, "Popen", start_and_kill)
    for what in ("all", "edges"):
        with pytest.raises(Refused) as refused:
            opened.read("rebuild", {"what": what})
        assert refused.value.reason is Reason.UNAVAILABLE
    assert opened.projections.env is env and opened.digests() == before
    assert not new_path(opened.store.dir.projections_dir).exists()


def test_a_swap_that_fails_changes_nothing(opened: OpenedService, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(directory: Path) -> None:
        raise OSError(28, "No space left on device")

    before, env = opened.digests(), opened.projections.env
    held: list[Refused] = []
    with monkeypatch.context() as patched:
        patched.setattr(rebuilding, "take_place", full)
        for _ in range(2):
            with pytest.raises(Refused) as refused:
                opened.read("rebuild", {})
            held.append(refused.value)  # with all that its traceback holds
            assert opened.projections.env is env and opened.digests() == before
            assert not new_path(opened.store.dir.projections_dir).exists()
            assert mapped(opened.store.dir.projections_dir) == [f"{opened.store.dir.projections_dir}/data.mdb"]
    assert opened.write("remember", {**TURN, "text": "goes on"})["id"] in ids(opened)
    assert opened.read("rebuild", {})["rebuilt"] == list(tables.PROJECTIONS)


class Killed(BaseException):
    """Where a process is gone, nothing is cleaned up."""


@pytest.mark.parametrize(
    ("step", "folds_again"),
    [("swap.trust.remove", False), ("swap.take_name", True), ("store.ProjectionStore.adopt", False)],
)
def test_being_killed_within_the_swap_leaves_the_old_or_the_new_or_none(
    opened: OpenedService, monkeypatch: pytest.MonkeyPatch, step: str, folds_again: bool
) -> None:
    before, listed = opened.digests(), ids(opened)

    def killed(*_arguments: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(f"projections.{step}", killed)
        patched.setattr(rebuilding, "remove_new", lambda _directory: None)
        with pytest.raises(Killed):
            opened.read("rebuild", {})
    opened.reopen(clean=False)
    assert (opened.folded > 1) == folds_again
    assert ids(opened) == listed
    assert {name: digest for name, digest in opened.digests().items() if name != "blocks"} == {
        name: digest for name, digest in before.items() if name != "blocks"
    }
    assert not new_path(opened.store.dir.projections_dir).exists()


def test_two_at_once_are_a_conflict(opened: OpenedService) -> None:
    seen: list[Reason] = []

    def tell(phase: str, done: int, of: int) -> None:
        if not seen:
            with pytest.raises(Refused) as refused:
                opened.read("rebuild", {})
            seen.append(refused.value.reason)

    opened.service.read("rebuild", params(), OPERATOR, asking=Asking(tell=tell))
    assert seen == [Reason.CONFLICT]


def test_without_room_it_is_refused_with_what_is_needed(opened: OpenedService) -> None:
    opened.service.space = SpaceGuard(opened.store.dir.root, opened.store.dir.reserve_file, reserve_bytes=1 << 50)
    with pytest.raises(Refused) as refused:
        opened.read("rebuild", {})
    assert refused.value.reason is Reason.READ_ONLY
    assert refused.value.data["needed_bytes"] > refused.value.data["free_bytes"]
    assert not new_path(opened.store.dir.projections_dir).exists()


def test_where_others_are_damaged_too_all_are_folded_anew(opened: OpenedService) -> None:
    before = opened.digests()
    damage(opened, tables.TURNS, tables.ROWS)
    assert opened.read("rebuild", {"what": "memories"})["rebuilt"] == list(tables.PROJECTIONS)
    assert opened.digests() == before


def test_where_the_environment_can_not_be_copied_all_are_folded_anew(opened: OpenedService) -> None:
    before = opened.digests()
    data = opened.store.dir.projections_dir / "data.mdb"
    opened.projections.env.sync()
    with data.open("r+b") as file:
        pages = data.stat().st_size // 4096
        for page in range(2, pages):
            file.seek(page * 4096 + 10)
            file.write(b"\xff\xff")
    assert opened.read("rebuild", {"what": "edges"})["rebuilt"] == list(tables.PROJECTIONS)
    assert opened.digests() == before


# --- healing, and the copy -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("databases", "what"),
    [
        ({tables.TURNS}, "sessions"),
        ({tables.TURNS, tables.SESSIONS}, "sessions"),
        ({tables.TURNS, tables.ROWS}, "all"),
        ({tables.META}, "all"),
        ({"projections"}, "all"),
        ({"projections", tables.TURNS}, "all"),
    ],
)
def test_what_heals_damage(databases: set[str], what: str) -> None:
    assert what_heals(databases) == what


def until(is_so: Callable[[], bool]) -> None:
    """Wait for the thing itself."""
    deadline = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def findings(opened: OpenedService) -> list[str]:
    operator = Operator(opened.store, "test", None)
    recovery = RecoveryOut(clean=True, boot_changed=False, from_seq=0, to_seq=0, rebuilt=[], took_ms=0)
    operator.begin(opened.service, recovery)
    status = operator.read("status", decode_request(STATUS).params, OPERATOR)
    return [finding.code for finding in status.findings]


def test_damage_that_was_met_is_told_until_it_is_healed(opened: OpenedService) -> None:
    before = opened.digests()
    (listed,) = opened.read("list", {})["memories"]
    damage(opened, tables.MEMORIES)
    for _ in range(2):  # it stays so while nobody heals it
        with pytest.raises(Refused) as refused:
            opened.read("get", {"ids": [listed["id"]]})
        assert refused.value.reason is Reason.DAMAGED
    with pytest.raises(Refused) as refused:
        opened.write("forget", {"id": listed["id"]})
    assert refused.value.reason is Reason.DAMAGED
    assert findings(opened) == ["projection_damaged"]
    tending = Tending(opened.service, 0)
    tending.start()
    try:
        until(lambda: not opened.projections.damaged)
        assert findings(opened) == []
        assert opened.digests() == before
        assert opened.read("get", {"ids": [listed["id"]]})["memories"][0]["id"] == listed["id"]
    finally:
        opened.service.end_long_reads()
        tending.stop()
    opened.reopen(clean=False)
    assert opened.folded <= 1, "what was healed is trusted"
    assert opened.digests() == before


def test_what_was_not_healed_is_folded_anew_at_the_next_start(opened: OpenedService) -> None:
    damage(opened, tables.TEXTS)
    opened.projections.note_damage(tables.TEXTS)
    opened.reopen(clean=False)
    assert opened.folded == opened.store.log.head().seq


def test_what_is_still_damaged_behind_a_rebuild_stays_distrusted(opened: OpenedService) -> None:
    for database in (tables.TEXTS, tables.TURNS):
        opened.projections.note_damage(database)
    opened.read("rebuild", {"what": "texts"})
    assert opened.projections.damaged == {tables.TURNS}
    opened.reopen(clean=True)
    assert opened.folded == opened.store.log.head().seq


def test_healing_is_not_tried_in_a_tight_loop(opened: OpenedService, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []
    again = threading.Event()

    def fails(_service: object, params: RebuildParams, asking: Asking) -> None:
        tries.append(params.what)
        again.set()
        raise Refused(Reason.UNAVAILABLE, "not now")

    monkeypatch.setitem(service._WORKS, "rebuild", fails)
    tending = Tending(opened.service, 0)
    tending.start()
    try:
        opened.projections.note_damage(tables.EDGES_OUT)
        assert again.wait(WITHIN_S)
        for _ in range(3):
            opened.projections.note_damage(tables.EDGES_OUT)
            until(lambda: not opened.projections.noticed.is_set())
        assert tries == ["edges"]
        assert opened.projections.damaged == {tables.EDGES_OUT}
    finally:
        tending.stop()


def test_a_copy_is_left_when_enough_was_written(opened: OpenedService) -> None:
    copy = opened.store.dir.projections_copy_dir
    tending = Tending(opened.service, 5)
    tending.start()
    try:
        until(lambda: copied_seq(copy) > 0)
        first = copied_seq(copy)
        for number in range(12):
            opened.write("remember", {**TURN, "text": f"{number}"})
        until(lambda: copied_seq(copy) >= first + 5)
    finally:
        tending.stop()
    assert not new_path(copy).exists()


def test_no_copy_is_left_of_what_is_damaged(opened: OpenedService) -> None:
    damage(opened, tables.TEXTS)
    assert leave_copy(opened.service, lambda: None) == "damaged"
    assert copied_seq(opened.store.dir.projections_copy_dir) == 0
    assert opened.projections.damaged == {tables.TEXTS}


def test_the_copy_of_what_was_rebuilt_goes(opened: OpenedService) -> None:
    assert leave_copy(opened.service, lambda: None) is None
    assert copied_seq(opened.store.dir.projections_copy_dir) > 0
    opened.read("rebuild", {"what": "edges"})
    assert not opened.store.dir.projections_copy_dir.exists()


def test_a_reader_of_lmdb_finds_the_new_files_where_the_old_were(opened: OpenedService) -> None:
    opened.read("rebuild", {})
    opened.write("remember", {**TURN, "text": "seen from outside"})
    directory = opened.store.dir.projections_dir
    found = subprocess.run(
        [sys.executable, "-c", COUNT_MEMORIES, str(directory)], capture_output=True, text=True, check=True
    )
    assert int(found.stdout) == 3
