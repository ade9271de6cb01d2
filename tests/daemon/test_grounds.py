"""What a memory stands on: the same in `get` and `review`, since when, and found without a walk through versions."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.wire.times import format_ms
from journal.codes import EdgeType, Kind, Origin
from journal.events import MemoryCreated, Pruned, Purged, PurgeTarget
from journal.tsid import memory_ref, parse_memory_ref
from projections import edges
from projections.state import State
from tests.daemon.proposed import decide, edge
from tests.daemon.slept import Slept, fact
from tests.daemon.told import DAY_MS, START_MS, Told, remember


def review(told: Any, what: str) -> list[dict[str, Any]]:
    return list(told.read("review", {"what": [what], "limit": 1000})["items"])


def test_get_and_review_agree_on_every_memory(told: Told) -> None:
    """A memory is grounded, or stands in one of the two lists; of a line of versions the newest stands there."""
    seeded = remember(told, "value", origin="seeded")
    one, two = told.raw("one"), told.raw("two")
    note, both = remember(told, "note", one), remember(told, "note", one, two)
    belief = remember(told, "belief", note)
    told.write("lifecycle", {"enforce": False})
    loose = [remember(told, kind) for kind in ("raw", "note", "belief", "procedure")]
    outside = remember(told, "note", {"kind": "url", "id": "https://x"})
    heads = [str(told.do("revise", ref, text="anew", origin="told")["id"]) for ref in (seeded, note, loose[1], outside)]
    told.do("forget", one)
    listed = {item["id"]: what for what in ("ungrounded", "orphans") for item in review(told, what)}
    wanted = {
        heads[1]: "ungrounded",
        loose[2]: "orphans",
        loose[3]: "orphans",
        heads[2]: "orphans",
        heads[3]: "orphans",
    }
    assert listed == wanted
    memories = [seeded, one, two, note, both, belief, outside, *loose, *heads]
    not_grounded = {ref for ref in memories if not told.memory(ref)["grounded"]}
    assert not_grounded == {*wanted, note, loose[1], outside}, "the others are versions that others took the place of"


def test_what_took_the_place_of_several_stands_on_what_all_of_them_stood_on(told: Told) -> None:
    """As long as one of those holds; also through versions, and after a rebuild."""
    turns = [told.raw(text) for text in ("one", "two", "three")]
    replaced = [told.note(turn) for turn in turns[:2]]
    revised = told.do("revise", told.note(turns[2]), text="anew", origin="told")["id"]
    told.write("lifecycle", {"enforce": False})
    bare = remember(told, "note")
    for predecessor in replaced:
        decide(told, edge(told, bare, predecessor))
    head = str(told.do("revise", bare, text="later", origin="told")["id"])
    decide(told, edge(told, revised, head))
    assert told.read("explain", {"id": revised})["grounds"] == [turns[2], *turns[:2]]
    for turn in turns[2], turns[0]:
        told.do("forget", turn)
        assert told.memory(revised)["grounded"] and review(told, "ungrounded") == []
    told.do("forget", turns[1])
    assert not told.memory(revised)["grounded"]
    (item,) = review(told, "ungrounded")
    assert (item["id"], item["others"]) == (revised, [turns[2], *turns[:2]])
    assert not told.memory(head)["grounded"], "it stands on both of the two before it"
    told.do("recover", turns[0])
    assert told.memory(head)["grounded"] and told.memory(revised)["grounded"] and told.rebuilt_alike()


class _Counting(State):
    """Counts the values it is asked for."""

    looks = 0

    def get(self, database: str, key: bytes) -> bytes | None:
        self.looks += 1
        return super().get(database, key)


@pytest.mark.parametrize("versions", [1, 3, 60])
def test_what_a_version_stands_on_is_found_in_as_many_looks_however_many_are_before_it(
    slept: Slept, versions: int
) -> None:
    turn = slept.turn("t")
    first = head = str(
        slept.write("remember", {"kind": "note", "origin": "told", "text": "n", "derived_from": [turn]})["id"]
    )
    for number in range(versions):
        head = slept.write("revise", {"id": head, "text": f"n{number}", "origin": "told"})["id"]
    kept = slept.state()
    state = _Counting(kept._snapshot, kept.counters, kept.head)
    tsid = parse_memory_ref(head)[1]
    assert [edge[2] for edge in edges.grounding(state, tsid)] == [parse_memory_ref(turn)[1]]
    assert edges.newest_version(state, parse_memory_ref(first)[1]) == tsid
    assert edges.first_version(state, tsid) == parse_memory_ref(first)[1]
    assert state.looks == 5


def test_a_version_with_sources_of_its_own_stands_on_those_and_so_do_later_ones(slept: Slept) -> None:
    """No verb makes one yet: an accepted proposal will."""
    before, after = slept.turns(2)
    note = remember(slept, "note", before)
    tsid = slept.projections.counters.tsid + 1
    slept.append(
        MemoryCreated(
            id=tsid, slot=9, kind=int(Kind.NOTE), subtype=1, origin=int(Origin.DERIVED), partition=2, confidence=0.8,
            sources=(parse_memory_ref(after),), predecessor=parse_memory_ref(note),
            disposition=int(EdgeType.SUPERSEDES), edge=tsid + 1,
        )
    )  # fmt: skip
    versions = [parse_memory_ref(note)[1], tsid]
    third = slept.write("revise", {"id": memory_ref(Kind.NOTE, tsid), "text": "x", "origin": "told"})["id"]
    versions.append(parse_memory_ref(third)[1])
    stands_on = [[edge[2] for edge in edges.grounding(slept.state(), version)] for version in versions]
    assert stands_on == [[parse_memory_ref(before)[1]], [parse_memory_ref(after)[1]], [parse_memory_ref(after)[1]]]
    assert [edges.first_version(slept.state(), version) for version in versions] == versions[:1] * 3
    assert [edges.newest_version(slept.state(), version) for version in versions] == versions[-1:] * 3


def test_ungrounded_since_its_last_source_ceased_to_hold_not_since_that_was_purged(slept: Slept) -> None:
    turn = slept.turn("t")
    (note,) = slept.commit([fact(turn)])["notes"]
    slept.now_ms += DAY_MS
    slept.append(Pruned(memories=(parse_memory_ref(turn),), cycle=0))
    assert review(slept, "ungrounded") == [], "what is pruned still holds"
    slept.now_ms += DAY_MS
    forgotten_at = format_ms(slept.now_ms)
    slept.write("forget", {"id": turn})
    (item,) = review(slept, "ungrounded")
    assert (item["id"], item["since"]) == (note, forgotten_at)
    slept.now_ms += DAY_MS
    slept.append(Purged(targets=(PurgeTarget(*parse_memory_ref(turn)),), parts=()))
    (item,) = review(slept, "ungrounded")
    assert item["since"] == forgotten_at
    assert slept.memory(turn)["purged_at"] == format_ms(slept.now_ms), "that is another time"


def test_a_flag_says_what_its_source_is_now(told: Told) -> None:
    source = told.raw()
    note = remember(told, "note", source)
    told.do("weaken", source, amount=0.9)
    told.now_ms += DAY_MS
    (item,) = review(told, "flags")
    assert (item["why"], item["since"]) == ("source_dormant", format_ms(START_MS))
    assert told.do("forget", source)["flagged"] == [note], "it is up for review for another reason now"
    (item,) = review(told, "flags")
    assert (item["why"], item["since"]) == ("source_forgotten", format_ms(START_MS)), "it was flagged then"
    assert told.do("forget", source)["flagged"] == [], "a second time changes nothing"
    assert told.do("recover", source)["flags_cleared"] == [note]
    assert review(told, "flags") == [] and told.rebuilt_alike()
