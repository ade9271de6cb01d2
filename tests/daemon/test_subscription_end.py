"""How a subscription ends: what its client hears, what it isn't sent any more, and that nothing is left of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import noctuary
from daemon import feed, feeder, limits
from daemon.peers import PeerEntry
from journal.codes import CallerRole
from journal.record import seq_key
from tests.daemon.followed import Followed, Wire, reason_of, records_in, texts

UID = os.geteuid()


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    found = Followed(tmp_path)
    yield found
    found.close()


def test_a_cancelled_subscription_says_so_and_nothing_comes_after(followed: Followed) -> None:
    with Wire(followed.path) as wire:
        wire.ask("a", "subscribe", level="content")
        wire.ask("b", "subscribe", level="content")
        wire.send(3, "cancel", request="a")
        lines = wire.until(lambda line: line.get("id") == 3)
        end = next(line for line in lines if line.get("method") == "end")
        assert end["params"]["request"] == "a" and end["params"]["error"]["data"]["cancelled"] is True
        assert lines[-1]["result"] == {"cancelled": True}
        followed.write("x")
        lines = wire.until(lambda line: line.get("method") == "record")
        assert {line["params"]["request"] for line in lines} == {"b"}
        assert wire.ask(4, "cancel", request="a")["result"] == {"cancelled": False}
        assert "result" in wire.ask("a", "subscribe")  # the id is free again


def test_one_that_is_cancelled_before_it_began_is_refused(followed: Followed) -> None:
    with Wire(followed.path) as wire:
        lines = [
            {"id": 1, "method": "remember", "params": {"kind": "raw", "role": "user", "text": "it waits for this"}},
            {"id": 2, "method": "subscribe", "params": {}},
            {"id": 3, "method": "cancel", "params": {"request": 2}},
        ]
        wire.socket.sendall(b"".join(noctuary._encode({"jsonrpc": "2.0", **line}) + b"\n" for line in lines))
        answers = {line["id"]: line for line in (wire.line() for _ in lines)}
    assert answers[3]["result"] == {"cancelled": True} and answers[2]["error"]["data"]["cancelled"] is True
    assert "result" in answers[1] and len(followed.server._feeder) == 0


def test_one_that_is_cancelled_just_when_it_begins_does_not_begin(followed: Followed) -> None:
    followed.gate.open.clear()
    with Wire(followed.path) as wire:
        wire.send(1, "subscribe")
        assert followed.gate.waiting.acquire(timeout=20)
        assert wire.ask(2, "cancel", request=1)["result"] == {"cancelled": True}
        followed.gate.open.set()
        assert wire.line()["error"]["data"]["cancelled"] is True
        assert len(followed.server._feeder) == 0


def test_a_connection_has_so_many_subscriptions_and_one_of_each_id(followed: Followed) -> None:
    with Wire(followed.path) as wire:
        for number in range(limits.SUBSCRIPTIONS):
            assert "result" in wire.ask(number, "subscribe")
        assert reason_of(wire.ask(0, "subscribe")) == "conflict"
        error = wire.ask(99, "subscribe")["error"]["data"]
        assert (error["reason"], error["limit"]) == ("invalid_input", limits.SUBSCRIPTIONS)
        assert error["parameter"] == "method", "whatever its parameters: it is one subscription too many"
        wire.ask(100, "cancel", request=3)
        assert "result" in wire.ask(99, "subscribe")


def test_all_connections_together_have_so_many_and_room_comes_back(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeder, "SUBSCRIPTIONS", 2)
    with Wire(followed.path) as one, Wire(followed.path) as two:
        assert "result" in one.ask(1, "subscribe") and "result" in two.ask(1, "subscribe")
        error = two.ask(2, "subscribe")["error"]["data"]
        assert (error["reason"], error["limit"], error["retryable"]) == ("overloaded", 2, True)
        one.ask(2, "cancel", request=1)
        assert "result" in two.ask(3, "subscribe")


def test_another_connections_subscription_can_not_be_cancelled(followed: Followed) -> None:
    with Wire(followed.path) as mine, Wire(followed.path) as foreign:
        mine.ask("s", "subscribe", level="content")
        assert foreign.ask(1, "cancel", request="s")["result"] == {"cancelled": False}
        followed.write("x")
        assert texts(mine.records("s"), 1) == ["x"]


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ((PeerEntry(role=CallerRole.AUDITOR, tenant="default", uid=UID),), "denied"),
        ((PeerEntry(role=CallerRole.AGENT, tenant="other", uid=UID),), "not_found"),
        ((PeerEntry(role=CallerRole.AGENT, tenant="default", uid=UID + 1),), "denied"),
    ],
)
def test_a_caller_that_loses_its_rights_hears_it_and_nothing_more(
    followed: Followed, entries: tuple[PeerEntry, ...], reason: str
) -> None:
    with Wire(followed.path) as wire:
        wire.ask(1, "subscribe", after=followed.beginning())
        followed.write("a")
        wire.until(lambda line: line.get("method") == "mark" and line["params"]["seq"] == followed.head()["seq"])
        followed.peers.replace(entries)
        lines = wire.until(lambda line: line.get("method") == "end")
        assert reason_of(lines[-1]) == reason
        assert not any(line["method"] == "record" for line in lines)
        assert len(followed.server._feeder) == 0


def test_a_record_that_comes_just_after_the_rights_went_is_not_sent(followed: Followed) -> None:
    """It doesn't wait for anybody to look at the rights now and then."""
    with Wire(followed.path) as wire:
        wire.ask(1, "subscribe")
        for _ in range(5):
            followed.peers.replace(())
            wire.ask(2, "cancel", request=1)
            wire.ask(1, "subscribe")
            followed.peers.replace((PeerEntry(role=CallerRole.AUDITOR, tenant="default", uid=UID),))
            followed.write_inside("x")
            lines = wire.until(lambda line: line.get("method") == "end")
            assert reason_of(lines[-1]) == "denied" and records_in(lines) == []


def test_rights_that_still_cover_it_leave_it_alone(followed: Followed) -> None:
    with Wire(followed.path) as wire:
        wire.ask(1, "subscribe", level="content")
        entry = PeerEntry(
            role=CallerRole.AGENT, tenant="x", uid=UID, reads=frozenset({"default"}), writes=frozenset({"default"})
        )
        followed.peers.replace((entry,))
        followed.write("a", tenant="default")
        assert texts(wire.records(1), 1) == ["a"]


def test_a_damaged_record_ends_it_behind_all_that_is_sound(followed: Followed) -> None:
    followed.write("a", "b", "c", "d")
    bad = followed.head()["seq"] - 3  # "b": behind "d" stands the key of the batch

    def damage() -> None:
        with followed.store.env.write() as txn:
            records = followed.store.env.db("records")
            value = txn.get(seq_key(bad), db=records)
            assert value is not None
            txn.put(seq_key(bad), bytes(value[:-1]) + bytes([value[-1] ^ 1]), db=records)

    followed.service.writer.between(damage)
    with Wire(followed.path) as wire:
        wire.send(1, "subscribe", after=followed.beginning(), store_wide=True)
        lines = wire.until(lambda line: line.get("method") == "end")
    seqs = [line["params"]["frame"]["seq"] for line in lines if line.get("method") == "record"]
    assert seqs == list(range(1, bad))
    assert reason_of(lines[-1]) == "damaged" and lines[-1]["params"]["error"]["data"]["seq"] == bad
    assert any(finding.seq == bad for finding in followed.store.findings)
    with Wire(followed.path) as wire:  # the one behind it can't be told, for its frame names the chain before
        wire.send(2, "subscribe", after=lines[-1]["params"]["error"]["data"]["current"], level="content")
        assert texts(wire.records(2), 1) == ["d"]


def test_a_frame_that_no_line_can_carry_ends_it_and_says_where_to_go_on(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "FRAME_BYTES", 8_000)
    followed.write("small", "x" * 10_000, "small too")
    with Wire(followed.path) as wire:
        wire.send(1, "subscribe", after=followed.beginning(), level="content")
        lines = wire.until(lambda line: line.get("method") == "end")
        assert lines[-2]["method"] == "record" and reason_of(lines[-1]) == "too_large"
        wire.send(2, "subscribe", after=lines[-1]["params"]["error"]["data"]["current"], level="content")
        assert texts(wire.records(2), 1) == ["small too"]


def test_a_daemon_that_stops_says_so(tmp_path: Path) -> None:
    followed = Followed(tmp_path)
    with Wire(followed.path) as wire:
        wire.ask(1, "subscribe")
        stopping = threading.Thread(target=followed.close)
        stopping.start()
        end = [line for line in wire.rest() if line["method"] == "end"]
        stopping.join()
    assert [reason_of(line) for line in end] == ["unavailable"]
    error = end[0]["params"]["error"]
    assert error["data"]["retryable"] is True and error["message"] == "the daemon stops"


def test_the_end_of_the_input_is_the_end(followed: Followed) -> None:
    with Wire(followed.path) as wire:
        wire.send(1, "subscribe")
        wire.socket.shutdown(1)
        lines = wire.rest()
    assert "result" in lines[0] and len(lines) == 1
    with Wire(followed.path) as wire:
        while len(followed.server._feeder):
            wire.ask(1, "hello")


def test_who_leaves_is_forgotten(followed: Followed) -> None:
    with Wire(followed.path) as stays:
        with Wire(followed.path) as wire:
            wire.ask(1, "subscribe")
        while len(followed.server._feeder):
            stays.ask(1, "hello")
