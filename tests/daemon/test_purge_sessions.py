"""A session in which nothing was said: its key and its defaults can be purged by selecting it alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.refusal import Reason
from tests.daemon.cohorted import refused
from tests.daemon.purged import Purging


@pytest.fixture
def purging(tmp_path: Path) -> Iterator[Purging]:
    opened = Purging(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def opened(purging: Purging, **more: Any) -> str:
    params = {"agent": "sleeper", "key": "canary key", "project": "canary", "subject": "canary", **more}
    return str(purging.write("session_open", params)["session"])


def test_a_session_without_memories_goes_when_it_alone_is_selected(purging: Purging) -> None:
    session = opened(purging, idempotency_key="o")
    opened(purging, project="canary again")
    assert len(purging.readable("canary")) >= 3
    looked = purging.select({"session": session})
    assert (looked["count"], looked["results"], looked["sessions"]) == (0, [], [session])
    assert looked["totals"]["keys_shredded"] >= 4, "what was asked under a key goes too"
    done = purging.select({"session": session}, token=looked["token"], idempotency_key="k")
    assert (done["count"], done["sessions"], done["totals"]) == (0, [session], looked["totals"])
    assert purging.readable("canary") == []
    (receipt,) = purging.read("purges", {"receipt": done["receipt"]})["purges"]
    assert (receipt["sessions"], receipt["count"], receipt["results"]) == ([session], 0, [])
    (row,) = purging.read("sessions", {})["sessions"]
    assert (row["session"], row["key"], row["state"]) == (session, None, "purged")
    again = purging.select({"session": session}, token=looked["token"], idempotency_key="k")
    assert again == {**done, "duplicate": True, "state": "purged"}
    assert opened(purging) != session, "nobody finds it by its key any more"
    assert purging.rebuilt_alike()
    purging.reopen(False)
    assert len(purging.readable("canary key")) == 1


def test_once_it_is_purged_there_is_nothing_to_do(purging: Purging) -> None:
    session = opened(purging)
    purging.select({"session": session}, token=purging.select({"session": session})["token"])
    looked = purging.select({"session": session})
    assert (looked["count"], looked["sessions"]) == (0, []) and "token" not in looked


def test_a_session_goes_along_with_its_last_memory_and_is_told(purging: Purging) -> None:
    session = opened(purging)
    turns = purging.turns(2, "canary key")
    assert purging.purge(turns[0])["sessions"] == []
    assert purging.purge(turns[1], dry_run=True)["sessions"] == [session]
    done = purging.purge(turns[1], idempotency_key="k")
    assert done["sessions"] == [session] and purging.readable("canary") == []
    assert purging.purge(turns[1], idempotency_key="k")["sessions"] == [session]


def test_it_stays_while_a_memory_is_in_it_or_something_else_is_asked_for(purging: Purging) -> None:
    session = opened(purging)
    assert "token" not in purging.select({"session": session, "kinds": ["raw"]})
    assert "token" not in purging.select({"subject": "canary"})
    turn = purging.turn("a turn", key="canary key")
    other = purging.turn("held", key="canary key")
    purging.hold(other)
    assert refused(Reason.LEGAL_HOLD, purging.select, {"session": session}).data["ids"] == [other]
    assert purging.purge(turn)["sessions"] == [] and purging.readable("canary key")


def test_a_write_into_it_makes_its_token_stale(purging: Purging) -> None:
    session = opened(purging)
    token = purging.select({"session": session})["token"]
    purging.turn("a turn", key="canary key")
    assert refused(Reason.CONFLICT, purging.select, {"session": session}, token=token)
    assert purging.readable("canary key")
