"""A rebuild in which something fails, hangs behind or comes between: what is answered from is the old or the new."""

from __future__ import annotations

import errno
import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from daemon import rebuilding
from daemon.asking import Asking
from daemon.refusal import Reason, Refused
from daemon.tending import leave_copy
from daemon.wire.exchange_params import RebuildParams
from journal.layout import new_path
from journal.log import Log
from journal.record import Head
from projections import tables, trust, workingset
from projections.columns import HEADER
from projections.rows import open_row, seal_row
from projections.store import ProjectionStore
from projections.warming import warm
from projections.workingset import WorkingSet
from tests.daemon.test_rebuilding import TURN, Killed, damage, ids, mapped, params, until
from tests.model.opened import OPERATOR, OpenedService

NOW_MS = 1_790_000_000_000
OTHER_BOOT = b"o" * 16


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenedService]:
    made = OpenedService(tmp_path / "state", lambda: NOW_MS)
    for number in range(5):
        made.write("remember", {**TURN, "text": f"{number}", "session": {"agent": "a", "key": "k"}})
    yield made
    made.close(True)


def failing(code: int) -> Any:
    def fail(*_arguments: object) -> None:
        raise OSError(code, "not now")

    return fail


def rebuild(opened: OpenedService, what: str = "all", tell: Any = None) -> Any:
    asking = Asking(tell=tell)
    return opened.service.read("rebuild", msgspec.convert({"what": what}, RebuildParams), OPERATOR, asking=asking)


def directory_of(opened: OpenedService) -> Path:
    return opened.store.dir.projections_dir


def is_as_before(opened: OpenedService, env: object, listed: set[str]) -> None:
    directory = directory_of(opened)
    assert opened.projections.env is env and ids(opened) == listed
    assert mapped(directory) == [f"{directory}/data.mdb"], "what is in use still has its name"
    assert not new_path(directory).exists()


# --- around the names on the disk ------------------------------------------------------------------------------------


def test_a_name_that_could_not_be_synced_is_gone_on_with(
    opened: OpenedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, listed = directory_of(opened), ids(opened)
    before = (directory / trust.DATA_FILE).stat().st_ino
    with monkeypatch.context() as patched:
        patched.setattr("projections.swap.sync_directory", failing(errno.EIO))
        assert rebuild(opened).rebuilt == list(tables.PROJECTIONS)
    assert (directory / trust.DATA_FILE).stat().st_ino != before
    gc.collect()
    assert mapped(directory) == [f"{directory}/data.mdb"], "nobody goes on in files without a name"
    listed.add(opened.write("remember", {**TURN, "text": "behind it"})["id"])
    opened.reopen(clean=True)
    assert ids(opened) == listed and opened.folded <= 1, "what a clean stop left is what was written to"


def test_what_stands_at_another_record_takes_no_place(opened: OpenedService) -> None:
    env, listed, head = opened.projections.env, ids(opened), opened.projections.head

    def tell(phase: str, _done: int, _of: int) -> None:
        if phase == "swap":
            opened.projections.head = Head(head.epoch, head.seq, b"?" * 32)

    with pytest.raises(Refused) as refused:
        rebuild(opened, tell=tell)
    opened.projections.head = head
    assert refused.value.reason is Reason.UNAVAILABLE
    is_as_before(opened, env, listed)


def test_a_rename_that_fails_is_answered_from_the_old_and_healed(
    opened: OpenedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    env, listed = opened.projections.env, ids(opened)
    with monkeypatch.context() as patched:
        patched.setattr("projections.swap.take_name", failing(errno.ENOSPC))
        with pytest.raises(Refused):
            rebuild(opened)
    assert opened.projections.env is env and ids(opened) == listed
    assert opened.projections.damaged == {"projections"}, "files without a name are not left to themselves"
    assert rebuild(opened).rebuilt == list(tables.PROJECTIONS)
    assert opened.projections.damaged == set() and ids(opened) == listed


def test_what_can_not_be_cleaned_up_behind_the_swap_is_no_failure(
    opened: OpenedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = opened.projections.env
    with monkeypatch.context() as patched:
        patched.setattr(rebuilding, "remove_new", failing(errno.EIO))
        assert rebuild(opened).rebuilt == list(tables.PROJECTIONS)
    assert opened.projections.env is not env


def test_what_can_not_be_cleaned_up_does_not_hide_why_it_failed(
    opened: OpenedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(rebuilding, "remove_new", failing(errno.EIO))
        asking = Asking(tell=lambda phase, done, of: asking.cancel())
        with pytest.raises(Refused) as refused:
            opened.service.read("rebuild", params(), OPERATOR, asking=asking)
    assert refused.value.data["cancelled"]


def test_a_copy_that_can_not_be_taken_away_keeps_everything_as_it_was(
    opened: OpenedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    env, listed = opened.projections.env, ids(opened)
    with monkeypatch.context() as patched:
        patched.setattr(rebuilding, "remove_copy", failing(errno.EIO))
        with pytest.raises(Refused):
            rebuild(opened)
    is_as_before(opened, env, listed)


def test_killed_at_the_swap_it_leaves_no_copy_of_what_is_discarded(
    opened: OpenedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_arguments: object) -> None:
        raise Killed

    assert leave_copy(opened.service, lambda: None) is None
    with monkeypatch.context() as patched:
        patched.setattr(rebuilding, "take_place", killed)
        with pytest.raises(Killed):
            rebuild(opened)
    assert not opened.store.dir.projections_copy_dir.exists()


def test_what_is_whole_again_is_closed_as_after_any_clean_stop(opened: OpenedService) -> None:
    opened.projections.note_damage(tables.TEXTS)
    rebuild(opened, "texts")
    directory = directory_of(opened)
    opened.close(True)
    assert not trust.open_file(directory).exists()
    assert trust.may_be_trusted(directory, OTHER_BOOT)
    opened._open()


# --- how long writes wait --------------------------------------------------------------------------------------------


def test_records_that_came_before_its_turn_are_not_folded_while_writes_wait(
    opened: OpenedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each of the first turns more is written than may be folded then; before the last, nothing."""
    monkeypatch.setattr(rebuilding, "FEW_RECORDS", 16)
    folded: list[int] = []
    catch_up = ProjectionStore.catch_up

    def counted(self: ProjectionStore, log: Log, *rest: Any) -> int:
        count = catch_up(self, log, *rest)
        if threading.current_thread().name == "writer":
            folded.append(count)
        return count

    monkeypatch.setattr(ProjectionStore, "catch_up", counted)
    turns = [0]

    def tell(phase: str, _done: int, _of: int) -> None:
        if phase != "swap":
            return
        turns[0] += 1
        if turns[0] < 4:
            items = [{**TURN, "text": f"{turns[0]} {number}"} for number in range(40)]
            opened.write("remember_many", {"items": items})

    rebuild(opened, tell=tell)
    assert turns[0] == 4 and len(folded) == 1 and folded[0] <= 16
    assert len(ids(opened)) == 5 + 3 * 40


def test_where_writes_are_always_faster_it_is_refused(opened: OpenedService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilding, "FEW_RECORDS", 16)
    monkeypatch.setattr(rebuilding, "ROUNDS", 3)
    env, listed = opened.projections.env, ids(opened)

    def tell(phase: str, _done: int, _of: int) -> None:
        if phase == "swap":
            made = opened.write("remember_many", {"items": [{**TURN, "text": f"{number}"} for number in range(40)]})
            listed.update(each["id"] for each in made["results"])

    with pytest.raises(Refused) as refused:
        rebuild(opened, tell=tell)
    assert refused.value.reason is Reason.UNAVAILABLE and refused.value.data["retry_after_ms"]
    is_as_before(opened, env, listed)


# --- what is in memory -----------------------------------------------------------------------------------------------


def forge_sessions(projections: ProjectionStore) -> None:
    """Every header row names a session that it isn't of, under a checksum that holds."""
    with projections.env.write() as txn:
        handle = projections.env.db(tables.ROWS)
        for key, value in list(txn.cursor(db=handle)):
            found = np.frombuffer(open_row(tables.ROWS, bytes(key), bytes(value)), HEADER).copy()
            found["session"] = 77
            txn.put(key, seal_row(bytes(key), found.tobytes()), db=handle)


@pytest.mark.parametrize("what", ["all", "memories"])
def test_lists_are_answered_from_what_was_rebuilt(opened: OpenedService, what: str) -> None:
    (session,) = opened.read("sessions", {})["sessions"]
    asked = {"sel": {"session": session["session"]}, "limit": 100}
    assert len(opened.read("list", asked)["memories"]) == 5
    opened.close(True)
    projections = ProjectionStore.open(directory_of(opened), opened.store.boot_id)
    forge_sessions(projections)
    projections.close(True)
    opened._open()
    until(lambda: opened.service.columns.warmed() == 1.0)
    assert opened.read("list", asked)["memories"] == []
    rebuild(opened, what)
    assert len(opened.read("list", asked)["memories"]) == 5
    until(lambda: opened.service.columns.warmed() == 1.0)
    assert len(opened.read("list", asked)["memories"]) == 5, "and from the columns when they are there again"
    made = opened.write("remember", {**TURN, "text": "one more", "session": {"agent": "a", "key": "k"}})
    assert made["id"] in {memory["id"] for memory in opened.read("list", asked)["memories"]}


def test_columns_that_a_rebuild_does_not_touch_stay(opened: OpenedService) -> None:
    until(lambda: opened.service.columns.warmed() == 1.0)
    view = opened.service.columns.newest
    rebuild(opened, "edges")
    assert opened.service.columns.newest is view


def forget_sessions(projections: ProjectionStore) -> None:
    with projections.env.write() as txn:
        for database in tables.PROJECTIONS["sessions"]:
            txn.drop(projections.env.db(database), delete=False)


def session_of(opened: OpenedService, key: str) -> str:
    """The session that a turn under this key is filed in."""
    turn = {**TURN, "text": key, "session": {"agent": "a", "key": key}, "entities": [{"name": key, "type": "x"}]}
    made = opened.write("remember", turn)["id"]
    (memory,) = opened.read("get", {"ids": [made]})["memories"]
    return str(memory["session"])


def what_is_known(names: WorkingSet) -> dict[str, Any]:
    """All that is warmed, in a form that can be compared."""
    found = {name: known for name, known in vars(names).items() if name not in {*workingset._STAYS, "live"}}
    return found | {"live": vars(names.live)}


@pytest.mark.parametrize("what", ["all", "sessions"])
def test_names_that_decide_writes_are_those_of_what_was_rebuilt_and_of_what_came_meanwhile(
    opened: OpenedService, what: str
) -> None:
    known = {"k": session_of(opened, "k")}
    opened.close(True)
    projections = ProjectionStore.open(directory_of(opened), opened.store.boot_id)
    forget_sessions(projections)
    projections.close(True)
    opened._open()
    assert opened.service.names.sessions == {}

    def tell(phase: str, _done: int, _of: int) -> None:
        if phase not in known:
            known[phase] = session_of(opened, phase)

    rebuild(opened, what, tell)
    assert set(known) >= {"k", "fold", "swap"}
    warm(fresh := WorkingSet(), opened.store, opened.projections, NOW_MS)
    assert what_is_known(opened.service.names) == what_is_known(fresh)
    assert {key: session_of(opened, key) for key in known} == known
    assert opened.service.names._kept is None


def test_the_names_are_left_alone_where_a_rebuild_fails(opened: OpenedService) -> None:
    before = dict(vars(opened.service.names))
    items = [{**TURN, "text": f"{number}"} for number in range(5)]

    def tell(phase: str, _done: int, _of: int) -> None:
        if phase == "swap":
            opened.projections.head = Head(1, 1, b"?" * 32)

    head = opened.projections.head
    with pytest.raises(Refused):
        rebuild(opened, "all", tell)
    opened.projections.head = head
    assert all(vars(opened.service.names)[name] is value for name, value in before.items())
    assert len(opened.write("remember_many", {"items": items})["results"]) == 5


# --- damage that can't be marked -------------------------------------------------------------------------------------


def test_a_mark_that_failed_is_tried_again_when_damage_is_met_again(
    opened: OpenedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("projections.trust.write_all", failing(errno.ENOSPC))
        opened.projections.note_damage(tables.TEXTS)
    assert trust.may_be_trusted(directory_of(opened), opened.store.boot_id)
    opened.projections.note_damage(tables.TEXTS)
    assert opened.projections.unmarked is None
    assert not trust.may_be_trusted(directory_of(opened), opened.store.boot_id)


def test_on_a_disk_that_takes_no_mark_damage_is_told_noted_and_not_opened_again(
    opened: OpenedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = ids(opened)
    damage(opened, tables.MEMORIES)
    with monkeypatch.context() as patched:
        patched.setattr("projections.trust.write_all", failing(errno.ENOSPC))
        with pytest.raises(Refused) as refused:
            opened.read("get", {"ids": [min(listed)]})
        assert refused.value.reason is Reason.DAMAGED
        assert opened.projections.damaged == {tables.MEMORIES} and opened.projections.noticed.is_set()
        assert isinstance(opened.projections.unmarked, OSError)
        opened.close(True)
    assert not trust.may_be_trusted(directory_of(opened), opened.store.boot_id)
    opened._open()
    assert opened.folded == opened.store.log.head().seq and ids(opened) == listed
