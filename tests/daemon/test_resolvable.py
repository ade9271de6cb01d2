"""What became known later of a source outside the store: a record of its own, which every answer follows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.refusal import Reason, Refused
from journal.events import ResolvableChanged
from tests.daemon.slept import Slept


@pytest.fixture
def slept(tmp_path: Path) -> Iterator[Slept]:
    opened = Slept(tmp_path / "state")
    try:
        yield opened
        assert opened.rebuilt_alike()
    finally:
        opened.close(True)


def note(slept: Slept) -> str:
    made = {
        "kind": "note", "origin": "derived", "text": "n",
        "derived_from": [slept.turn("t"), {"kind": "url", "id": "u"}, {"kind": "document", "id": "d"}],
    }  # fmt: skip
    return str(slept.write("remember", made)["id"])


def resolvable(slept: Slept, ref: str) -> list[Any]:
    return [each["resolvable"] for each in slept.memory(ref)["derived_from"] if isinstance(each, dict)]


def test_get_and_explain_say_what_is_known_now(slept: Slept) -> None:
    ref = note(slept)
    assert resolvable(slept, ref) == [True, True]
    assert slept.service.set_resolvable(ref, 1, False, "default") == {"id": ref, "changed": True}
    assert resolvable(slept, ref) == [True, False]
    assert [each["state"] for each in slept.explain(ref)["sources"]] == ["live", "live", "unavailable"]
    assert slept.read("history", {"id": ref})["events"][-1]["type"] == "resolvable_changed"
    slept.rebuild()
    assert resolvable(slept, ref) == [True, False]
    slept.service.set_resolvable(ref, 1, True, "default")
    assert resolvable(slept, ref) == [True, True]


def test_it_is_a_record_of_the_daemons_own(slept: Slept) -> None:
    ref = note(slept)
    slept.service.set_resolvable(ref, 0, False, "default")
    record = next(r for chunk in slept.store.log.chunks() for r in chunk if isinstance(r.event, ResolvableChanged))
    assert (record.cause.verb, record.actor.role, record.actor.via) == ("set_resolvable", 3, 4)


def test_the_same_again_is_no_change(slept: Slept) -> None:
    ref = note(slept)
    slept.service.set_resolvable(ref, 0, False, "default")
    head = slept.store.log.head().seq
    assert slept.service.set_resolvable(ref, 0, False, "default") == {"id": ref, "changed": False}
    assert slept.service.set_resolvable(ref, 1, True, "default") == {"id": ref, "changed": False}
    assert slept.store.log.head().seq == head


def test_what_is_not_there_is_refused(slept: Slept) -> None:
    ref = note(slept)
    slept.write("remember", {"kind": "raw", "origin": "told", "text": "theirs", "tenant": "other"})
    head = slept.store.log.head().seq
    for memory, index, tenant, reason in (
        (ref, 2, "default", Reason.INVALID_INPUT), (ref, -1, "default", Reason.INVALID_INPUT),
        (ref, 0, "other", Reason.NOT_FOUND), (ref, 0, "never", Reason.NOT_FOUND),
        ("note:0000000000001", 0, "default", Reason.NOT_FOUND), ("note", 0, "default", Reason.INVALID_INPUT),
    ):  # fmt: skip
        with pytest.raises(Refused) as refused:
            slept.service.set_resolvable(memory, index, False, tenant)
        assert refused.value.reason is reason, (memory, index, tenant)
    assert slept.store.log.head().seq == head
    slept.purge(ref)
    with pytest.raises(Refused) as refused:
        slept.service.set_resolvable(ref, 0, False, "default")
    assert refused.value.reason is Reason.CONFLICT
