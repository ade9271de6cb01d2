"""A bit of a key in the projections flips, and its value is as it was: nothing is told that nobody wrote, and what is
damaged is blamed on the projections, which are folded anew, never on the journal."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.commands.passes import PassFact, PassParams
from daemon.refusal import Reason, Refused
from daemon.wire.verbs import VERBS
from journal.tsid import parse_memory_ref, parse_tsid
from projections import blocks, tables
from projections.rows import DamagedRow, seal_row
from tests.daemon.slept import Slept
from tests.model.opened import OPERATOR

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def slept(tmp_path: Path) -> Iterator[Slept]:
    opened = Slept(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def move(slept: Slept, database: str, key: bytes, to: bytes, value: bytes | None = None) -> None:
    """What lies at a key lies at another one."""
    env = slept.projections.env
    with env.write() as txn:
        found = bytes(txn.get(key, db=env.db(database)) or b"")
        txn.delete(key, db=env.db(database))
        txn.put(to, found if value is None else value, db=env.db(database))


def flipped(key: bytes, bit: int) -> bytes:
    return (int.from_bytes(key, "big") ^ 1 << bit).to_bytes(len(key), "big")


def keys(slept: Slept, database: str, prefix: bytes = b"") -> list[bytes]:
    return [key for key, _ in slept.state().prefix(database, prefix)]


def ask(slept: Slept, verb: str, params: dict[str, Any], tenant: str = "aa") -> Any:
    return slept.read(verb, {"tenant": tenant, **params})


def damaged(slept: Slept, call: Any) -> str:
    with pytest.raises(Refused) as refused:
        call()
    assert refused.value.reason is Reason.DAMAGED, refused.value
    assert "seq" not in refused.value.data, "the journal is sound"
    return str(refused.value.data["projection"])


class Two:
    """Two tenants, whose records lie between each other."""

    def __init__(self, slept: Slept) -> None:
        self.slept = slept
        self.notes: dict[str, str] = {}
        self.sessions: dict[str, str] = {}
        for tenant in ("aa", "bb"):
            told = {"kind": "raw", "role": "user", "text": "t", "session": {"agent": "a", "key": "s"}}
            made = slept.write("remember", {**told, "tenant": tenant})
            self.sessions[tenant] = made["session"]
            note = {"kind": "note", "origin": "derived", "text": "n", "derived_from": [made["id"]]}
            self.notes[tenant] = slept.write("remember", {**note, "tenant": tenant, "session": made["session"]})["id"]
        for _ in range(16):
            for tenant, ref in self.notes.items():
                slept.write("verify", {"id": ref, "tenant": tenant})

    def touches(self, tenant: str) -> list[bytes]:
        return keys(self.slept, tables.TOUCHES, parse_memory_ref(self.notes[tenant])[1].to_bytes(8, "big"))


OF_A_NOTE: dict[str, Any] = {
    "history": lambda two: ("history", {"id": two.notes["aa"]}),
    "records": lambda two: ("records", {"memory": two.notes["aa"]}),
    "known": lambda two: ("get", {"ids": [two.notes["aa"]], "as_known_at": "2099-01-01T00:00:00Z"}),
}


@pytest.mark.parametrize("verb", OF_A_NOTE)
def test_a_flipped_bit_leads_to_no_record_of_another(slept: Slept, verb: str) -> None:
    two = Two(slept)
    mine, theirs = two.touches("aa"), {key[8:] for key in two.touches("bb")}
    key, to = next((k, flipped(k, bit)) for k in mine for bit in range(6) if flipped(k, bit)[8:] in theirs)
    asked, params = OF_A_NOTE[verb](two)
    before = ask(slept, asked, params)
    move(slept, tables.TOUCHES, key, to)
    assert damaged(slept, lambda: ask(slept, asked, params)) == tables.TOUCHES
    assert slept.projections.damaged == {tables.TOUCHES} and not slept.store.findings
    slept.read("rebuild", {"what": "memories"})
    assert ask(slept, asked, params) == before


@pytest.mark.parametrize("verb", OF_A_NOTE)
@pytest.mark.parametrize("whose", ["aa", "bb"])
def test_a_sound_entry_that_leads_to_what_is_not_about_it_is_damage_too(slept: Slept, verb: str, whose: str) -> None:
    """With a CRC that holds: of another tenant, or of another memory of one's own."""
    two = Two(slept)
    if whose == "aa":
        other = slept.write("remember", {"kind": "raw", "origin": "told", "text": "o", "tenant": "aa"})["id"]
        slept.write("mark", {"id": other, "mark": "archived", "tenant": "aa"})
        wrong = keys(slept, tables.TOUCHES, parse_memory_ref(other)[1].to_bytes(8, "big"))[0][8:]
    else:
        wrong = two.touches("bb")[0][8:]
    key = two.touches("aa")[0]
    to = key[:8] + wrong
    move(slept, tables.TOUCHES, key, to, seal_row(to, b""))
    asked, params = OF_A_NOTE[verb](two)
    assert damaged(slept, lambda: ask(slept, asked, params)) == tables.TOUCHES
    assert not slept.store.findings


def test_no_index_of_keys_alone_names_what_nobody_wrote(slept: Slept) -> None:
    """A session's memories, and the blocks of an actor."""
    two = Two(slept)
    number = parse_tsid(two.sessions["aa"].partition(":")[2])
    assert number
    (key,) = (k for k in keys(slept, tables.SESSION_MEMORIES) if k[4:] == _tsid(two.notes["aa"]))
    move(slept, tables.SESSION_MEMORIES, key, key[:4] + _tsid(two.notes["bb"]))
    for verb, params in (
        ("session", {"session": two.sessions["aa"], "include": ["derived"]}),
        ("session_provenance", {"session": two.sessions["aa"], "include_clients": True}),
        ("records", {"session": two.sessions["aa"]}),
    ):
        assert damaged(slept, lambda v=verb, p=params: ask(slept, v, p)) == tables.SESSION_MEMORIES
    prefix = blocks.KEY.pack(blocks.ACTOR, OPERATOR.uid, 0)[:-4]
    (key,) = keys(slept, tables.BLOCKS, prefix)
    move(slept, tables.BLOCKS, key, flipped(key, 4))
    assert damaged(slept, lambda: ask(slept, "records", {"actor": OPERATOR.uid})) == tables.BLOCKS


def test_an_edge_whose_index_entry_moved_is_damage_and_not_drawn_twice(slept: Slept) -> None:
    turns = slept.turns(2)
    edge = {"from": turns[0], "to": turns[1], "type": "extends"}
    before = slept.write("relate", edge)
    key = keys(slept, tables.TOUCHES, _tsid(turns[0]))[0]
    move(slept, tables.TOUCHES, key, flipped(key, 20))
    assert damaged(slept, lambda: slept.write("relate", edge)) == tables.TOUCHES
    slept.read("rebuild", {"what": "memories"})
    key = keys(slept, tables.TOUCHES, _tsid(turns[0]))[0]
    move(slept, tables.TOUCHES, key, flipped(key, 70))  # it is another memory's now
    assert damaged(slept, lambda: slept.write("relate", edge)) == tables.TOUCHES
    slept.read("rebuild", {"what": "memories"})
    assert slept.write("relate", edge) == before


def test_review_with_a_damaged_key_is_damaged(slept: Slept) -> None:
    turns = slept.turns(2)
    note = {"kind": "note", "origin": "derived", "text": "n"}
    for turn in turns:
        slept.write("remember", {**note, "derived_from": [turn]})
        slept.write("forget", {"id": turn})
    assert slept.read("review", {"what": ["flags"]})["total"] == 2
    for bit in (0, 3, 64, 70, 127):
        (key, *_) = keys(slept, tables.FLAGS)
        move(slept, tables.FLAGS, key, flipped(key, bit))
        assert damaged(slept, lambda: slept.read("review", {})) == tables.FLAGS
        slept.read("rebuild", {"what": "flags"})


# --- audit ---------------------------------------------------------------------------------------


def test_an_audit_that_finds_a_projection_wrong_has_it_folded_again(slept: Slept) -> None:
    """Also what no question stumbles on: an entry that is sound and wrong."""
    turn = slept.turn("t")
    slept.write("verify", {"id": turn})
    before = slept.digests()
    key = keys(slept, tables.TOUCHES)[0]
    to = flipped(key, 70)
    move(slept, tables.TOUCHES, key, to, seal_row(to, b""))
    found = slept.read("audit", {"rebuild": True})["findings"]
    told = [(each["code"], each["what"]) for each in found if each["code"] != "cross_tenant"]  # it is nobody's too
    assert told == [("projection_differs", "memories")]
    assert slept.projections.damaged and slept.projections.noticed.is_set(), "whoever heals knows"
    slept.read("rebuild", {"what": "memories"})
    assert slept.digests() == before and slept.read("audit", {"rebuild": True})["findings"] == []


@pytest.mark.parametrize("rebuild", [False, True], ids=["plain", "rebuild"])
@pytest.mark.parametrize("change", [bytes(12), b"", b"\x01" * 12], ids=["zeros", "empty", "ones"])
def test_an_audit_finds_a_damaged_slot_of_the_blocks(slept: Slept, change: bytes, rebuild: bool) -> None:
    """Digests leave these out: where keys lie in the vault is no logical state."""
    slept.turn("t")
    (key,) = keys(slept, tables.BLOCKS, bytes((blocks.SLOT,)))
    move(slept, tables.BLOCKS, key, key, change)
    found = slept.read("audit", {"rebuild": rebuild})["findings"]
    assert [(each["code"], each["what"]) for each in found] == [("projection_damaged", "blocks")]
    assert slept.projections.damaged == {tables.BLOCKS}
    slept.read("rebuild", {"what": "blocks"})
    assert slept.read("audit", {"rebuild": rebuild})["findings"] == []


# --- nobody walks unchecked ----------------------------------------------------------------------

OPENS_EACH_VALUE = {
    "projections/state.py", "projections/store.py", "projections/header_columns.py", "projections/filling.py",
    "projections/warming.py", "projections/tenancy.py", "projections/bound.py", "daemon/metrics.py",
    "daemon/reads/operator.py", "daemon/cli/region.py", "projections/holdings.py",
}  # fmt: skip
"""Who takes values as they are stored, and takes each apart with its key: that looks at its CRC."""
MEASURES = {"daemon/vacuum_looking.py": 1}
"""Who only counts the bytes that are stored, damaged or not, and in how many walks: a vacuum goes as far as it can."""


def walks(source: str) -> Iterator[tuple[int, bool]]:
    """`(line, whether the value is looked at)` of each walk over stored entries."""
    tree = ast.parse(source)
    heads: list[Any] = [n for n in ast.walk(tree) if isinstance(n, ast.For | ast.comprehension)]
    ignored = {
        id(call)
        for head in heads
        if isinstance(head.target, ast.Tuple) and getattr(head.target.elts[-1], "id", "") == "_"
        for call in ast.walk(head.iter)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "prefix":
            yield node.lineno, id(node) not in ignored


def test_the_check_of_walks_can_fail() -> None:
    assert list(walks("for key, _ in state.prefix('t', b''): pass")) == [(1, False)]
    assert list(walks("x = [k for k, _ in list(state.prefix('t', b''))]")) == [(1, False)]
    assert list(walks("x = [f(k, v) for k, v in state.prefix('t', b'')]")) == [(1, True)]


def test_nobody_walks_over_keys_without_a_look_at_their_values() -> None:
    """Whoever needs keys, or payloads, takes `State.entries`."""
    for package in ("daemon", "relays", "projections"):
        for path in (ROOT / package).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            found = list(walks(path.read_text("utf-8")))
            assert not found or name in OPENS_EACH_VALUE or len(found) == MEASURES.get(name), (name, found)
            assert all(looks for _, looks in found), (name, found)


def test_entries_refuses_a_key_that_is_not_the_one_of_its_value(slept: Slept) -> None:
    slept.turn("t")
    for database in tables.DATABASES:
        found = keys(slept, database)
        if not found:
            continue
        move(slept, database, found[-1], flipped(found[-1], 0))
        with pytest.raises(DamagedRow):
            list(slept.state().entries(database, b""))


def _tsid(ref: str) -> bytes:
    return parse_memory_ref(ref)[1].to_bytes(8, "big")


# --- what a moment that is past costs ------------------------------------------------------------


def looks(slept: Slept, params: dict[str, Any]) -> tuple[int, int]:
    """`(records read, rows of memories looked at)` by one get."""
    log = type(slept.store.log)
    read, rows = [0], [0]
    get, snapshot_get = log.get, _snapshot_type(slept).get

    def counting_get(self: Any, txn: Any, seq: int) -> Any:
        read[0] += 1
        return get(self, txn, seq)

    def counting_row(self: Any, database: str, key: bytes) -> Any:
        rows[0] += database == tables.MEMORIES
        return snapshot_get(self, database, key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "get", counting_get)
        patch.setattr(_snapshot_type(slept), "get", counting_row)
        answer = slept.service.read("get", msgspec.convert(params, VERBS["get"].params), OPERATOR)
    assert json.loads(msgspec.json.encode(answer))["memories"]
    return read[0], rows[0]


def _snapshot_type(slept: Slept) -> Any:
    with slept.projections.snapshot() as snapshot:
        return type(snapshot)


@pytest.mark.parametrize("as_of", ["2099-01-01T00:00:00Z", "then"], ids=["of later", "of before they were written"])
def test_a_moment_that_is_past_costs_a_few_looks_for_each_dependent(slept: Slept, as_of: str) -> None:
    """A forgotten source names all that was made from it: to go through that once for each of them is a square."""
    found = []
    for many in (50, 200):
        source = slept.turn("source")
        at = slept.memory(source)["at"] if as_of == "then" else as_of
        slept.now_ms += 1
        made = {"kind": "note", "origin": "derived", "text": "n", "derived_from": [source]}
        notes = slept.write("remember_many", {"items": [made] * many})["results"]
        slept.write("forget", {"id": source})
        later = {"ids": [note["id"] for note in notes[:20]], "as_known_at": "2099-01-01T00:00:00Z"}
        assert looks(slept, later)[0] <= 25, "what flagged them all is read once"
        found.append((many, looks(slept, {"ids": [source], "as_known_at": at})))
    for many, (records, rows) in found:
        assert records <= 10 and rows <= many + 10, found


# --- any key -------------------------------------------------------------------------------------


def _rich(slept: Slept) -> dict[str, dict[str, list[str]]]:
    """The ids of two tenants that have some of everything, by tenant and sort."""
    found: dict[str, dict[str, list[str]]] = {}
    for tenant in ("aa", "bb"):

        def write(verb: str, tenant: str = tenant, **params: Any) -> Any:
            return slept.write(verb, {"tenant": tenant, **params})

        told: dict[str, Any] = {"kind": "raw", "role": "user", "session": {"agent": "sleeper", "key": tenant}}
        made = [write("remember", **told, text=f"t{number}") for number in range(4)]
        session, turns = made[0]["session"], [each["id"] for each in made]
        facts = [PassFact(text=f"{tenant} {turn}", turns=[turn]) for turn in turns[:2]]
        notes = slept.service.commit_pass(PassParams(session=session, facts=facts), tenant)["notes"]
        more: dict[str, Any] = {"kind": "note", "origin": "derived", "session": session}
        notes += [write("remember", **more, text=text, derived_from=turns[:3])["id"] for text in ("x", "y")]
        notes.append(write("remember", kind="procedure", origin="derived", text="p", derived_from=notes)["id"])
        edge: dict[str, Any] = {"from": notes[2], "to": notes[3], "type": "contradicts"}
        write("relate", **edge)
        write("forget", id=turns[0])
        notes.append(write("revise", id=notes[0], text="z", origin="derived", idempotency_key="k")["id"])
        found[tenant] = {"memories": turns + notes, "sessions": [session]}
    return found


def _answers(slept: Slept, ids: dict[str, list[str]]) -> Iterator[str]:
    """What `aa` is told, each answer as text; damage and what is hidden aside."""
    asked: list[tuple[str, dict[str, Any]]] = [("review", {"threshold": 1, "limit": 1000}), ("list", {"limit": 1000})]
    for memory in ids["memories"]:
        asked += [(verb, {"id": memory}) for verb in ("explain", "history", "trace")]
        asked += [("trace", {"id": memory, "direction": "dependents"}), ("records", {"memory": memory})]
        asked.append(("get", {"ids": [memory], "as_known_at": "2099-01-01T00:00:00Z"}))
    for session in ids["sessions"]:
        asked.append(("session", {"session": session, "include": ["turns", "passes", "derived"]}))
        asked.append(("session_provenance", {"session": session, "include_clients": True}))
    for verb, params in asked:
        try:
            yield json.dumps(ask(slept, verb, params))
        except Refused as refused:
            assert refused.reason in (Reason.DAMAGED, Reason.NOT_FOUND), (verb, params, refused.message)
            assert "seq" not in refused.data, (verb, params, refused.data)


@pytest.mark.parametrize("database", tables.DATABASES)
def test_no_flipped_bit_of_any_key_shows_another_tenant_or_blames_the_journal(slept: Slept, database: str) -> None:
    found = _rich(slept)
    there = keys(slept, database)
    mine, theirs = found["aa"], [*found["bb"]["memories"], *found["bb"]["sessions"]]
    assert all(ref not in answer for answer in _answers(slept, mine) for ref in theirs)
    for key in there[:: max(1, len(there) // 3)]:
        for bit in {0, 3, len(key) * 8 - 30} & set(range(len(key) * 8)):
            if flipped(key, bit) in there:
                continue
            move(slept, database, key, flipped(key, bit))
            assert all(ref not in answer for answer in _answers(slept, mine) for ref in theirs), (key, bit)
            assert not slept.store.findings, (key, bit)
            move(slept, database, flipped(key, bit), key)


def test_what_a_clock_that_went_back_wrote_of_it_makes_it_known_then(slept: Slept) -> None:
    """To itself, and to what it was made from."""
    source = slept.turn("source")
    before_ms = slept.now_ms
    slept.now_ms += 100
    made = {"kind": "note", "origin": "derived", "text": "n", "derived_from": [source]}
    note, other = (slept.write("remember", made)["id"] for _ in range(2))
    slept.now_ms = before_ms + 1
    slept.write("verify", {"id": note})
    at = slept.memory(note)["verified_at"]
    asked = slept.read("get", {"ids": [source, note, other], "as_known_at": at})
    assert [each["id"] for each in asked["memories"]] == [source, note] and asked["not_found"] == [other]
    assert asked["memories"][0]["processed_into"] == [note]
