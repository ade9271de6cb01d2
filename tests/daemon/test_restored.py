"""A store that was restored with the purges since is, once its daemon is up, what the store was that had them done:
memories, counts and states of partitions, sessions, proposals, holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.refusal import Reason, Refused
from daemon.tending import Tending
from journal import events
from projections import tables
from projections.state import KEY32
from tests.daemon.cohorted import refused
from tests.daemon.slept import DAY_MS
from tests.daemon.vacuumed import Filled
from tests.journal.backing import assert_sound, backed_up, directives_of, restored

DAY = "2026-09-21"


class Pair:
    """A store, a backup of it from before its purges, and what is restored from that."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.live = Filled(directory / "live")
        self.again: Filled | None = None

    def back_up(self) -> None:
        backed_up(self.live.store, self.directory / "backup")

    def restore(self) -> Filled:
        """The restored store with its daemon up, at the time of the live one, after the first look of `Tending`."""
        restored(self.directory / "again", self.directory / "backup", directives_of(self.live.store))
        self.again = Filled(self.directory / "again")
        self.again.now_ms = self.live.now_ms
        Tending(self.again.service, 0, lambda: 0.0).look()
        return self.again

    def close(self) -> None:
        for each in (self.live, self.again):
            if each is not None:
                each.close(True)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    found = Pair(tmp_path)
    try:
        yield found
    finally:
        found.close()


def told(filled: Filled, refs: list[str]) -> dict[str, Any]:
    """What a caller sees of it, times of purges and of changes aside."""
    partitions = filled.read("partitions", {})["results"]
    memories = filled.read("get", {"ids": refs})["memories"]
    proposals = [
        (row["proposal"], status)
        for status in ("proposed", "applied", "rejected")
        for row in filled.read("proposals", {"status": status})["proposals"]
    ]
    sessions = filled.read("sessions", {"limit": 1000})["sessions"]
    return {
        "partitions": [{name: value for name, value in row.items() if name != "since"} for row in partitions],
        "memories": [(row["id"], row["status"], row.get("text")) for row in memories],
        "proposals": sorted(proposals),
        "sessions": [(row["session"], row["key"], row["state"]) for row in sessions],
        "closed": [record.event.number for record in filled.written(events.SessionClosed)],  # type: ignore[union-attr]
        "holds": filled.read("holds", {})["total"],
    }


def test_what_was_purged_since_leaves_partitions_sessions_and_proposals_as_it_left_them(pair: Pair) -> None:
    live = pair.live
    turns = live.turns(10)
    live.turn("the other session", "two", tags=["a"])
    (other,) = live.read("list", {"sel": {"tags": ["a"]}})["memories"]
    note = live.write("remember", {"kind": "note", "origin": "inferred", "text": "n", "derived_from": turns[:2]})["id"]
    live.write("propose", {"proposal_kind": "retention", "memory": note, "action": "archive"})
    live.write("propose", {"proposal_kind": "fact", "memory": note,
                           "fact": {"subject": "s", "predicate": "p", "value": "v"}})  # fmt: skip
    live.write("propose", {"proposal_kind": "retention", "memory": turns[9], "action": "archive"})
    live.write("hold", {"sel": {"ids": turns[:1]}, "note": "until then"})
    live.day_over()
    assert live.states()[DAY] == "sealed"
    pair.back_up()
    live.write("hold", {"sel": {"ids": turns[:1]}, "on": False})
    live.purge(*turns[:2])
    live.purge(other["id"])
    live.purge(note)
    assert live.states()[DAY] == "tombstoned" and live.read("holds", {})["total"] == 0
    again = pair.restore()
    wanted = told(live, [*turns, other["id"], note])
    assert [row["state"] for row in wanted["partitions"]] == ["tombstoned", "active"]
    assert sorted(status for _, status in wanted["proposals"]) == ["proposed", "rejected", "rejected"]
    assert {state for _, _, state in wanted["sessions"]} == {"purged", "stale"}
    assert len(wanted["closed"]) == 1
    assert told(again, [*turns, other["id"], note]) == wanted
    again.check_rows()
    assert again.rebuilt_alike()
    again.close(True)
    assert_sound(pair.directory / "again")


@pytest.mark.parametrize("by", ["forget", "purge"])
def test_a_day_that_a_vacuum_went_through_before_the_backup_is_due_again(pair: Pair, by: str) -> None:
    """Rows that were taken, rows that are dead, ciphertexts that are still there: all counts are those of the store
    that did it itself."""
    live = pair.live
    turns = live.turns(12)
    live.day_over()
    getattr(live, by)(*turns[:4])
    live.vacuum()
    assert live.states()[DAY] == "compacted"
    pair.back_up()
    live.purge(*turns[:6])
    assert live.states()[DAY] == "tombstoned"
    again = pair.restore()
    assert told(again, turns) == told(live, turns)
    again.check_rows()
    assert again.rebuilt_alike()
    vacuumed = [filled.vacuum()[DAY] for filled in (live, again)]
    for each in vacuumed:
        each.pop("duration_ms"), each.pop("file_bytes_reclaimed"), each.pop("reusable_bytes")
    assert vacuumed[0] == vacuumed[1] and vacuumed[0]["compacted"]
    assert told(again, turns)["partitions"] == told(live, turns)["partitions"]


def test_a_large_accepting_day_is_closed_and_the_next_write_goes_on_elsewhere(pair: Pair) -> None:
    live = pair.live
    turns = live.turns(100)
    pair.back_up()
    live.purge(*turns[:20])
    assert live.states() == {DAY: "tombstoned"}
    again = pair.restore()
    assert again.states() == {DAY: "tombstoned"}
    again.turns(1, "later")
    assert again.states() == {DAY: "tombstoned", f"{DAY}.1": "active"}
    assert again.rebuilt_alike()


def test_of_a_purge_that_the_backup_has_nothing_is_done_again(pair: Pair) -> None:
    live = pair.live
    turns = live.turns(10)
    live.day_over()
    live.purge(*turns[:2])
    pair.back_up()
    head = live.store.log.head()
    again = pair.restore()
    assert told(again, turns) == told(live, turns)
    assert again.store.log.head().seq == head.seq + 2, "RESTORED and OPENED"


def test_a_threshold_that_was_lowered_holds_from_the_next_look(pair: Pair) -> None:
    live = pair.live
    turns = live.turns(20)
    live.day_over()
    live.forget(*turns[:2])
    live.close(True)
    live.threshold = 0.1
    live._open()
    assert live.states()[DAY] == "sealed"
    live.service.roll_over()
    assert live.states()[DAY] == "tombstoned"
    head = live.store.log.head()
    live.service.roll_over()
    assert live.store.log.head() == head and live.rebuilt_alike()


def test_the_receipt_of_a_purge_that_was_carried_out_again_says_that_texts_are_kept_out(pair: Pair) -> None:
    live = pair.live
    turns = live.turns(4)
    live.write("verify", {"id": turns[0], "note": "heard twice"})
    pair.back_up()
    done = live.write("purge", {"ids": turns[:3], "block_reingest": True})
    again = pair.restore()
    (told_again,) = again.read("purges", {"receipt": done["receipt"]})["purges"]
    assert told_again["applied_again"] and told_again["fingerprint_retained"]
    assert [each["fingerprint_retained"] for each in told_again["results"]] == [True] * 3
    assert told_again["totals"]["keys_shredded"] == done["totals"]["keys_shredded"] > 3
    refused(Reason.CONFLICT, again.turn, "one 1", "two")


def test_a_vacuum_takes_from_each_partition_what_lay_there(pair: Pair) -> None:
    """Memories of two days in one purge, and a note about the first that was written on the second."""
    live = pair.live
    first = live.turns(3)
    live.day_over()
    second = live.turns(3, "two")
    live.write("verify", {"id": first[0], "note": "heard twice"})
    live.day_over()
    pair.back_up()
    live.purge(first[0], second[0], first[1])
    again = pair.restore()
    names = ("ciphertexts_removed", "bytes_reclaimed", "tombstones_removed")
    vacuumed = [
        {day: [told_of[name] for name in names] for day, told_of in filled.vacuum().items()} for filled in (live, again)
    ]
    assert vacuumed[0] == vacuumed[1] and all(removed[0] for removed in vacuumed[0].values())
    rows = [{day: row["bytes"] for day, row in filled.listed().items()} for filled in (live, again)]
    assert rows[0] == rows[1]
    again.check_rows()
    assert again.rebuilt_alike()


def test_a_damaged_partition_is_noted_and_keeps_no_other_tenant_from_its_own(pair: Pair) -> None:
    """The look of each day goes on to the others, says so, and what is damaged is healed beside it."""
    live = pair.live
    live.turns(3)
    live.write("remember", {"kind": "raw", "text": "theirs", "origin": "told", "tenant": "other"})
    live.now_ms += DAY_MS
    with live.projections.env.write() as txn:
        handle = live.projections.env.db(tables.PARTITIONS)
        key = KEY32.pack(1)
        value = bytes(txn.get(key, db=handle) or b"")
        txn.put(key, bytes((value[0] ^ 1, *value[1:])), db=handle)
    with pytest.raises(Refused):
        live.service.roll_over()
    assert live.projections.damaged == {tables.PARTITIONS}
    theirs = live.read("partitions", {"tenant": "other"})["results"]
    assert [row["state"] for row in theirs] == ["reflectable"]
    live.read("rebuild", {"what": "memories"})
    live.service.roll_over()
    assert live.states() == {DAY: "sealed"}
