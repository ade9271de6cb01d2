"""What a restore makes of the purges since: as if each had been done in the journal that was restored."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon import repurging
from daemon.call import Call
from daemon.moment import Moment
from daemon.refusal import Reason
from daemon.service import Service
from daemon.wire.verbs import VERBS
from journal import events
from journal.creating import create_store
from journal.masterkey import Keys, MasterKey
from journal.purges import Directive, read_purges
from journal.residue import open_all
from journal.restoring import Outcome, Wanted, restore
from journal.store import open_store
from projections.store import ProjectionStore
from tests.daemon.cohorted import refused
from tests.daemon.purged import Purging
from tests.daemon.slept import fact
from tests.journal.backing import Stop, StopAt, assert_sound, backed_up, directives_of, restored
from tests.journal.exported import exported
from tests.journal.test_importing import made as imported
from tests.model.opened import OPERATOR

ANNA = {"name": "zqanna", "type": "person"}


class Stores:
    """A store, and the forks of it that are restored from its backups. All are closed at the end."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.opened = [Purging(directory / "live")]
        self.outcome: Outcome

    @property
    def live(self) -> Purging:
        return self.opened[0]

    def back_up(self, of: Purging, name: str) -> None:
        backed_up(of.store, self.directory / name)

    def restore(self, name: str, backup: str, directives: tuple[Directive, ...] = ()) -> Purging:
        self.outcome = restored(self.directory / name, self.directory / backup, directives)
        made = Purging(self.directory / name)
        made.now_ms = self.opened[-1].now_ms + 1000
        self.opened.append(made)
        return made

    def again(self, since: Purging | None = None) -> Purging:
        """From `backup`, with the purges of the live store."""
        return self.restore("again", "backup", directives_of((since or self.live).store))

    def close(self) -> None:
        for each in self.opened:
            each.close(True)


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    found = Stores(tmp_path)
    try:
        yield found
    finally:
        found.close()


def sound(stores: Stores, made: Purging) -> None:
    assert made.rebuilt_alike()
    made.close(True)
    assert_sound(made.root)


def test_a_text_that_was_left_for_a_memory_the_backup_lacks_goes(stores: Stores) -> None:
    live = stores.live
    first = live.capture("zqsecret text", tags=["zqtag"])
    turn = live.turn("zqturn one", "zqkey", entities=[ANNA])
    stores.back_up(live, "backup")
    live.capture("zqsecret text")
    live.turn("zqturn two", "zqkey", entities=[ANNA])
    live.purge(first, turn)
    assert live.readable("zqsecret") and live.readable("zqkey") and live.readable("zqanna")
    again = stores.again()
    for word in ("zqsecret", "zqtag", "zqturn", "zqkey", "zqanna"):
        assert again.readable(word) == [], word
    assert again.purge(first, turn)["totals"]["keys_shredded"] == 0
    sound(stores, again)


def test_what_was_said_in_a_fork_that_knew_nothing_of_the_purge_goes(stores: Stores) -> None:
    live = stores.live
    ref, other = live.capture("zqsecret", tags=["zqtag"]), live.capture("kept")
    stores.back_up(live, "first")
    live.purge(ref)
    fork = stores.restore("fork", "first")
    fork.do("verify", ref, note="zqnote")
    fork.do("revise", ref, disposition="move", fields={"topic": "zqtopic", "tags": ["zqnew"]})
    words: dict[str, Any] = {"subject": "zqfact", "predicate": "p", "value": "v"}
    made = fork.write("propose", {"proposal_kind": "fact", "memory": ref, "fact": words, "note": "zqwhy"})
    fork.write("decide", {"proposal": made["proposal"], "accept": True})
    waiting = fork.write("propose", {"proposal_kind": "retention", "memory": ref, "action": "archive"})["proposal"]
    fork.hold(ref, note="zqhold")
    stores.back_up(fork, "backup")
    again = stores.again()
    for word in ("zqsecret", "zqtag", "zqnote", "zqtopic", "zqnew", "zqfact", "zqwhy", "zqhold"):
        assert again.readable(word) == [], word
    assert again.status(ref) == "purged" and again.memory(other)["text"] == "kept"
    assert again.read("holds", {})["total"] == 0
    assert [kind for kind, _ in stores.outcome.reapplied.held] == [0]
    rejected = again.read("proposals", {"status": "rejected"})["proposals"]
    assert waiting in [each["proposal"] for each in rejected]
    assert again.read("proposals", {"status": "proposed"})["proposals"] == []
    sound(stores, again)


def test_what_living_memories_of_a_fork_need_stays(stores: Stores) -> None:
    """The purge took a session's key, a text and a name with the last that had them; here they have others."""
    live = stores.live
    turn = live.turn("zqturn", "zqkey", entities=[ANNA])
    ref = live.capture("zqshared")
    stores.back_up(live, "first")
    live.purge(turn, ref)
    assert live.readable("zqkey") == [] and live.readable("zqanna") == [] and live.readable("zqshared") == []
    fork = stores.restore("fork", "first")
    later = fork.turn("another", "zqkey", entities=[ANNA])
    shares = fork.capture("zqshared")
    stores.back_up(fork, "backup")
    again = stores.again()
    assert again.readable("zqturn") == []
    assert again.memory(later)["text"] == "another" and again.memory(shares)["text"] == "zqshared"
    (key,) = again.readable("zqkey")
    names = again.readable("zqanna")
    assert len(names) == 2 and len(again.readable("zqshared")) == 1  # the name itself, and what the living one says
    assert [row["key"] for row in again.read("sessions", {})["sessions"]] == ["zqkey"] and key.slot
    assert not again.records("SessionClosed")
    sound(stores, again)


def test_copies_that_a_fork_made_go_too(stores: Stores) -> None:
    live = stores.live
    turn = live.turn("zquser says it", "one")
    stores.back_up(live, "first")
    live.purge(turn)
    fork = stores.restore("fork", "first")
    (copy,) = fork.commit([fact(turn, text="zquser says it!", quoted_from=[turn])])["notes"]
    stores.back_up(fork, "backup")
    again = stores.again()
    assert again.readable("zquser") == [] and again.status(copy) == "purged"
    sound(stores, again)


def test_a_session_without_a_memory_here_loses_its_key_unless_somebody_is_in_it(stores: Stores) -> None:
    live = stores.live
    live.write("session_open", {"agent": "sleeper", "key": "zqempty", "subject": "zqsubject"})
    stores.back_up(live, "backup")
    live.purge(live.turn("zqturn", "zqempty"))
    assert live.readable("zqempty") == []
    again = stores.again()
    assert again.readable("zqempty") == [] and again.readable("zqsubject") == []
    assert [row["state"] for row in again.read("sessions", {})["sessions"]] == ["purged"]
    sound(stores, again)


def test_reason_cascade_time_and_actor_are_those_of_the_purge_under_both_addresses(stores: Stores) -> None:
    live = stores.live
    ref = live.capture("zqsecret")
    stores.back_up(live, "backup")
    done = live.purge(ref, reason="security", cascade="derived")
    assert directives_of(live.store)[0].tenant == "default"
    (first,) = live.read("purges", {"receipt": done["receipt"]})["purges"]
    again = stores.again()
    (known,) = again.read("purges", {})["purges"]
    assert known["receipt"]["epoch"] == 2 and known["applied_again"]
    for receipt in (done["receipt"], known["receipt"]):
        (told,) = again.read("purges", {"receipt": receipt})["purges"]
        for name in ("at", "reason", "cascade", "actor", "tenant", "memories", "totals", "file_system"):
            assert told[name] == first[name], name
        assert told["results"][0]["purged_at"] == first["results"][0]["purged_at"]


def test_a_large_purge_is_one_receipt_again(stores: Stores) -> None:
    live = stores.live
    items = [{"kind": "raw", "origin": "stated", "text": f"zq {number}"} for number in range(1100)]
    refs = [
        each["id"]
        for first in (0, 550)
        for each in live.write("remember_many", {"items": items[first : first + 550]})["results"]
    ]
    stores.back_up(live, "backup")
    first = live.select({"kinds": ["raw"]})
    done = live.select({"kinds": ["raw"]}, token=first["token"])
    assert len(directives_of(live.store)) == 2
    again = stores.again()
    assert stores.outcome.reapplied[:4] == (1, 0, 0, 0)
    (told,) = again.read("purges", {"receipt": done["receipt"]})["purges"]
    assert told["count"] == len(refs) == 1100
    assert again.read("purges", {})["total"] == 1
    assert again.readable("zq") == []


def test_what_is_not_to_come_again_does_not_whether_or_not_it_was_here(stores: Stores) -> None:
    live = stores.live
    live.write("remember", {"kind": "raw", "origin": "stated", "text": "another tenant", "tenant": "theirs"})
    before = live.capture("zqbefore")
    stores.back_up(live, "backup")
    since = live.capture("zqsince")
    live.purge(before, block_reingest=True)
    live.purge(since, block_reingest=True)
    new = {"kind": "raw", "origin": "stated", "text": "zqnew", "tenant": "new"}
    made = live.write("remember", new)["id"]
    live.write("purge", {"ids": [made], "block_reingest": True, "tenant": "new"})
    again = stores.again()
    assert stores.outcome.reapplied[:4] == (3, 0, 0, 0)
    for _ in range(2):
        for text in ("zqbefore", "zqsince"):
            refused(Reason.CONFLICT, again.capture, text)
        refused(Reason.CONFLICT, again.write, "remember", new)
        again.write("remember", {**new, "tenant": "theirs"})
        again.reopen(True)
    lines = read_purges(again.store.dir.purges_file).directives
    stores.restore("twice", "backup", lines)
    assert stores.outcome.reapplied[:4] == (3, 0, 0, 0)
    sound(stores, again)


def test_purges_that_a_journal_has_are_told_as_such(stores: Stores) -> None:
    live = stores.live
    ref = live.capture("zqsecret")
    live.purge(ref, block_reingest=True)
    stores.back_up(live, "backup")
    again = stores.again()
    assert stores.outcome.reapplied[:4] == (0, 1, 0, 0)
    head = again.store.log.head().seq
    assert not [each for each in again.records("Purged") if each.seq > head - 2]


def test_a_purge_of_another_line_touches_nothing_that_has_its_numbers(stores: Stores) -> None:
    live = stores.live
    live.capture("common")
    stores.back_up(live, "first")
    fork = stores.restore("fork", "first")
    ours = fork.capture("ours")
    stores.back_up(fork, "backup")
    live.capture("filling")
    live.purge(live.capture("theirs"))
    again = stores.again()
    assert stores.outcome.reapplied[:4] == (0, 0, 1, 0)
    assert again.memory(ours)["text"] == "ours"
    assert not [each for each in again.records() if isinstance(each.event, events.Purged)]


def test_a_receipt_of_another_line_is_none_of_the_purge_that_has_its_number_here(stores: Stores) -> None:
    live = stores.live
    ours, theirs = live.capture("ours"), live.capture("theirs")
    stores.back_up(live, "backup")
    for text in ("filling", "more"):  # a fork has written RESTORED and OPENED before its first purge
        live.capture(text)
    done = live.purge(ours)
    fork = stores.restore("fork", "backup")
    other = fork.purge(theirs)
    assert other["receipt"] == {"epoch": 2, "seq": done["receipt"]["seq"]}
    refused(Reason.NOT_FOUND, fork.read, "purges", {"receipt": done["receipt"]})
    (told,) = fork.read("purges", {"receipt": other["receipt"]})["purges"]
    assert told["memories"] == [theirs]


def test_a_receipt_of_before_a_restore_is_told_under_its_own_epoch(stores: Stores) -> None:
    live = stores.live
    done = live.purge(live.capture("zqsecret"))
    stores.back_up(live, "backup")
    again = stores.again()
    (told,) = again.read("purges", {})["purges"]
    assert told["receipt"] == done["receipt"] and done["receipt"]["epoch"] == 1
    assert again.read("purges", {"receipt": done["receipt"]})["total"] == 1
    refused(Reason.NOT_FOUND, again.read, "purges", {"receipt": {**done["receipt"], "epoch": 2}})
    assert again.purge(told["memories"][0])["results"][0]["receipt"] == done["receipt"]


def test_a_restore_that_ends_early_leaves_no_store_and_is_run_again(stores: Stores) -> None:
    live = stores.live
    turn = live.turn("zqsecret", "zqkey", entities=[ANNA])
    stores.back_up(live, "backup")
    live.purge(turn, block_reingest=True)
    lines = directives_of(live.store)
    phases: list[str] = []
    restored(stores.directory / "whole", stores.directory / "backup", lines, lambda phase, *_: phases.append(phase))
    assert {"fold", "purges"} <= set(phases)
    root = stores.directory / "again"
    for number in range(phases.index("fold"), len(phases)):
        with pytest.raises(Stop):
            restored(root, stores.directory / "backup", lines, StopAt(number))
        assert not (root / "FORMAT").exists()
    again = stores.restore("again", "backup", lines)
    assert [path.name for path in root.iterdir() if path.name.endswith(".new")] == []
    assert again.readable("zq") == [] and stores.outcome.reapplied.applied == 1
    sound(stores, again)


def test_with_a_master_key_nothing_is_opened_and_all_of_it_is_done(tmp_path: Path) -> None:
    master = MasterKey(bytearray(range(32)))
    create_store(tmp_path / "live", master)
    store = open_store(tmp_path / "live", version="t", now_ms=1_790_000_000_000, keys=Keys(master))
    projections = ProjectionStore.open(store.dir.projections_dir, store.boot_id)
    projections.catch_up(store.log)
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    service = Service(store, projections, Moment(lambda: 1_790_000_000_000), lambda told: put_all(answers, told))
    service.start()
    try:
        ref = _asked(service, answers, "remember", {"kind": "raw", "origin": "stated", "text": "zqsecret"})["id"]
        backed_up(store, tmp_path / "backup")
        _asked(service, answers, "purge", {"ids": [ref], "block_reingest": True})
    finally:
        service.stop()
    lines = directives_of(store)
    projections.close(True)
    store.close(True)
    wanted = Wanted(tmp_path / "backup", None, lines, "t", 1_790_000_001_000, repurging.again, master)
    outcome = restore(tmp_path / "again", wanted, lambda *_: None)
    assert outcome.reapplied[:4] == (1, 0, 0, 0)
    made = open_store(tmp_path / "again", version="t", now_ms=1_790_000_002_000, keys=Keys(master))
    found = open_all(made, made.dir.root, lambda _, plain: b"zqsecret" in plain)
    made.close(True)
    assert found.readable == []


def put_all(answers: queue.SimpleQueue[Any], told: list[Any]) -> None:
    for each in told:
        answers.put(each)


def _asked(service: Service, answers: queue.SimpleQueue[Any], verb: str, params: dict[str, Any]) -> dict[str, Any]:
    service.submit(Call(verb, msgspec.convert(params, VERBS[verb].params), OPERATOR, lambda outcome: None))
    _, outcome = answers.get(timeout=30)
    built: dict[str, Any] = msgspec.to_builtins(outcome)
    return built


def test_purges_of_two_forks_that_have_one_number_are_both_done(stores: Stores) -> None:
    """Two restores that knew nothing of each other went on under the same epoch."""
    live = stores.live
    first, second = live.capture("zqfirst"), live.capture("zqsecond")
    stores.back_up(live, "backup")
    lines: list[Directive] = []
    for name, ref in (("left", first), ("right", second)):
        fork = stores.restore(name, "backup")
        fork.purge(ref, block_reingest=True)
        lines += directives_of(fork.store)
    assert (lines[0].epoch, lines[0].seq) == (lines[1].epoch, lines[1].seq)
    again = stores.restore("again", "backup", tuple(lines))
    assert stores.outcome.reapplied[:4] == (2, 0, 0, 0) and again.readable("zq") == []
    left = stores.opened[1]
    stores.back_up(left, "of left")
    more = stores.restore("more", "of left", tuple(lines))
    assert stores.outcome.reapplied[:4] == (1, 1, 0, 0) and more.readable("zq") == []
    for text in ("zqfirst", "zqsecond"):
        refused(Reason.CONFLICT, more.capture, text)
    stores.back_up(more, "of more")
    stores.restore("last", "of more", (*lines, *directives_of(more.store)))
    assert stores.outcome.reapplied[:2] == (0, 2)
    sound(stores, more)


def test_keys_that_are_gone_in_a_newer_vault_are_in_the_record_too(stores: Stores) -> None:
    live = stores.live
    ref = live.turn("zqsecret", "zqkey", entities=[ANNA])
    stores.back_up(live, "backup")
    done = live.purge(ref)
    backed_up(live.store, stores.directory / "newer", ("vault",))
    stores.outcome = restored(
        stores.directory / "again", stores.directory / "backup", directives_of(live.store),
        vault_from=stores.directory / "newer",
    )  # fmt: skip
    again = Purging(stores.directory / "again")
    stores.opened.append(again)
    assert stores.outcome.unnamed == 0 and again.store.findings == []
    (told,) = again.read("purges", {"receipt": done["receipt"]})["purges"]
    assert told["totals"] == done["totals"] and told["totals"]["keys_shredded"] > 3
    sound(stores, again)


def test_what_is_kept_out_is_kept_out_of_an_import_too(stores: Stores) -> None:
    """It takes the key for keyed hashes with it."""
    live = stores.live
    live.purge(live.capture("zqgone"), block_reingest=True)
    live.close(True)
    root = imported(stores.directory / "imported", exported(live.root))
    opened = Purging(root)
    stores.opened.append(opened)
    refused(Reason.CONFLICT, opened.capture, "zqgone")
    opened.capture("zqother")
