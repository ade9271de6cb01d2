"""What a session gives to its writes, and which session a write belongs to, also after a restart."""

from __future__ import annotations

from typing import Any

import pytest

import noctuary
from tests.system.process import DaemonProcess

TURN = {"kind": "raw", "role": "user"}
DEFAULTS = {"project": "kitchen", "subject": "Ada", "producer": {"agent": "hook", "model": "m-1", "version": "2"}}


def remember(daemon: DaemonProcess, **params: Any) -> dict[str, Any]:
    written = daemon.call("remember", **params)
    memory: dict[str, Any]
    (memory,) = daemon.call("get", ids=[written["id"]])["memories"]
    return memory


@pytest.mark.parametrize("restarted", [False, True], ids=["live", "restarted"])
def test_defaults_fill_what_a_write_leaves_out(daemon: DaemonProcess, restarted: bool) -> None:
    session = daemon.call("session_open", agent="hook", key="k", **DEFAULTS)["session"]
    if restarted:
        daemon.restart()
    plain = remember(daemon, **TURN, text="one", session=session)
    assert (plain["project"], plain["subject"]) == ("kitchen", "Ada")
    assert plain["producer"] == {"agent": "hook", "model": "m-1", "version": "2", "extractor": None}
    named = {"agent": "other", "model": None, "version": None, "extractor": None}
    own = remember(
        daemon, **TURN, text="two", session={"agent": "hook", "key": "k"}, project="garden", producer={"agent": "other"}
    )
    assert (own["project"], own["subject"], own["producer"]) == ("garden", "Ada", named)
    elsewhere = remember(daemon, **TURN, text="three")
    assert (elsewhere["project"], elsewhere["subject"], elsewhere["producer"]["agent"]) == (None, None, None)


def test_a_session_that_names_a_model_does_not_let_it_say_stated(daemon: DaemonProcess) -> None:
    session = daemon.call("session_open", agent="hook", key="k", **DEFAULTS)["session"]
    turn = remember(daemon, **TURN, text="I like my tea  black", session=session)
    claim = {"kind": "note", "origin": "stated", "derived_from": [turn["id"]], "session": session}
    with pytest.raises(noctuary.NoctuaryError) as refused:
        daemon.call("remember", **claim, text="Ada hates tea")
    assert refused.value.reason == "provenance" and refused.value.data["hint"] == "inferred"
    assert remember(daemon, **claim, text="my tea black")["origin"] == "stated"


def test_stated_may_rest_on_a_turn_of_the_same_batch(daemon: DaemonProcess) -> None:
    session = {"agent": "hook", "key": "k"}
    note = {"kind": "note", "origin": "stated", "derived_from": ["@0"], "producer": {"model": "m-1"}}
    turn = {**TURN, "text": "I moved to Rome", "session": session}
    items = [turn, {**note, "text": "moved to Rome"}]
    for atomic in (True, False):
        results = daemon.call("remember_many", items=items, atomic=atomic)["results"]
        assert [r["id"].partition(":")[0] for r in results] == ["raw", "note"]
    with pytest.raises(noctuary.NoctuaryError) as refused:
        daemon.call("remember_many", items=[turn, {**note, "text": "moved to Paris"}])
    assert refused.value.reason == "provenance" and refused.value.data["index"] == 1


def test_the_one_live_session_takes_writes_that_name_none(daemon: DaemonProcess) -> None:
    stamped = {**TURN, "producer": {"agent": "hook"}}
    first = daemon.call("session_open", agent="hook", key="a")["session"]
    assert remember(daemon, **stamped, text="one")["session"] == first
    second = daemon.call("session_open", agent="hook", key="b")["session"]
    assert remember(daemon, **stamped, text="two")["session"] is None
    daemon.call("session_close", session=first)
    assert remember(daemon, **stamped, text="three")["session"] == second
    assert daemon.call("session_open", agent="hook", key="a")["reopened"] is True
    assert remember(daemon, **stamped, text="four")["session"] is None
    daemon.call("session_close", session=second)
    daemon.restart()
    assert remember(daemon, **stamped, text="five")["session"] == first


def test_a_refused_item_names_its_place_and_leaves_the_others(daemon: DaemonProcess) -> None:
    items = [{**TURN, "text": "a"}, {"kind": "note", "text": "b", "origin": "told"}, {**TURN, "text": "c"}]
    first, refused, last = daemon.call("remember_many", items=items, atomic=False)["results"]
    assert refused["index"] == 1 and refused["error"]["data"]["reason"] == "provenance"
    assert [m["text"] for m in daemon.call("get", ids=[first["id"], last["id"]])["memories"]] == ["a", "c"]


def test_a_keyed_command_that_finds_nothing_is_answered_the_same_again(daemon: DaemonProcess) -> None:
    params = {"id": "raw:0000000000001", "idempotency_key": "k", "tenant": "untouched"}
    first, again = (daemon.call("forget", **params) for _ in range(2))
    assert first["found"] is False and "duplicate" not in first
    assert again["duplicate"] is True
    with pytest.raises(noctuary.NoctuaryError) as refused:
        daemon.call("forget", **{**params, "id": "raw:0000000000002"})
    assert refused.value.reason == "conflict"


def test_a_fact_that_ends_before_it_begins_is_refused(daemon: DaemonProcess) -> None:
    fact = {"subject": "Ada", "predicate": "lives in", "value": "Rome"}
    fact |= {"valid_from": "2026-02-01T00:00:00Z", "valid_to": "2026-01-01T00:00:00Z"}
    with pytest.raises(noctuary.NoctuaryError) as refused:
        daemon.call("remember", **TURN, text="t", facts=[fact])
    assert (refused.value.reason, refused.value.data["parameter"]) == ("invalid_input", "facts.valid_to")
