"""A process that consolidates a store's sessions until it is killed: `python -m tests.system.passing STATE`.

It says `commit N` for each commit that is acked, and `done` when no turn waits any more.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from journal.tsid import memory_ref
from projections import passes
from tests.daemon.slept import Slept, fact

TURNS_A_COMMIT = 3


def waiting(slept: Slept, key: str) -> list[str]:
    """The turns of a session that no pass has settled, in order."""
    return [memory_ref(0, tsid) for _, tsid in passes.unsettled_turns(slept.state(), slept.number(key))]


def keys(slept: Slept) -> list[str]:
    return [str(row["key"]) for row in slept.read("sessions", {"limit": 1000})["sessions"]]


def go_on(slept: Slept) -> None:
    """Every session's turns, three a commit: two make a fact each, the third is noise. One pass for all of them."""
    done = 0
    for key in keys(slept):
        while turns := waiting(slept, key):
            facts = [fact(turn, text=f"about {turn}") for turn in turns[:2]]
            more = len(turns) > TURNS_A_COMMIT
            slept.commit(facts, key, noise=turns[2:TURNS_A_COMMIT], last=not more)
            done += 1
            print(f"commit {done}", flush=True)
    print("done", flush=True)


def check(slept: Slept) -> int:
    """Nothing is there twice or by half; how many notes there are."""
    notes = [note for key in keys(slept) for note in slept.session(key, include=["derived"], limit=1000)["derived"]]
    assert set(Counter(note["text"] for note in notes).values()) <= {1}
    rows = [row for key in keys(slept) for row in slept.rows(key)]
    assert sorted(row["id"] for row in rows) == sorted(note["id"] for note in notes)
    for key in keys(slept):
        mine = slept.rows(key)
        assert [row["fact_index"] for row in mine] == list(range(len(mine)))
        sleep = slept.session(key)["sleep"]
        turns = slept.session(key, include=["turns"], limit=1000)["memories"]
        cited = {ref for row in mine for ref in slept.memory(row["id"])["derived_from"]}
        marked = {turn["id"] for turn in turns if "consolidated" in slept.memory(turn["id"])["marks"]}
        assert cited == marked and len(marked) == sleep["promoted"] == len(mine)
        assert len(waiting(slept, key)) == sleep["unsettled"] == len(turns) - sleep["promoted"] - sleep["noise"]
        partial = [row["state"] for row in mine].count("partial")
        assert partial in ((0,) if not sleep["unsettled"] else (0, len(mine)))
    return len(notes)


if __name__ == "__main__":
    opened = Slept(Path(sys.argv[1]))
    go_on(opened)
    opened.close(True)
