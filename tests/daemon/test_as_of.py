"""What `get` and `list` tell of another moment: `as_of` in the world, `as_known_at` in the journal, both at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.reads.reading import NotBrief, Reading
from daemon.refusal import Reason
from daemon.wire.times import format_ms
from daemon.wire.verbs import VERBS
from journal.codes import ProposalKind
from journal.record import HEAD_BYTES, seq_key
from tests.daemon.chained import MINUTE_MS, Chained, fact_added
from tests.daemon.told import reason_of
from tests.model.opened import OPERATOR

FROM_MS, TO_MS = 1_700_000_000_000, 1_710_000_000_000
WORDS = {"subject": "the queue", "predicate": "uses", "value": "lmdb"}


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Chained]:
    opened = Chained(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def times(**at_ms: int) -> dict[str, str]:
    return {name: format_ms(each) for name, each in at_ms.items()}


def got(told: Chained, ref: str, **at_ms: int) -> dict[str, Any] | None:
    answer = told.read("get", {"ids": [ref], **times(**at_ms)})
    assert answer["not_found"] == ([] if answer["memories"] else [ref])
    return answer["memories"][0] if answer["memories"] else None


def listed(told: Chained, sel: dict[str, Any] | None = None, **at_ms: int) -> list[str]:
    """The ids on all pages."""
    params: dict[str, Any] = {"limit": 2, **times(**at_ms), **({} if sel is None else {"sel": sel})}
    found: list[str] = []
    while True:
        page = told.read("list", params)
        found += [row["id"] for row in page["memories"]]
        if page["next_cursor"] is None:
            assert page["total"] == len(found)
            return found
        params["cursor"] = page["next_cursor"]


# --- in the world (T28, B18, B19) ----------------------------------------------------------------

WINDOWS: dict[str, tuple[dict[str, int], list[int], list[int]]] = {
    "both ends": (
        {"valid_from": FROM_MS, "valid_to": TO_MS}, [FROM_MS, FROM_MS + 1, TO_MS - 1], [FROM_MS - 1, TO_MS, TO_MS + 1],
    ),
    "from": ({"valid_from": FROM_MS}, [FROM_MS, TO_MS, 4_000_000_000_000], [FROM_MS - 1, -1]),
    "to": ({"valid_to": TO_MS}, [TO_MS - 1, 0, -62_000_000_000_000], [TO_MS, 4_000_000_000_000]),
    "open": ({}, [-62_000_000_000_000, 0, 4_000_000_000_000], []),
    "before 1970": ({"valid_from": -2_000, "valid_to": -1_000}, [-2_000, -1_001], [-2_001, -1_000, 0]),
    "no time": ({"valid_from": FROM_MS, "valid_to": FROM_MS}, [], [FROM_MS - 1, FROM_MS, FROM_MS + 1]),
}  # fmt: skip
windows = pytest.mark.parametrize("window", WINDOWS)


@windows
def test_a_memory_holds_from_its_first_millisecond_to_the_one_before_its_last(told: Chained, window: str) -> None:
    given, inside, outside = WINDOWS[window]
    ref = told.raw(**times(**given))
    for at_ms in inside:
        assert got(told, ref, as_of=at_ms) == told.memory(ref), at_ms
        assert listed(told, as_of=at_ms) == [ref], at_ms
    for at_ms in outside:
        assert got(told, ref, as_of=at_ms) is None, at_ms
        assert listed(told, as_of=at_ms) == [], at_ms
    assert listed(told) == [ref], "no matter when"


@windows
def test_of_its_facts_those_are_told_that_hold(told: Chained, window: str) -> None:
    given, inside, outside = WINDOWS[window]
    ref = told.raw(facts=[{**WORDS, **times(**given)}, {**WORDS, "value": "always"}])
    for at_ms, wanted in [(each, ["lmdb", "always"]) for each in inside] + [(each, ["always"]) for each in outside]:
        memory = got(told, ref, as_of=at_ms)
        assert memory is not None and [fact["value"] for fact in memory["facts"]] == wanted, at_ms
        (row,) = told.read("list", {"full": True, **times(as_of=at_ms)})["memories"]
        assert row["facts"] == memory["facts"]


def test_times_are_compared_as_times_not_as_texts(told: Chained) -> None:
    """B19: `.` comes before `Z`, and an offset after either."""
    ref = told.raw(valid_from="2026-01-01T00:00:00Z", valid_to="2026-01-01T03:00:00.5+02:00")
    for text, wanted in (
        ("2026-01-01T00:00:00.000Z", True), ("2026-01-01T00:00:00Z", True), ("2026-01-01T00:00:00.001Z", True),
        ("2025-12-31T23:59:59.999Z", False), ("2026-01-01T01:00:00.499Z", True), ("2026-01-01T01:00:00.5Z", False),
        ("2025-12-31T19:00:00-05:00", True), ("2025-12-31T23:59:59-00:00", False), ("2026-01-01t00:00:00z", True),
    ):  # fmt: skip
        answer = told.read("get", {"ids": [ref], "as_of": text})
        assert bool(answer["memories"]) is wanted, text
        assert bool(told.read("list", {"as_of": text})["memories"]) is wanted, text


def test_when_it_held_decides_not_that_something_took_its_place_since(told: Chained) -> None:
    first, second = told.versions(2)
    replaced_ms, turn = told.now_ms, told.read("get", {"ids": [first]})["memories"][0]["derived_from"]
    assert listed(told, as_of=replaced_ms - 1) == [*turn, first], "no moment has both"
    assert listed(told, as_of=replaced_ms) == [*turn, second]
    assert listed(told, {"status": ["active"]}, as_of=replaced_ms - 1) == turn
    told.do("mark", second, mark="archived")
    assert listed(told, as_of=replaced_ms) == turn


def test_with_the_chain_only_what_holds_is_told(told: Chained) -> None:
    ref = told.decision(**times(valid_from=FROM_MS))
    (memory,) = told.got(ref, **times(as_of=FROM_MS))["memories"]
    assert memory["provenance"] == told.chain(ref)
    assert told.got(ref, **times(as_of=FROM_MS - 1)) == {"memories": [], "not_found": [ref]}


# --- in the journal ------------------------------------------------------------------------------


def states(told: Chained) -> tuple[list[int], dict[int, dict[str, Any]]]:
    """A story, with the moment behind each of its steps, and what `list` told of all there was at each."""
    everything = {"sel": {"status": ["active", "superseded", "archived", "forgotten"]}, "limit": 100, "full": True}
    found: dict[int, dict[str, Any]] = {}

    def step(verb: str, **params: Any) -> str:
        answer = told.write(verb, params)
        found[told.now_ms] = {
            "all": told.read("list", everything), "plain": told.read("list", {"limit": 100}),
            "filed": told.read("list", {"sel": {"project": "kitchen", "tags": ["a"]}, "limit": 100}),
            "said": told.read("list", {"sel": {"text": "USE", "kinds": ["note"]}, "limit": 100}),
        }  # fmt: skip
        return str(answer.get("id"))

    turn = step("remember", kind="raw", origin="stated", text="use lmdb")
    note = step("remember", kind="note", origin="inferred", text="use lmdb", derived_from=[turn], confidence=0.5)
    step("revise", id=note, disposition="move", fields={"project": "kitchen", "tags": ["a", "b"]})
    step("mark", id=note, mark="resolved")
    step("verify", id=note)
    step("reinforce", id=note)
    step("weaken", id=note, amount=0.9)
    second = step("revise", id=note, text="use sqlite", origin="inferred")
    step("mark", id=second, mark="archived")
    step("forget", id=turn)
    step("mark", id=second, mark="archived", on=False)
    step("revise", id=second, disposition="move", fields={"project": None})
    step("recover", id=turn)
    step("forget", id=second)
    return list(found), found


def test_a_list_of_then_is_what_the_list_was_then(told: Chained) -> None:
    moments, found = states(told)
    asked: dict[str, dict[str, Any]] = {
        "all": {"sel": {"status": ["active", "superseded", "archived", "forgotten"]}, "limit": 100, "full": True},
        "plain": {"limit": 100}, "filed": {"sel": {"project": "kitchen", "tags": ["a"]}, "limit": 100},
        "said": {"sel": {"text": "USE", "kinds": ["note"]}, "limit": 100},
    }  # fmt: skip
    for at_ms in moments:
        for name, params in asked.items():
            for then in (at_ms, at_ms + MINUTE_MS - 1):
                answer = told.read("list", {**params, **times(as_known_at=then)})
                if name == "all" and then != at_ms:
                    assert [row["id"] for row in answer["memories"]] == [
                        row["id"] for row in found[at_ms][name]["memories"]
                    ]
                    continue
                assert answer == found[at_ms][name], (name, at_ms)
    assert told.read("list", times(as_known_at=moments[0] - 1)) == {"memories": [], "next_cursor": None, "total": 0}
    assert all(len({str(each[name]) for each in found.values()}) > 2 for name in asked), "each of them changed"


def test_a_list_of_then_and_the_memories_of_then_are_told_alike(told: Chained) -> None:
    moments, _ = states(told)
    statuses = {"status": ["active", "superseded", "archived", "forgotten"]}
    for at_ms in moments:
        rows = told.read("list", {"sel": statuses, "full": True, **times(as_known_at=at_ms)})["memories"]
        refs = [row["id"] for row in rows]
        assert told.read("get", {"ids": refs, **times(as_known_at=at_ms)})["memories"] == rows


def test_what_was_purged_since_is_purged_without_its_text_and_found_by_none_of_its_content(told: Chained) -> None:
    ref, kept = told.raw("use lmdb", project="kitchen"), told.raw("use sqlite", project="kitchen")
    known_ms = told.now_ms
    told.purge(ref)
    rows = told.read("list", times(as_known_at=known_ms))["memories"]
    assert [(row["id"], row["status"]) for row in rows] == [(ref, "purged"), (kept, "active")]
    assert "text" not in rows[0]
    assert listed(told, {"text": "use"}, as_known_at=known_ms) == [kept]
    assert listed(told, {"project": "kitchen"}, as_known_at=known_ms) == [kept]
    assert listed(told, {"status": ["purged"]}, as_known_at=known_ms) == [], "then it wasn't"
    assert listed(told, {"status": ["purged"]}, as_known_at=told.now_ms) == [ref]
    assert listed(told, as_known_at=told.now_ms) == [kept]


def test_what_cannot_be_told_of_then_comes_back_as_damaged(told: Chained) -> None:
    ref, fine = told.raw(), told.raw()
    genesis = told.memory(ref)["address"]["seq"]
    told.do("mark", ref, mark="resolved")
    known_ms = told.now_ms
    damage(told, told.store.log.head().seq)
    rows = told.read("list", times(as_known_at=known_ms))["memories"]
    assert [(row["id"], row.get("damaged", False)) for row in rows] == [(ref, True), (fine, False)]
    assert (got(told, ref, as_known_at=known_ms) or {})["damaged"] is True
    assert listed(told, {"text": "no such words"}, as_known_at=known_ms) == [ref], "that it didn't fit nobody can tell"
    damage(told, genesis)
    for moment in ({"as_of": FROM_MS}, {"as_of": FROM_MS, "as_known_at": known_ms}):
        (row,) = (row for row in told.read("list", times(**moment))["memories"] if row["id"] == ref)
        assert row["damaged"] is True
        assert (got(told, ref, **moment) or {})["damaged"] is True


def damage(told: Chained, seq: int) -> None:
    """The record can't be read any more."""
    with told.store.env.write() as txn:
        key, db = seq_key(seq), told.store.env.db("records")
        value = bytearray(txn.get(key, db=db) or b"")
        value[HEAD_BYTES + 3] ^= 1
        txn.put(key, bytes(value), db=db)


# --- both (T28) ----------------------------------------------------------------------------------


def test_a_fact_is_told_from_when_it_was_recorded_and_while_it_holds(told: Chained) -> None:
    ref = told.decision()
    before_ms = told.now_ms
    proposal = told.applied(ProposalKind.FACT, ref)
    late = fact_added(told, ref, ("a", "b", "c"), proposal.id, valid_from=FROM_MS, valid_to=TO_MS)
    told.by_hand(proposal.made, late, proposal.decided)
    for known_ms, world_ms, wanted in (
        (before_ms, FROM_MS, 0), (told.now_ms, FROM_MS, 1), (told.now_ms, TO_MS - 1, 1), (told.now_ms, TO_MS, 0),
        (told.now_ms, FROM_MS - 1, 0), (told.now_ms - 1, FROM_MS, 0),
    ):  # fmt: skip
        memory = got(told, ref, as_of=world_ms, as_known_at=known_ms)
        assert memory is not None and len(memory["facts"]) == wanted, (known_ms, world_ms)


def test_what_held_is_told_as_it_was_believed_then(told: Chained) -> None:
    """A close that was written later is not known before."""
    first, second = told.versions(2)
    closed_ms = told.now_ms
    (turn,) = told.memory(first)["derived_from"]
    late_ms = closed_ms + 10 * MINUTE_MS
    assert listed(told, as_of=late_ms) == [turn, second]
    assert listed(told, as_of=late_ms, as_known_at=closed_ms - 1) == [turn, first], "nobody knew that it would end"
    assert got(told, first, as_of=late_ms) is None
    then = got(told, first, as_of=late_ms, as_known_at=closed_ms - 1)
    assert then is not None and (then["status"], then["valid_to"]) == ("active", None)


# --- paging, bounds, refusals --------------------------------------------------------------------


@pytest.mark.parametrize("moment", [{"as_of": FROM_MS}, {"as_known_at": 1_900_000_000_000}])
def test_a_cursor_belongs_to_its_moments(told: Chained, moment: dict[str, int]) -> None:
    for _ in range(3):
        told.raw()
    cursor = told.read("list", {"limit": 1, **times(**moment)})["next_cursor"]
    ((name, at_ms),) = moment.items()
    for other in ({}, {name: at_ms + 1}, {"as_of": at_ms, "as_known_at": at_ms}):
        reason, data = reason_of(partial(told.read, "list", {"limit": 1, "cursor": cursor, **times(**other)}))
        assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, "cursor")
    same = format_ms(at_ms).replace("Z", "+00:00")
    assert len(told.read("list", {"limit": 1, "cursor": cursor, name: same})["memories"]) == 1


def test_what_is_written_while_a_list_of_then_is_paged_is_on_no_page(told: Chained) -> None:
    refs = [told.raw() for _ in range(4)]
    then = {**times(as_known_at=told.now_ms), "limit": 3}
    first = told.read("list", then)
    told.raw()
    told.do("mark", refs[3], mark="archived")
    last = told.read("list", {**then, "cursor": first["next_cursor"]})
    assert [row["id"] for page in (first, last) for row in page["memories"]] == refs
    assert (first["total"], last["total"], last["next_cursor"]) == (4, 4, None)


@pytest.mark.parametrize(
    ("verb", "params", "parameter"),
    [
        ("list", {"sel": {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}}, "sel.until"),
        ("records", {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T23:59:59.999Z"}, "until"),
        ("list", {"as_of": "2026-13-01T00:00:00Z"}, "as_of"),
        ("list", {"as_known_at": "2026-02-30T00:00:00Z"}, "as_known_at"),
    ],
)
def test_a_window_that_ends_before_it_starts_and_a_time_there_is_not_are_named(
    told: Chained, verb: str, params: dict[str, Any], parameter: str
) -> None:
    """B18."""
    reason, data = reason_of(partial(told.read, verb, params))
    assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, parameter)


@pytest.mark.parametrize("inside", [False, True])
def test_what_would_end_before_it_begins_is_not_written(told: Chained, inside: bool) -> None:
    window = times(valid_from=TO_MS, valid_to=FROM_MS)
    params = {"facts": [{**WORDS, **window}]} if inside else window
    reason, data = reason_of(partial(told.raw, **params))
    assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, "facts.valid_to" if inside else "valid_to")


def test_the_columns_leave_little_to_look_at(told: Chained, monkeypatch: pytest.MonkeyPatch) -> None:
    """What never changes is asked of them: only the rest costs a look."""
    ref = told.write("session_open", {"agent": "a", "key": "k"})["session"]
    for number in range(40):
        told.raw(**({"session": ref} if number < 3 else {}))
    looked: list[int] = []
    spend = Reading.spend

    def counted(self: Reading, looks: int = 1) -> None:
        looked.append(looks)
        spend(self, looks)

    monkeypatch.setattr(Reading, "spend", counted)
    for moment in ({"as_of": FROM_MS}, {"as_known_at": told.now_ms}):
        costs = []
        for sel in ({"session": ref}, {"kinds": ["raw"]}):
            looked.clear()
            told.read("list", {"sel": sel, "limit": 1, **times(**moment)})
            costs.append(sum(looked))
        assert costs[0] < 30 and costs[1] > 40, (moment, costs)
        params = msgspec.convert(times(**moment), VERBS["list"].params)
        with pytest.raises(NotBrief):  # the question comes again, on a thread that may take its time
            told.service.read("list", params, OPERATOR, budget=20)
