"""forget and recover of what sleep has pruned, and flags that go when a source comes back."""

from __future__ import annotations

from journal.events import Pruned, Verified
from journal.tsid import parse_memory_ref
from projections import flags
from tests.daemon.slept import Slept, fact
from tests.daemon.told import Told, remember


def test_what_was_pruned_is_forgotten_and_comes_back_in_two_steps(slept: Slept) -> None:
    turn = slept.turn("t")
    (note,) = slept.commit([fact(turn)])["notes"]
    slept.append(Pruned(memories=(parse_memory_ref(turn),), cycle=0))
    slept.now_ms += 1000
    told = slept.write("forget", {"id": turn})
    assert told["flagged"] == [note] and told["found"]
    memory = slept.memory(turn)
    assert (memory["status"], memory["strength"]) == ("forgotten", 0.0)
    assert {"forgotten", "pruned"} <= set(memory["marks"])
    assert not slept.memory(note)["grounded"]
    assert slept.write("forget", {"id": turn}) == {**told, "flagged": []}, "a second time changes nothing"
    first = slept.write("recover", {"id": turn})
    assert (first["strength"]["new"], first["flags_cleared"]) == (0.2, [note])
    assert slept.memory(turn)["status"] == "pruned" and slept.memory(note)["grounded"]
    second = slept.write("recover", {"id": turn})
    assert (second["strength"]["new"], second["flags_cleared"]) == (0.2, [])
    assert slept.memory(turn)["status"] == "active"
    assert slept.rebuilt_alike()


def flag_counts(slept: Slept, *refs: str) -> list[tuple[int, int]]:
    """Of each memory how many flags its row counts, and how many are open."""
    state = slept.state()
    found = []
    for _, tsid in map(parse_memory_ref, refs):
        row = state.memory(tsid)
        assert row is not None
        found.append((row.flags, len(flags.of_child(state, tsid))))
    return found


def test_a_source_that_a_verification_boosts_over_dormancy_lifts_the_flags_it_had_set(slept: Slept) -> None:
    source, other = slept.turn("source"), slept.turn("other")
    one, two, three = (remember(slept, "note", source, other) for _ in range(3))
    for each in (source, other):
        slept.write("weaken", {"id": each, "amount": 0.81})
    assert flag_counts(slept, one, two, three) == [(2, 2)] * 3
    assert slept.write("forget", {"id": other})["flagged"] == [one, two, three]
    result = slept.write("verify", {"id": one})
    verified = next(r.event for chunk in slept.store.log.chunks() for r in chunk if isinstance(r.event, Verified))
    names = [(parse_memory_ref(source), parse_memory_ref(child)) for child in (two, three)]
    assert list(verified.boost_cleared) == names, "its own flags go in any case"
    assert flag_counts(slept, one, two, three) == [(0, 0), (1, 1), (1, 1)]
    assert [(each["id"], each["new"]) for each in result["boosted"]] == [(source, 0.21)]
    assert sorted(result["flags_cleared"]) == [one, two, three]
    items = slept.read("review", {"what": ["flags"]})["items"]
    assert [(item["id"], item["others"]) for item in items] == [(two, [other]), (three, [other])]
    assert slept.write("weaken", {"id": source})["flags_set"] == [one, two, three], "it flags again when it falls again"
    assert slept.rebuilt_alike()


def test_a_boost_that_does_not_reach_dormancy_lifts_no_flag(told: Told) -> None:
    source = told.raw()
    one, two = remember(told, "note", source), remember(told, "note", source)
    told.do("weaken", source, amount=0.9)
    assert told.do("verify", one)["flags_cleared"] == [one]
    assert [item["id"] for item in told.read("review", {"what": ["flags"]})["items"]] == [two]
