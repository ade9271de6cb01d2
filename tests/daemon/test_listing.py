"""`list` against a filter that is as plain as the contract: every memory in full, one condition after another."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

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


def test_every_combination_of_conditions_is_that_of_a_plain_filter(opened: OpenedService) -> None:
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
