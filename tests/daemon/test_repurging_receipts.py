"""Receipts after a restore: one for each purge, under every address that it ever had, and each memory's own story."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon import erasing, limits, repurging
from daemon.asking import Asking
from daemon.refusal import Reason
from daemon.wire.verbs import VERBS
from journal.purges import Directive, read_purges
from tests.daemon.cohorted import refused
from tests.daemon.purged import Purging
from tests.daemon.slept import fact
from tests.daemon.test_repurging import Stores, sound
from tests.journal.backing import directives_of, restored
from tests.model.opened import OPERATOR


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    found = Stores(tmp_path)
    try:
        yield found
    finally:
        found.close()


def receipt(of: Purging, address: dict[str, int]) -> dict[str, Any]:
    (told,) = of.read("purges", {"receipt": address})["purges"]
    return dict(told)


def purges(of: Purging) -> list[Any]:
    return [record.event for record in of.records("Purged")]


def test_every_memory_whose_text_is_kept_out_says_so_whichever_record_it_stands_in(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (erasing, repurging):
        monkeypatch.setattr(module, "TARGETS_A_RECORD", 3)
    live = stores.live
    refs = [live.turn(f"zq{number}") for number in range(7)]
    stores.back_up(live, "backup")
    done = live.purge(*refs, block_reingest=True)
    fork = stores.restore("fork", "backup")
    (copy,) = fork.commit([fact(refs[6], text="zq6!", quoted_from=[refs[6]])])["notes"]
    stores.back_up(fork, "of fork")
    again = stores.restore("again", "of fork", directives_of(live.store))
    told = {each["memory"]: each for each in receipt(again, done["receipt"])["results"]}
    assert {ref: each["fingerprint_retained"] for ref, each in told.items()} == {
        **dict.fromkeys(refs, True),
        copy: False,
    }
    for ref in (refs[0], refs[6]):
        (result,) = again.purge(ref)["results"]
        assert result["fingerprint_retained"] and "fingerprint" in result["disclosure"]
    assert [len(event.fingerprints) for event in purges(again)] == [3, 3, 1], "no record has more than a live one"
    twice = stores.restore("twice", "of fork", read_purges(again.store.dir.purges_file).directives)
    assert all(each["fingerprint_retained"] for each in receipt(twice, done["receipt"])["results"][:7])
    for number in range(7):
        refused(Reason.CONFLICT, twice.capture, f"zq{number}")
    sound(stores, twice)


def test_what_a_purge_comes_to_is_one_receipt_whatever_it_was_made_of(stores: Stores) -> None:
    """A memory that is here, sessions without one, and texts that are not here."""
    live = stores.live
    here = live.capture("zqhere")
    for name in ("zqone", "zqtwo"):
        live.write("session_open", {"agent": "sleeper", "key": name})
    stores.back_up(live, "backup")
    done = live.purge(here, live.turn("zqa", "zqone"), live.turn("zqb", "zqtwo"), block_reingest=True)
    assert len(receipt(live, done["receipt"])["sessions"]) == 2
    again = stores.again()
    told = receipt(again, done["receipt"])
    assert again.read("purges", {})["total"] == 1 and stores.outcome.reapplied[:4] == (1, 0, 0, 0)
    assert (told["memories"], len(told["sessions"]), told["fingerprint_retained"]) == ([here], 2, True)
    assert again.readable("zq") == []
    for text in ("zqhere", "zqa", "zqb"):
        refused(Reason.CONFLICT, again.capture, text)
    sound(stores, again)


def test_a_purge_that_takes_more_here_than_an_action_may_is_done_as_one(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = stores.live
    turn = live.turn("zqquoted")
    stores.back_up(live, "first")
    done = live.purge(turn)
    fork = stores.restore("fork", "first")
    copies = fork.commit([fact(turn, text=f"zqquoted {number}", quoted_from=[turn]) for number in range(3)])["notes"]
    stores.back_up(fork, "backup")
    monkeypatch.setattr(limits, "MEMORIES_PER_ACTION", 2)
    again = stores.again()
    assert receipt(again, done["receipt"])["memories"] == [turn, *copies] and again.readable("zq") == []
    assert again.read("purges", {})["total"] == 1


def test_a_receipt_is_found_under_the_address_that_each_restore_gave_it(stores: Stores) -> None:
    live = stores.live
    ref, other = live.capture("zqsecret"), live.capture("zqother")
    stores.back_up(live, "backup")
    addresses = [live.purge(ref)["receipt"]]
    lines = directives_of(live.store)
    for name in ("second", "third", "fourth"):
        made = stores.restore(name, "backup", lines)
        (told,) = made.read("purges", {})["purges"]
        addresses.append(told["receipt"])
        assert len({(each["epoch"], each["seq"]) for each in addresses}) == len(addresses)
        for address in addresses:
            found = receipt(made, address)
            assert (found["receipt"], found["memories"]) == (told["receipt"], [ref]), (name, address)
        lines = read_purges(made.store.dir.purges_file).directives
    only_the_last = tuple(line for line in lines if line.epoch == 4)
    made = stores.restore("fifth", "backup", only_the_last)
    assert [receipt(made, address)["memories"] for address in addresses] == [[ref]] * 4, "each line has them all"
    refused(Reason.NOT_FOUND, made.read, "purges", {"receipt": {**addresses[1], "seq": 1}})
    assert made.memory(other)["text"] == "zqother"


def test_a_cascade_takes_what_a_fork_made_of_it_but_not_what_is_under_hold_there(stores: Stores) -> None:
    live = stores.live
    ref = live.capture("zqsecret")
    before = live.note(None, ref)
    stores.back_up(live, "first")
    done = live.purge(ref, cascade="derived")
    fork = stores.restore("fork", "first")
    since, held = fork.note(None, ref), fork.note(None, ref)
    fork.hold(held)
    stores.back_up(fork, "backup")
    again = stores.again()
    assert [again.status(each) for each in (ref, before, since)] == ["purged"] * 3
    assert again.status(held) == "active"
    told = receipt(again, done["receipt"])
    assert (told["cascade"], told["memories"]) == ("derived", [ref, before, since])
    assert told["results"][0]["derived_surviving"] == [held]
    assert again.read("holds", {})["total"] == 1 and stores.outcome.reapplied.held == ()
    sound(stores, again)


def test_without_a_cascade_what_a_fork_made_of_it_stays(stores: Stores) -> None:
    live = stores.live
    ref = live.capture("zqsecret")
    stores.back_up(live, "first")
    live.purge(ref)
    fork = stores.restore("fork", "first")
    since = fork.note(None, ref)
    stores.back_up(fork, "backup")
    assert stores.again().status(since) == "active"


def test_two_purges_of_one_number_and_one_time_are_both_done(stores: Stores) -> None:
    """Nothing tells them apart but what they name."""
    live = stores.live
    first, second = live.capture("zqfirst"), live.capture("zqsecond")
    stores.back_up(live, "backup")
    lines: list[Directive] = []
    for name, ref in (("left", first), ("right", second)):
        fork = stores.restore(name, "backup")
        fork.now_ms = live.now_ms + 5000
        fork.purge(ref)
        lines += directives_of(fork.store)
    assert len({(line.epoch, line.seq, line.at) for line in lines}) == 1 < len(lines)
    stores.back_up(stores.opened[1], "of left")
    again = stores.restore("again", "of left", tuple(lines))
    assert stores.outcome.reapplied[:4] == (1, 0, 0, 0)
    assert again.readable("zq") == []


def test_a_memory_of_a_fork_that_has_the_id_and_number_of_a_purged_one_stays(stores: Stores) -> None:
    """Made in the same millisecond, in both lines."""
    live = stores.live
    live.capture("common")
    stores.back_up(live, "first")
    fork = stores.restore("fork", "first")
    at_ms = fork.now_ms + 5000
    while live.store.log.head().seq < fork.store.log.head().seq:
        live.capture("filling")
    fork.now_ms = live.now_ms = at_ms
    ours, theirs = fork.capture("zqours"), live.capture("zqtheirs")
    assert ours == theirs and fork.store.log.head().seq == live.store.log.head().seq
    stores.back_up(fork, "backup")
    live.purge(theirs)
    again = stores.again()
    assert stores.outcome.reapplied[:4] == (0, 0, 1, 0)
    assert again.memory(ours)["text"] == "zqours"


def test_looking_for_a_receipt_that_no_purge_has_can_be_ended(stores: Stores) -> None:
    live = stores.live
    for number in range(9):
        live.purge(live.capture(f"zq{number}"))
    stores.back_up(live, "backup")
    again = stores.again()
    checks = iter(range(9))
    params = msgspec.convert({"receipt": {"epoch": 1, "seq": 1}}, VERBS["purges"].params)
    asking = Asking(lambda: next(checks, None) is None)
    error = refused(Reason.UNAVAILABLE, again.service.read, "purges", params, OPERATOR, None, asking)
    assert error.data["retry_after_ms"]
    refused(Reason.NOT_FOUND, again.service.read, "purges", params, OPERATOR)


def test_large_purges_are_done_in_transactions_of_their_own(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    live = stores.live
    refs = [live.capture(f"zq{number}") for number in range(6)]
    stores.back_up(live, "backup")
    for group in (refs[:1], refs[1:2], refs[2:5], refs[5:]):
        live.purge(*group)
    monkeypatch.setattr(limits, "MEMORIES_PER_ACTION", 2)
    steps: list[tuple[int, int]] = []

    def step(phase: str, done: int, of: int) -> None:
        if phase == "purges":
            steps.append((done, of))

    restored(stores.directory / "again", stores.directory / "backup", directives_of(live.store), step)
    assert steps == [(0, 4), (2, 4), (3, 4)]
