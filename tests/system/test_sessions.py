"""What a session gives to its writes, and which session a write belongs to, also after a restart."""

from __future__ import annotations

from typing import Any

import pytest

import noctuary
from journal.vault import SLOT_BYTES, SLOTS_OFFSET
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


@pytest.mark.parametrize("restarted", [False, True], ids=["live", "restarted"])
def test_defaults_given_later_are_those_of_later_writes(daemon: DaemonProcess, restarted: bool) -> None:
    """A turn may open a session before `session_open` says what it gives; nothing of that is dropped."""
    key = {"agent": "hook", "key": "k"}
    turn = remember(daemon, **TURN, text="I like black tea", session=key)
    first = daemon.call("session_open", **key, **DEFAULTS)
    assert (first["created"], first["session"]) == (False, turn["session"])
    if restarted:
        daemon.restart()
    later = remember(daemon, **TURN, text="two", session=key)
    assert (later["project"], later["subject"], later["producer"]["model"]) == ("kitchen", "Ada", "m-1")
    claim = {"kind": "note", "origin": "stated", "derived_from": [turn["id"]], "session": key, "text": "Ada hates tea"}
    with pytest.raises(noctuary.NoctuaryError) as refused:
        daemon.call("remember", **claim)
    assert refused.value.reason == "provenance"
    daemon.call("session_close", session=turn["session"])
    assert daemon.call("session_open", **key, project="garden")["reopened"] is True
    if restarted:
        daemon.restart()
    after = remember(daemon, **TURN, text="three", session=key)
    assert (after["project"], after["subject"], after["producer"]["model"]) == ("garden", "Ada", "m-1")
    (shown,) = daemon.call("sessions")["sessions"]
    assert (shown["project"], shown["subject"], shown["producer"]["model"]) == ("garden", "Ada", "m-1")
    assert daemon.audit()["findings"] == []


def test_a_session_whose_key_is_damaged_is_not_opened_a_second_time(daemon: DaemonProcess) -> None:
    daemon.call("session_open", agent="hook", key="k")
    assert daemon.stop() == 0
    with (daemon.state / "vault").open("r+b") as vault:
        vault.seek(SLOTS_OFFSET + SLOT_BYTES + 20)
        (byte,) = vault.read(1)
        vault.seek(-1, 1)
        vault.write(bytes((byte ^ 1,)))
    daemon.start()
    assert [finding["code"] for finding in daemon.call("status")["findings"]] == ["name_damaged"]
    with pytest.raises(noctuary.NoctuaryError) as refused:
        daemon.call("session_open", agent="hook", key="k")
    assert refused.value.reason == "damaged"
    assert daemon.call("session_open", agent="other", key="k")["created"] is True
