"""`list` against a filter that is as plain as the contract: every memory in full, one condition after another."""

from __future__ import annotations

import base64
import itertools
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.caller import Caller
from daemon.refusal import Reason, Refused
from daemon.wire.verbs import VERBS
from journal.codes import CallerRole, Part
from journal.log import sealed_key
from tests.model.opened import OpenedService

START_MS = 1_790_000_000_000
DAY_MS = 86_400_000
STATUSES = ["purged", "quarantined", "forgotten", "pruned", "archived", "superseded", "active"]
CHOICES: dict[str, list[Any]] = {
    "kinds": [None, ["raw"], ["note", "belief"]],
    "origins": [None, ["stated", "observed"]],
    "status": [None, ["forgotten"], STATUSES],
    "producer": [None, {"agent": "beta"}, {"agent": None}, {"agent": "beta", "model": None}],
    "project": [None, "fence"],
    "text": [None, "GREEN"],
    "tags": [None, ["a"], ["a", "b"]],
    "since": [None, "day"],
}


class Clock:
    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenedService]:
    clock = Clock()
    service = OpenedService(tmp_path_factory.mktemp("listing") / "state", clock)
    fill(service, clock)
    yield service
    service.close(True)


def fill(service: OpenedService, clock: Clock) -> None:
    turns: list[str] = []
    for number in range(60):
        clock.now_ms += DAY_MS // 16
        wanted: dict[str, Any] = {"text": f"{number} {'Green' if number % 3 else 'red'}", "tenant": "default"}
        if number % 5 == 4:
            wanted |= {"kind": "note", "origin": "observed", "derived_from": turns[-1:]}
        else:
            wanted |= {"kind": "raw", "role": "user", "session": {"agent": "a", "key": str(number % 2)}}
        if number % 2:
            wanted["producer"] = {"agent": "beta", **({"model": "m"} if number % 4 == 1 else {})}
        if number % 3 == 0:
            wanted |= {"project": "fence", "tags": ["a", "b"] if number % 2 else ["a"]}
        made = service.write("remember", wanted)["id"]
        if made.startswith("raw"):
            turns.append(made)
        if number % 7 == 0:
            service.write("forget", {"id": made})
        service.write("remember", {"kind": "raw", "role": "user", "text": f"other {number}", "tenant": "other"})


def everything(service: OpenedService, **sel: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    params: dict[str, Any] = {"limit": 7, "full": True, **({"sel": sel} if sel else {})}
    while True:
        page = service.read("list", params)
        found += page["memories"]
        if page["next_cursor"] is None:
            assert page["total"] == len(found)
            return found
        assert len(page["memories"]) == 7
        params["cursor"] = page["next_cursor"]


def fits(memory: dict[str, Any], sel: dict[str, Any]) -> bool:
    producer = sel.get("producer", {})
    return (
        memory["kind"] in sel.get("kinds", [memory["kind"]])
        and memory["origin"] in sel.get("origins", [memory["origin"]])
        and memory["status"] in sel.get("status", ["active"])
        and all((memory["producer"] or {}).get(name) == value for name, value in producer.items())
        and memory["project"] == sel.get("project", memory["project"])
        and sel.get("text", "").casefold() in memory["text"].casefold()
        and set(sel.get("tags", [])) <= set(memory["tags"])
        and memory["at"] >= sel.get("since", "")
    )


@pytest.fixture
def cold(opened: OpenedService) -> Iterator[OpenedService]:
    """The same without any columns: every question reads its snapshot."""
    columns, opened.service.names.columns = opened.service.names.columns, None
    yield opened
    opened.service.names.columns = columns


def warmed(opened: OpenedService) -> OpenedService:
    deadline = time.monotonic() + 30
    while opened.service.columns.warmed() < 1:
        assert time.monotonic() < deadline, "not warmed within 30 s"
        time.sleep(0.005)  # between two looks
    return opened


@pytest.mark.parametrize("way", ["cold", "warm"])
def test_every_combination_of_conditions_is_that_of_a_plain_filter(
    opened: OpenedService, way: str, request: pytest.FixtureRequest
) -> None:
    if way == "cold":
        request.getfixturevalue("cold")
    else:
        warmed(opened)
    known = everything(opened, status=STATUSES)
    assert len(known) == 60
    day = datetime.fromisoformat(known[30]["at"]).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    seen: set[int] = set()
    for values in itertools.product(*CHOICES.values()):
        sel = {name: value for name, value in zip(CHOICES, values, strict=True) if value is not None}
        if "since" in sel:
            sel["since"] = day
        expected = [memory["id"] for memory in known if fits(memory, sel)]
        assert [memory["id"] for memory in everything(opened, **sel)] == expected, sel
        seen.add(len(expected))
    assert len(seen) > 10


def test_what_is_written_while_it_is_paged_is_on_no_page(opened: OpenedService, tmp_path: Path) -> None:
    first = opened.read("list", {"limit": 5})
    total = first["total"]
    opened.write("remember", {"kind": "raw", "role": "user", "text": "late"})
    ids = [memory["id"] for memory in first["memories"]]
    cursor = first["next_cursor"]
    while cursor is not None:
        page = opened.read("list", {"limit": 50, "cursor": cursor})
        assert page["total"] == total
        ids += [memory["id"] for memory in page["memories"]]
        cursor = page["next_cursor"]
    assert len(ids) == len(set(ids)) == total


@pytest.fixture
def small(tmp_path: Path) -> Iterator[OpenedService]:
    service = OpenedService(tmp_path / "state", Clock())
    yield service
    service.close(True)


def _tagged(service: OpenedService, *tags: str, text: str = "a text") -> str:
    wanted = {"kind": "raw", "role": "user", "text": text, "tags": list(tags)}
    made: str = service.write("remember", wanted)["id"]
    return made


def _ids(service: OpenedService, **sel: Any) -> list[str]:
    return [memory["id"] for memory in service.read("list", {"sel": sel})["memories"]]


def test_the_tags_of_what_was_just_written_are_known_at_once_and_again_after_a_start(small: OpenedService) -> None:
    one, both = _tagged(small, "a"), _tagged(small, "a", "b")
    for _ in range(2):
        warmed(small).service.columns.settle()
        newest = small.service.columns.newest
        assert newest is not None and newest.unknown == 0 and newest.total == 2
        assert _ids(small, tags=["a"]) == [one, both]
        assert _ids(small, tags=["a", "b"]) == [both] and _ids(small, tags=["A"]) == []
        small.reopen(True)


def test_with_blooms_only_what_may_have_the_tags_is_unsealed(small: OpenedService) -> None:
    items = [{"kind": "raw", "role": "user", "text": f"{n}", "tags": [f"tag-{n}"]} for n in range(300)]
    small.write("remember_many", {"items": items})
    warmed(small)
    params = msgspec.convert({"sel": {"tags": ["tag-7"]}}, VERBS["list"].params)
    caller = Caller(uid=0, role=CallerRole.OPERATOR, tenants_read=None, tenants_write=None)
    found = small.service.read("list", params, caller, budget=60)  # each memory that is looked at costs of it
    assert found.total == 1


def test_a_memory_whose_tags_cannot_be_read_is_shown_as_damaged_not_left_out(small: OpenedService) -> None:
    _tagged(small, "a")
    hurt = _tagged(small, "a")
    other = _tagged(small, "b")
    seq = small.read("get", {"ids": [hurt]})["memories"][0]["address"]["seq"]
    small.close(True)
    small._open()
    env = small.store.env
    key = sealed_key(seq, int(Part.PARTICULARS))
    with env.write() as txn:
        value = bytearray(txn.get(key, db=env.db("sealed")) or b"")
        value[-1] ^= 1
        txn.put(key, bytes(value), db=env.db("sealed"))
    small.service.columns.forget()
    warmed(small)
    found = small.read("list", {"sel": {"tags": ["b"]}})["memories"]
    assert [memory["id"] for memory in found] == [hurt, other] and found[0]["damaged"] is True
    assert {finding.seq for finding in small.store.findings} == {seq}


def test_who_may_not_see_content_is_refused_before_the_blooms_could_tell_anything(small: OpenedService) -> None:
    _tagged(small, "a")
    warmed(small)
    auditor = Caller(uid=1, role=CallerRole.AUDITOR, tenants_read=None, tenants_write=None, content=False)
    for tag in ("a", "never seen"):
        params = msgspec.convert({"sel": {"tags": [tag]}}, VERBS["list"].params)
        with pytest.raises(Refused) as refused:
            small.service.read("list", params, auditor)
        assert refused.value.reason is Reason.DENIED


def test_a_cursor_that_was_changed_anywhere_is_none(small: OpenedService) -> None:
    """Its place, head and count are taken as they are: whoever could write them would have the store walk anywhere."""
    for _ in range(3):
        _tagged(small, "a")
    cursor = small.read("list", {"limit": 1, "sel": {"tags": ["a"]}})["next_cursor"]
    genuine = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    for at in range(len(genuine)):
        changed = genuine[:at] + bytes((genuine[at] ^ 0x80,)) + genuine[at + 1 :]
        with pytest.raises(Refused) as refused:
            wrong = base64.urlsafe_b64encode(changed).decode().rstrip("=")
            small.read("list", {"limit": 1, "sel": {"tags": ["a"]}, "cursor": wrong})
        assert refused.value.reason is Reason.INVALID_INPUT and refused.value.data["parameter"] == "cursor"


def test_lists_beside_a_writer_see_its_batches_wholly(small: OpenedService) -> None:
    """Two memories a batch: whenever it is asked, there is an even number of them, and all of them are shown."""
    warmed(small)
    ended = threading.Event()
    odd: list[int] = []
    answered = [0]

    def ask() -> None:
        while not ended.is_set():
            answer = small.read("list", {"limit": 1000})
            answered[0] += 1
            if answer["total"] % 2 or answer["total"] != len(answer["memories"]):
                odd.append(answer["total"])

    asking = threading.Thread(target=ask)
    asking.start()
    items = [{"kind": "raw", "role": "user", "text": text} for text in ("one", "two")]
    written = 0
    while written < 120 or answered[0] < 20:
        small.write("remember_many", {"items": items})
        written += 1
        if written >= 450:
            break
    ended.set()
    asking.join()
    assert odd == [] and answered[0] >= 20
    assert small.read("list", {"limit": 1})["total"] == 2 * written


def test_a_cursor_of_another_epoch_is_a_conflict(small: OpenedService, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        _tagged(small, "a")
    cursor = small.read("list", {"limit": 1})["next_cursor"]
    monkeypatch.setattr(type(small.store), "epoch", small.store.epoch + 1)
    with pytest.raises(Refused) as refused:
        small.read("list", {"limit": 1, "cursor": cursor})
    assert refused.value.reason is Reason.CONFLICT
