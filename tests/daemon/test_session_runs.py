"""A session from its opening to its end: what opens it again, what keeps it alive, and whose it is."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.refusal import Reason
from daemon.wire.times import format_ms
from daemon.wire.verbs import VERBS
from projections.livesessions import LEASE_MS
from tests.daemon.told import Told, reason_of

HOUR_MS = 3_600_000
KEY = {"agent": "scribe", "key": "k"}
TURN = {"kind": "raw", "role": "user", "text": "t"}


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    opened = Told(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def opening(told: Told, **more: Any) -> dict[str, Any]:
    return told.write("session_open", {**KEY, **more})


def shown(told: Told, ref: str, **more: Any) -> dict[str, Any]:
    return told.read("session", {"session": ref, **more})


def head(told: Told) -> int:
    return told.store.log.head().seq


# --- opening (T26) -------------------------------------------------------------------------------


def test_opened_again_while_it_lives_it_is_the_same_one_in_the_same_activation(told: Told) -> None:
    first = opening(told)
    assert (first["created"], first["reopened"], first["activation"]) == (True, False, 1)
    before = head(told)
    assert opening(told) == {**first, "created": False}
    assert head(told) == before, "in the same moment there is nothing to renew"
    told.now_ms += HOUR_MS
    assert opening(told) == {**first, "created": False}
    assert shown(told, first["session"])["last_at"] == format_ms(told.now_ms)


@pytest.mark.parametrize("ended", ["closed", "stale", "closed long ago"])
def test_opened_again_when_it_is_closed_or_stale_it_lives_in_the_next_activation(told: Told, ended: str) -> None:
    first = opening(told)
    if ended.startswith("closed"):
        told.write("session_close", {"session": first["session"]})
    told.now_ms += HOUR_MS if ended == "closed" else LEASE_MS
    wanted = {**first, "created": False, "reopened": True, "activation": 2}
    assert opening(told) == wanted
    assert opening(told) == {**wanted, "reopened": False}
    now = shown(told, first["session"])
    assert (now["state"], now["closed_at"], now["opened_at"]) == ("open", None, first["opened_at"])
    assert told.rebuilt_alike()


def test_one_natural_key_in_two_tenants_or_of_two_agents_is_as_many_sessions(told: Told) -> None:
    mine, other = opening(told), opening(told, agent="other")
    theirs = opening(told, tenant="theirs")
    assert all(each["created"] for each in (mine, other, theirs))
    assert len({each["session"] for each in (mine, other, theirs)}) == 3
    told.write("session_close", {"session": theirs["session"], "tenant": "theirs"})
    states = {row["session"]: row["state"] for row in told.read("sessions", {})["sessions"]}
    assert states == {mine["session"]: "open", other["session"]: "open"}
    foreign = theirs["session"]
    for call in (
        partial(told.write, "session_close", {"session": foreign}), partial(shown, told, foreign),
        partial(told.write, "remember", {**TURN, "session": foreign}),
        partial(told.read, "records", {"session": foreign}), partial(told.read, "list", {"sel": {"session": foreign}}),
    ):  # fmt: skip
        reason, data = reason_of(call)
        assert (reason, data["parameter"].removeprefix("sel.")) == (Reason.NOT_FOUND, "session")


def test_defaults_are_compared_by_what_they_say_not_how_they_are_written(told: Told) -> None:
    """B15: the order of names in JSON."""
    producer = {"agent": "scribe", "model": "m", "version": "1", "extractor": "x"}
    given = {**KEY, "project": "kitchen", "subject": "Ada", "producer": producer}
    ref = told.write("session_open", given)["session"]
    before = head(told)
    decode = msgspec.json.Decoder(VERBS["session_open"].params).decode
    for inner in itertools.permutations(producer.items()):
        spelled = {"producer": dict(inner), **dict(reversed(given.items()))} | {"producer": dict(inner)}
        assert decode(json.dumps(spelled)) == decode(json.dumps(given))
        told.write("session_open", spelled)
    assert head(told) == before, "nothing changed, and nothing was written"
    told.write("session_open", {**KEY, "project": "garden"})
    now = shown(told, ref)
    assert (now["project"], now["subject"], now["producer"], now["activation"]) == ("garden", "Ada", producer, 1)


# --- the lease (T27) -----------------------------------------------------------------------------


@pytest.mark.parametrize(("later", "state", "activation"), [(LEASE_MS - 1, "open", 1), (LEASE_MS, "stale", 2)])
def test_the_lease_ends_at_its_millisecond_for_who_reads_and_who_writes(
    told: Told, later: int, state: str, activation: int
) -> None:
    ref = opening(told)["session"]
    told.now_ms += later
    before = head(told)
    assert shown(told, ref)["state"] == state
    assert [row["state"] for row in told.read("sessions", {"open": state == "open"})["sessions"]] == [state]
    assert head(told) == before, "who only looks changes nothing"
    written = told.write("remember", {**TURN, "session": ref})
    assert written["notes"] == (["session_revived"] if activation == 2 else [])
    assert shown(told, ref)["activation"] == activation


def test_its_last_activity_never_moves_back(told: Told) -> None:
    ref = opening(told)["session"]
    told.now_ms += HOUR_MS
    opening(told)
    last_at = shown(told, ref)["last_at"]
    opening(told, at=format_ms(told.now_ms - HOUR_MS))
    told.now_ms -= HOUR_MS
    opening(told)
    told.write("remember", {**TURN, "session": ref})
    told.write("mark", {"id": told.raw(), "mark": "resolved", "session": ref})
    assert shown(told, ref)["last_at"] == last_at
    assert told.rebuilt_alike()


# --- closing (T27) -------------------------------------------------------------------------------


def test_the_first_close_stands_and_the_last_activity_with_it(told: Told) -> None:
    ref = opening(told)["session"]
    told.now_ms += HOUR_MS
    first = told.write("session_close", {"session": ref})
    assert first == {"closed_at": format_ms(told.now_ms), "already_closed": False}
    before = shown(told, ref)
    told.now_ms += 3 * LEASE_MS
    for more in ({}, {"at": format_ms(told.now_ms - HOUR_MS)}):
        again = told.write("session_close", {"session": ref, **more})
        assert again == {**first, "already_closed": True}
    assert shown(told, ref) == before and before["state"] == "closed", "closed, not stale, however late it is"


def test_a_write_does_not_open_what_was_closed_and_an_opening_does(told: Told) -> None:
    """B10."""
    ref = opening(told)["session"]
    told.write("session_close", {"session": ref})
    before = shown(told, ref)
    for session in (ref, KEY):
        written = told.write("remember", {**TURN, "session": session})
        assert (written["session"], written["turn"], written["notes"]) == (None, None, ["session_closed"])
    assert told.write("remember", {**TURN, "producer": {"agent": "scribe"}})["notes"] == []
    assert shown(told, ref) == before
    assert opening(told)["reopened"] is True
    assert told.write("remember", {**TURN, "session": ref})["turn"] == 1


def test_a_stale_session_that_is_closed_stays_closed(told: Told) -> None:
    ref = opening(told)["session"]
    told.now_ms += LEASE_MS
    assert told.write("session_close", {"session": ref})["already_closed"] is False
    assert told.write("remember", {**TURN, "session": ref})["notes"] == ["session_closed"]
    assert (shown(told, ref)["state"], shown(told, ref)["activation"]) == ("closed", 1)


# --- its records (T25) ---------------------------------------------------------------------------


def test_pages_of_the_records_of_a_session_have_each_once_in_order(told: Told) -> None:
    ref, other = opening(told)["session"], opening(told, key="other")["session"]
    note = told.note(told.raw(), session=ref)
    for on in (True, False, True):
        told.do("mark", told.raw(), mark="resolved", session=other)
        told.do("mark", note, mark="resolved", on=on, session=ref)
    told.do("reaffirm", told.raw(), session=other)
    whole = told.read("records", {"session": ref})
    assert [frame["type"] for frame in whole["frames"]] == ["session_opened", "memory_created", *["marked"] * 3]
    pages = []
    params: dict[str, Any] = {"session": ref, "limit": 2}
    while True:
        page = told.read("records", params)
        pages.append([frame["seq"] for frame in page["frames"]])
        assert page["total"] == 5
        if page["next_cursor"] is None:
            break
        params["cursor"] = page["next_cursor"]
        told.do("mark", told.raw(), mark="resolved", session=ref)  # on no page
    assert [len(page) for page in pages] == [2, 2, 1]
    assert list(itertools.chain(*pages)) == [frame["seq"] for frame in whole["frames"]]
