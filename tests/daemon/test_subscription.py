"""Subscriptions over a real socket and a real store: what arrives, in which order, for whom, and how it ends."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

import noctuary
from daemon import feed, forks
from daemon.asking import Asking
from daemon.connection import SUBSCRIBED_BUFFER_BYTES
from daemon.forks import Forks
from daemon.front import Front
from daemon.peers import PeerEntry
from daemon.reads.operator import Operator
from daemon.refusal import Reason, Refused
from daemon.wire.exchange_params import SubscribeParams
from journal.codes import CallerRole
from journal.events import Opened, Restored
from journal.frames import decode_frame, verify_frame
from journal.log import MetaState
from journal.record import Actor, Cause, Record, encode_body
from tests.daemon.followed import NOW_MS, Followed, Wire, reason_of, records_in, texts
from tests.model.opened import OPERATOR

UID = os.geteuid()


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    found = Followed(tmp_path)
    yield found
    found.close()


@pytest.fixture
def unmarked(tmp_path: Path) -> Iterator[Followed]:
    """One where no mark comes to the help of whoever forgot to wake a subscription."""
    found = Followed(tmp_path, mark_every_s=3600.0)
    yield found
    found.close()


def has_reached(request: int | str, seq: int) -> Callable[[dict[str, Any]], bool]:
    """Whether a line is the mark that says so."""
    return lambda line: (
        line.get("method") == "mark" and line["params"]["request"] == request and line["params"]["seq"] >= seq
    )


# --- what arrives --------------------------------------------------------------------------------


def test_the_old_then_the_new_each_once_in_order(unmarked: Followed) -> None:
    unmarked.write("a", "b")
    with Wire(unmarked.path) as wire:
        answer = wire.ask("s", "subscribe", after=unmarked.beginning(), level="content")
        assert answer["result"]["head"]["seq"] == unmarked.head()["seq"]
        frames = wire.records("s")
        assert texts(frames, 2) == ["a", "b"]
        for number in range(20):
            unmarked.write(f"{number}", f"{number}'")
        found = texts(frames, 40)
    assert found == [text for number in range(20) for text in (f"{number}", f"{number}'")]


def test_every_frame_is_the_record_and_follows_from_the_one_before(followed: Followed) -> None:
    followed.write("a", "b", "c")
    with Wire(followed.path) as wire:
        wire.ask(1, "subscribe", after=followed.beginning(), store_wide=True)
        frames = list(islice(wire.records(1), followed.head()["seq"]))
    chain = followed.store.store_id.hex()
    for seq, frame in enumerate(frames, start=1):
        assert (frame["seq"], frame["prev"]) == (seq, chain)
        verify_frame(decode_frame(noctuary._encode(frame)))
        chain = frame["chain"]
    assert chain == followed.head()["chain"]


def test_without_a_place_it_begins_with_what_is_written_next(followed: Followed) -> None:
    followed.write("before")
    with Wire(followed.path) as wire:
        wire.send(1, "remember", kind="raw", role="user", text="sent before on the same connection")
        wire.ask(2, "subscribe", level="content")
        followed.write("after")
        assert texts(wire.records(2), 1) == ["after"]


def test_records_of_a_foreign_tenant_and_of_the_store_are_not_for_an_agent(followed: Followed) -> None:
    with Wire(followed.path) as wire:
        followed.peers.replace((PeerEntry(role=CallerRole.AGENT, tenant="own", uid=UID, reads=frozenset({"other"})),))
        assert reason_of(wire.ask(1, "subscribe", store_wide=True)) == "denied"
        assert reason_of(wire.ask(2, "subscribe", tenant="foreign")) == "not_found"
        wire.ask("own", "subscribe", after=followed.beginning(), level="content")
        wire.ask("both", "subscribe", after=followed.beginning(), tenants=["own", "other"])
        followed.peers.replace(())
        for tenant in ("foreign", "own", "foreign", "other", "own"):
            followed.write(f"of {tenant}", tenant=tenant)
        lines: list[dict[str, Any]] = []
        for number in ("own", "both"):
            lines += wire.until(has_reached(number, followed.head()["seq"]))
    tenants = {(line["params"]["request"], line["params"]["frame"]["tenant"]) for line in records_in(lines)}
    assert tenants == {("own", "own"), ("both", "own"), ("both", "other")}


def test_a_tenant_that_begins_later_is_followed_from_its_first_record(followed: Followed) -> None:
    with Wire(followed.path) as wire:
        wire.ask(1, "subscribe", tenant="new")
        followed.write("x", tenant="new")
        assert next(wire.records(1))["type"] == "tenant_began"


def test_what_is_committed_but_not_folded_yet_is_not_sent(followed: Followed) -> None:
    """Its tenant may not be known by name yet: a filter would pass it over for ever."""
    with Wire(followed.path) as wire:
        wire.ask(1, "subscribe", after=followed.beginning(), store_wide=True)
        before = followed.projections.head.seq
        seq = followed.record_unfolded()
        assert seq == before + 1
        lines = wire.until(has_reached(1, before)) + wire.until(has_reached(1, before))
        assert [line["params"]["frame"]["seq"] for line in records_in(lines)] == list(range(1, seq))
        followed.fold()
        assert next(wire.records(1))["seq"] == seq


def test_only_the_types_asked_for_and_marks_move_over_the_others(followed: Followed) -> None:
    with Wire(followed.path) as wire:
        wire.ask(1, "subscribe", after=followed.beginning(), types=["tenant_began", "session_opened"])
        followed.write("a", "b", "c")
        lines = wire.until(lambda line: line.get("params", {}).get("seq") == followed.head()["seq"])
    assert [line["params"]["frame"]["type"] for line in records_in(lines)] == ["tenant_began"]
    assert lines[-1]["method"] == "mark"
    assert {**lines[-1]["params"], "request": 1} == {"request": 1, **followed.head()}


def test_a_mark_is_a_place_to_go_on_from(followed: Followed) -> None:
    with Wire(followed.path) as wire:
        wire.ask(1, "subscribe", types=["session_opened"])
        followed.write("a")
        mark = wire.until(lambda line: line.get("params", {}).get("seq") == followed.head()["seq"])[-1]["params"]
        del mark["request"]
        followed.write("b")
        wire.ask(2, "subscribe", after=mark, level="content")
        assert texts(wire.records(2), 1) == ["b"]


def test_fifty_subscribers_get_the_same(followed: Followed) -> None:
    wires = [Wire(followed.path) for _ in range(50)]
    for wire in wires:
        wire.ask(1, "subscribe", level="content")
    expected = [f"text {number}" for number in range(200)]
    for start in range(0, 200, 10):
        followed.write(*expected[start : start + 10])
    for wire in wires:
        with wire:
            assert texts(wire.records(1), 200) == expected


# --- where it can begin --------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["store", "chain", "ahead", "no epoch yet", "chain of the store"])
def test_a_place_that_is_not_in_this_journal_is_a_conflict_that_names_what_is(followed: Followed, wrong: str) -> None:
    followed.write("a")
    place = followed.head()
    place |= {
        "store": {"store": "00" * 16},
        "chain": {"chain": "00" * 32},
        "ahead": {"seq": place["seq"] + 1},
        "no epoch yet": {"epoch": 2},
        "chain of the store": {"chain": followed.store.store_id.hex()},
    }[wrong]
    with Wire(followed.path) as wire:
        error = wire.ask(1, "subscribe", after=place)["error"]
    assert error["data"]["reason"] == "conflict" and error["data"]["parameter"] == "after"
    assert error["data"]["current"] == {"store": followed.store.store_id.hex(), **followed.head()}
    assert error["data"]["asked"] == place and "forked_from" not in error["data"]


def test_a_place_of_an_older_epoch_is_told_where_the_journal_forked(tmp_path: Path) -> None:
    before = Followed(tmp_path)
    before.write("a")
    fork, store_id = before.head(), before.store.store_id
    log = before.store.log
    nonce = next(
        record.event.vault_nonce
        for chunk in log.chunks()
        for record in chunk
        if isinstance(record.event, Opened)
    )  # fmt: skip
    restored = Restored(
        boot_id=bytes(16), version="test", format=1, epoch=2, vault_nonce=nonce, from_store=store_id, from_epoch=1,
        from_seq=fork["seq"], from_chain=bytes.fromhex(fork["chain"]),
    )  # fmt: skip
    seq = fork["seq"] + 1
    body = encode_body(Record(seq, NOW_MS, 0, Actor(0, 3, 0), Cause(seq, "restore"), restored))
    state = log.state
    log.append([body], [], MetaState(state.vault_next, state.owner_seq, 2, seq))
    before.projections.catch_up(log)
    before.close()
    after = Followed(tmp_path)
    try:
        with Wire(after.path) as wire:
            data = wire.ask(1, "subscribe", after=fork)["error"]["data"]
            assert data["current"] == {"store": store_id.hex(), **after.head()} and after.head()["epoch"] == 2
            assert data["forked_from"] == {"store": store_id.hex(), **fork}
            assert "result" in wire.ask(2, "subscribe", after={**fork, "epoch": 2})
            assert after.service.forks._next == after.head()["seq"] + 1, "all was looked at, and is not again"
            after.service.forks._next, after.service.forks._last = 1, 0
            assert wire.ask(3, "subscribe", after=fork)["error"]["data"] == data
            never = wire.ask(4, "subscribe", after={**fork, "epoch": 0})["error"]["data"]
            assert never["reason"] == "conflict" and "forked_from" not in never
    finally:
        after.close()


def test_an_epoch_that_never_was_costs_no_look_at_the_journal(followed: Followed) -> None:
    followed.write("a")
    with Wire(followed.path) as wire:
        for epoch in (0, 2, 9):
            data = wire.ask(1, "subscribe", after={**followed.head(), "epoch": epoch})["error"]["data"]
            assert data["reason"] == "conflict" and "forked_from" not in data
    assert followed.service.forks._next == 1


def test_the_search_for_forks_goes_on_where_it_was_cancelled(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed.write("a", "b", "c")
    monkeypatch.setattr(forks, "LOOKED_AT_ONCE", 2)
    found, stopped = Forks(followed.store.log), 0
    asking = Asking()
    asking.cancel()
    while True:
        try:
            assert found.all(asking) == []
            break
        except Refused:
            stopped += 1
    assert stopped == -(-followed.head()["seq"] // 2)


def test_a_feed_is_freed_with_its_last_reference(followed: Followed) -> None:
    """In a cycle its memory would stay until a collection, which is long after a crowd has left."""
    params = msgspec.convert({}, SubscribeParams)
    found = followed.service.read("subscribe", params, OPERATOR)
    gc.disable()
    try:
        left = weakref.ref(found)
        del found
        assert left() is None
    finally:
        gc.enable()


def test_while_the_projections_are_folded_it_is_unavailable(followed: Followed) -> None:
    front = Front(Operator(followed.store, "test", None))
    params = msgspec.convert({}, SubscribeParams)
    with pytest.raises(Refused) as refused:
        front.read("subscribe", params, OPERATOR, None, front.asking())
    assert refused.value.reason is Reason.UNAVAILABLE and refused.value.data["retry_after_ms"] > 0


# --- slow readers --------------------------------------------------------------------------------


def unread(followed: Followed) -> int:
    """What waits in the daemon for its clients."""
    return sum(connection.held_bytes for connection in list(followed.server._connections))


def test_a_subscriber_that_never_reads_holds_a_bounded_number_of_bytes_and_no_transaction(unmarked: Followed) -> None:
    with Wire(unmarked.path) as stuck, Wire(unmarked.path) as other:
        stuck.send(1, "subscribe", after=unmarked.beginning(), level="content")
        other.ask(1, "subscribe", level="content")
        frames = other.records(1)
        for number in range(60):
            unmarked.write(*(f"{number} {place} " + "x" * 10_000 for place in range(10)))
            assert len(texts(frames, 10)) == 10  # the other one has it all, right away
        assert unread(unmarked) < SUBSCRIBED_BUFFER_BYTES + 2 * feed.CHUNK_BYTES
        assert unmarked.store.env.oldest_reader_ms() == 0
        assert len(texts(stuck.records(1), 600)) == 600  # and when it reads, nothing is missing


def test_marks_do_not_pile_up(tmp_path: Path) -> None:
    followed = Followed(tmp_path, mark_every_s=0.001)
    try:
        with Wire(followed.path) as stuck, Wire(followed.path) as other:
            stuck.send(1, "subscribe", after=followed.beginning(), level="content")
            for number in range(20):
                followed.write(*(f"{number} {place} " + "x" * 10_000 for place in range(10)))
            other.ask(1, "subscribe")
            marks = (line for line in iter(other.line, None) if line.get("method") == "mark")
            list(islice(marks, 50))
            before = unread(followed)
            list(islice(marks, 200))  # as many were due to the first one
            assert before > SUBSCRIBED_BUFFER_BYTES and unread(followed) == before
    finally:
        followed.close()


def test_a_subscriber_that_never_reads_is_dropped_in_the_end(tmp_path: Path) -> None:
    followed = Followed(tmp_path, stuck_s=0.3)
    try:
        with Wire(followed.path) as stuck, Wire(followed.path) as other:
            stuck.send(1, "subscribe", level="content")
            other.ask(1, "hello")  # it is answered behind the first one's request
            for number in range(60):
                followed.write(*(f"{number} " + "x" * 50_000 for _ in range(4)))
            while len(followed.server._connections) > 1:
                other.ask(2, "head")
            assert len(followed.server._feeder) == 0
    finally:
        followed.close()


def test_what_is_purged_while_a_reader_is_paused_reaches_it_as_purged(followed: Followed) -> None:
    with Wire(followed.path) as slow:
        slow.send(1, "subscribe", after=followed.beginning(), level="content")
        for number in range(20):
            followed.write(*(f"{number} " + "x" * 50_000 for _ in range(4)))
        followed.write("to be purged")
        place = followed.purge_newest()
        frames = {frame["seq"]: frame for frame in islice(slow.records(1), followed.head()["seq"] - 1)}
    assert [part["state"] for part in frames[place]["parts"]] == ["purged"] * len(frames[place]["parts"])
    assert frames[place]["parts"] and "content" not in frames[place]["parts"][0]
    assert frames[followed.head()["seq"]]["type"] == "purged"
