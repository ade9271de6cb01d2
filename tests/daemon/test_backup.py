"""The verb backup, of a service that serves: who is told what, and the store that is made of what it wrote."""

from __future__ import annotations

import itertools
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from daemon.asking import Asking
from daemon.logs import ALLOWED
from daemon.refusal import Reason, Refused
from daemon.wire.verbs import VERBS
from journal.events import MemoryCreated, Purged, PurgeTarget
from journal.manifest import MANIFEST
from journal.purges import read_purges
from journal.record import Actor, Cause, Record, encode_body
from journal.store import open_store, purge_parts
from tests.journal.backing import restored
from tests.model.opened import OPERATOR, OpenedService

NOW_MS = 1_800_000_000_000


def served(root: Path) -> OpenedService:
    clock = itertools.count(NOW_MS)
    return OpenedService(root, lambda: next(clock))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[OpenedService]:
    service = served(tmp_path / "state")
    yield service
    service.close(True)


def remember(service: OpenedService, text: str, **more: Any) -> str:
    return str(service.write("remember", {"kind": "raw", "origin": "told", "text": text, **more})["id"])


def refused(service: OpenedService, **params: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        service.read("backup", params)
    return caught.value


def purge(root: Path, *texts_of: str) -> None:
    """Destroy memories of a store that nobody serves, as the verb will."""
    store = open_store(root, version="test", now_ms=NOW_MS + 10_000)
    try:
        records = [each for chunk in store.log.chunks() for each in chunk if isinstance(each.event, MemoryCreated)]
        wanted = {reference_of(each): each for each in records}
        for reference in texts_of:
            record = wanted[reference]
            assert isinstance(record.event, MemoryCreated)
            target = PurgeTarget(record.event.kind, record.event.id)
            event = Purged(targets=(target,), parts=record.event.parts)
            seq = store.log.head().seq + 1
            body = encode_body(Record(seq, NOW_MS, record.tenant, Actor(0, 0, 0), Cause(seq, "purge"), event))
            purge_parts(store, [body], [], store.log.state)
    finally:
        store.close(clean=True)


def reference_of(record: Record) -> str:
    from journal.tsid import format_tsid

    assert isinstance(record.event, MemoryCreated)
    return f"raw:{format_tsid(record.event.id)}"


def test_the_answer_is_the_manifest(service: OpenedService, tmp_path: Path) -> None:
    remember(service, "one")
    answer = service.read("backup", {"dir": str(tmp_path / "b")})
    assert answer == json.loads((tmp_path / "b" / MANIFEST).read_text().splitlines()[0])
    assert (answer["backup"], answer["version"], answer["store"]) == (1, "model", service.store.store_id.hex())
    only = service.read("backup", {"dir": str(tmp_path / "v"), "parts": ["vault"]})
    assert only["journal"] is None and only["vault"]["seq"] == answer["vault"]["seq"]


def test_an_old_vault_that_stays_is_in_the_answer(service: OpenedService, tmp_path: Path) -> None:
    remember(service, "one")
    first = service.read("backup", {"dir": str(tmp_path / "b")})
    assert "leftover" not in first
    old = tmp_path / "b" / first["vault"]["files"][0]["name"]

    def tell(phase: str, _done: int, _of: int) -> None:
        if phase == "manifest" and old.is_file():
            old.unlink()
            old.mkdir()

    params = msgspec.convert({"dir": str(tmp_path / "b")}, VERBS["backup"].params)
    with capture_logs() as logged:
        answer = service.service.read("backup", params, OPERATOR, asking=Asking(tell=tell))
    assert answer.leftover == [old.name]
    (told,) = [line for line in logged if line["event"] == "backup_leftover"]
    assert (told["log_level"], told["what"], told["why"]) == ("warning", (old.name,), "EISDIR")
    assert set(told) <= ALLOWED | {"event", "log_level"}


def test_a_journal_alone_beside_an_older_vault_is_a_conflict(service: OpenedService, tmp_path: Path) -> None:
    service.read("backup", {"dir": str(tmp_path / "b")})
    remember(service, "one")
    error = refused(service, dir=str(tmp_path / "b"), parts=["journal"])
    assert (error.reason, error.data["parameter"]) == (Reason.CONFLICT, "dir")
    assert "back up both parts" in error.message
    service.read("backup", {"dir": str(tmp_path / "b")})


def test_who_asks_for_the_impossible_is_told_why(service: OpenedService, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "letter").write_bytes(b"mine")
    for path in ("relative", str(service.root / "b"), str(tmp_path), str(tmp_path / "no" / "b"), "/dev/null"):
        error = refused(service, dir=path)
        assert (error.reason, error.data["parameter"]) == (Reason.INVALID_INPUT, "dir"), path
    error = refused(service, dir=str(tmp_path / "letters"))
    assert (error.reason, error.data["parameter"]) == (Reason.CONFLICT, "dir")


def test_a_disk_without_room_is_said_to_be(service: OpenedService) -> None:
    """/proc is a file system that never has any."""
    error = refused(service, dir="/proc/backup")
    assert error.reason is Reason.READ_ONLY
    assert error.data["free_bytes"] == 0 < error.data["needed_bytes"]


def test_a_cancelled_backup_leaves_nothing_and_the_next_is_made(service: OpenedService, tmp_path: Path) -> None:
    remember(service, "one")
    phases: list[str] = []

    def tell(phase: str, _done: int, _of: int) -> None:
        phases.append(phase)
        if phase == "vault":
            asking.cancel()

    asking = Asking(tell=tell)
    params = msgspec.convert({"dir": str(tmp_path / "b")}, VERBS["backup"].params)
    with pytest.raises(Refused, match="cancelled"):
        service.service.read("backup", params, OPERATOR, asking=asking)
    assert phases == ["journal", "journal", "check", "vault"]
    assert not (tmp_path / "b").exists()
    service.read("backup", {"dir": str(tmp_path / "b")})


def test_a_second_one_at_the_same_time_is_refused_and_writes_go_on(service: OpenedService, tmp_path: Path) -> None:
    remember(service, "one")
    inside, go_on = threading.Event(), threading.Event()

    def tell(phase: str, _done: int, _of: int) -> None:
        if phase == "vault":
            inside.set()
            assert go_on.wait(30)

    params = msgspec.convert({"dir": str(tmp_path / "b")}, VERBS["backup"].params)
    thread = threading.Thread(
        target=service.service.read, args=("backup", params, OPERATOR), kwargs={"asking": Asking(tell=tell)}
    )
    thread.start()
    assert inside.wait(30)
    try:
        assert refused(service, dir=str(tmp_path / "c")).reason is Reason.CONFLICT
        remember(service, "written meanwhile")
    finally:
        go_on.set()
        thread.join()
    assert (tmp_path / "b" / MANIFEST).exists()


def test_a_restored_store_has_every_text_and_folds_to_the_same(service: OpenedService, tmp_path: Path) -> None:
    ids = [remember(service, f"text {n}", session={"agent": "a", "key": "k"}, tags=[f"t{n}"]) for n in range(20)]
    service.read("backup", {"dir": str(tmp_path / "b")})
    digests, memories = service.digests(), service.read("get", {"ids": ids})["memories"]
    restored(tmp_path / "r", tmp_path / "b")
    again = served(tmp_path / "r")
    try:
        assert again.store.epoch == 2
        assert again.digests() == digests
        found = again.read("get", {"ids": ids})["memories"]
        for memory in memories:
            memory["address"]["epoch"] = 2  # that of the present journal, as everywhere
        assert found == memories
        audit = again.read("audit", {"rebuild": True})
        assert (audit["findings"], audit["head"]["epoch"]) == ([], 2)
        remember(again, "and it goes on")
    finally:
        again.close(True)


def test_a_purge_since_an_old_backup_reaches_what_is_restored_of_it(tmp_path: Path) -> None:
    service = served(tmp_path / "state")
    ids = [remember(service, text) for text in ("secret", "kept", "secret too")]
    service.read("backup", {"dir": str(tmp_path / "b")})
    later = remember(service, "later")
    service.close(True)
    purge(tmp_path / "state", ids[0], ids[2], later)
    outcome = restored(tmp_path / "r", tmp_path / "b", read_purges(tmp_path / "state" / "purges").directives)
    assert outcome.reapplied[:4] == (2, 0, 1, 0)
    again = served(tmp_path / "r")
    try:
        found = again.read("get", {"ids": ids})
        assert [memory["status"] for memory in found["memories"]] == ["purged", "active", "purged"]
        assert [memory.get("text") for memory in found["memories"]] == [None, "kept", None]
        assert again.read("audit", {"rebuild": True})["findings"] == []
        assert again.store.findings == []
    finally:
        again.close(True)


def test_a_cursor_of_before_the_restore_is_a_conflict(service: OpenedService, tmp_path: Path) -> None:
    session = {"agent": "a", "key": "k"}
    for n in range(4):
        made = service.write("remember", {"kind": "raw", "role": "user", "text": f"text {n}", "session": session})
        service.write("session_open", {"agent": "a", "key": f"other {n}"})
    asked: list[tuple[str, dict[str, Any]]] = [
        ("list", {"limit": 2}), ("sessions", {"limit": 2}),
        ("session", {"session": made["session"], "include": ["turns"], "limit": 2}),
    ]  # fmt: skip
    pages = [(verb, {**params, "cursor": service.read(verb, params)["next_cursor"]}) for verb, params in asked]
    service.read("backup", {"dir": str(tmp_path / "b")})
    restored(tmp_path / "r", tmp_path / "b")
    again = served(tmp_path / "r")
    try:
        for verb, params in pages:
            assert service.read(verb, params)
            with pytest.raises(Refused) as caught:
                again.read(verb, params)
            assert (caught.value.reason, caught.value.data["parameter"]) == (Reason.CONFLICT, "cursor"), verb
            assert caught.value.data["current"] == {"epoch": 2}
    finally:
        again.close(True)


def test_a_failing_destination_costs_the_backup_only(service: OpenedService, tmp_path: Path) -> None:
    remember(service, "one")

    def tell(phase: str, _done: int, _of: int) -> None:
        if phase == "vault":
            shutil.rmtree(tmp_path / "b" / "work.new")

    params = msgspec.convert({"dir": str(tmp_path / "b")}, VERBS["backup"].params)
    with pytest.raises(Refused) as caught:
        service.service.read("backup", params, OPERATOR, asking=Asking(tell=tell))
    assert (caught.value.reason, caught.value.data["errno"]) == (Reason.UNAVAILABLE, "ENOENT")
    remember(service, "two")
