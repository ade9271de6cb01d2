"""Entries that lie: written into the projections by hand, so that something of one tenant leads to another's. Nothing
of the other's comes out, whatever is asked, and a fold heals it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from daemon.caller import Caller
from daemon.prepare import key_hash
from daemon.refusal import Reason, Refused
from daemon.wire.verbs import VERBS
from journal.codes import CallerRole, ProposalKind, ProposalStatus
from journal.tsid import parse_memory_ref, parse_tsid
from projections import edges, idempotency, proposals, revisions, rows, sessions, tables
from projections.rows import MemoryRow
from projections.state import KEY32, KEY32_32, KEY32_64, KEY64, KEY64_64, State
from tests.daemon.told import Told

ADA = Caller(uid=8, role=CallerRole.AGENT)
THEIRS = {"tenant": "other"}
CANARY = "their-canary"


class Has(NamedTuple):
    session: str
    turn: str
    note: str
    later: str
    proposal: str
    cohort: str


def furnish(told: Told, words: str, **at: Any) -> Has:
    session = told.write("session_open", {"agent": words, "key": words, **at})["session"]
    stamp = {"agent": words, "version": "1"}
    turn = told.raw(words, session=session, role="user", topic=words, **at)
    note = told.note(turn, text=f"{words} note", session=session, producer=stamp, **at)
    later = told.write("revise", {"id": note, "text": f"{words} b", "origin": "stated", **at})["id"]
    fact = {"subject": words, "predicate": "p", "value": words}
    proposed = {"proposal_kind": "fact", "memory": later, "fact": fact, **at}
    proposal = told.write("propose", proposed)["proposal"]
    asked: dict[str, Any] = {"action": "quarantine", "sel": {"kinds": ["raw"]}, **at}
    token = told.write("cohort", asked)["token"]
    cohort = told.write("cohort", {**asked, "token": token})["cohort"]
    told.write("lift", {"cohort": cohort, **at})
    return Has(session, turn, note, later, proposal, cohort)


class Forging:
    """Both tenants, and a way to put an entry there."""

    def __init__(self, told: Told) -> None:
        self.told = told
        self.mine = furnish(told, "mine")
        self.theirs = furnish(told, CANARY, **THEIRS)

    def tsid(self, ref: str) -> int:
        return parse_tsid(ref.partition(":")[2])

    def state(self) -> State:
        with self.told.projections.snapshot() as snapshot:
            return State(snapshot, self.told.projections.counters, snapshot.head)

    def row(self, ref: str) -> MemoryRow:
        with self.told.projections.snapshot() as snapshot:
            found = State(snapshot, self.told.projections.counters, snapshot.head).memory(self.tsid(ref))
        assert found is not None
        return found

    def session_number(self, ref: str) -> int:
        with self.told.projections.snapshot() as snapshot:
            state = State(snapshot, self.told.projections.counters, snapshot.head)
            number = sessions.number_of(state, self.tsid(ref))
        assert number is not None
        return number

    def put(self, database: str, key: bytes, payload: bytes) -> None:
        env = self.told.projections.env
        with env.write() as txn:
            txn.put(key, rows.seal_row(key, payload), db=env.db(database))

    def put_row(self, ref: str, row: MemoryRow) -> None:
        key = KEY64.pack(self.tsid(ref))
        env = self.told.projections.env
        with env.write() as txn:
            txn.put(key, rows.pack_memory(key, row), db=env.db(tables.MEMORIES))

    def ask(self, verb: str, **params: Any) -> str:
        """What an agent of ours is answered, or why it is refused."""
        typed = msgspec.convert(params, VERBS[verb].params)
        try:
            return msgspec.json.encode(self.told.service.read(verb, typed, ADA)).decode()
        except Refused as refused:
            return json.dumps([refused.reason.wire, refused.message, refused.data])

    def all_answers(self) -> dict[str, str]:
        mine = self.mine
        found = {}
        for ref in (mine.turn, mine.note, mine.later):
            for verb in ("trace", "history", "explain"):
                found[f"{verb} {ref}"] = self.ask(verb, id=ref)
            found[f"dependents {ref}"] = self.ask("trace", id=ref, direction="dependents")
            found[f"get {ref}"] = self.ask("get", ids=[ref], include=["provenance"])
        for verb in ("list", "review", "proposals", "sessions", "records"):
            found[verb] = self.ask(verb)
        for sel in ({"session": mine.session}, {"kinds": ["note"]}, {"text": "mine note"}):
            found[f"list {sel}"] = self.ask("list", sel=sel)
        found["session"] = self.ask("session", session=mine.session, include=["turns", "passes", "derived"])
        found["session_provenance"] = self.ask("session_provenance", session=mine.session)
        return found


@pytest.fixture
def forging(told: Told) -> Iterator[Forging]:
    yield Forging(told)


def edge_out(it: Forging) -> None:
    for edge_type in (1, 2, 3, 4):
        entry = edges.ENTRY.pack(edge_type, *parse_memory_ref(it.theirs.turn))
        it.put(tables.EDGES_OUT, KEY64.pack(it.tsid(it.mine.later)), entry)
        it.put(tables.EDGES_OUT, KEY64.pack(it.tsid(it.mine.note)), entry)


def edge_in(it: Forging) -> None:
    for edge_type in (1, 2, 3, 4):
        key = edges.IN_KEY.pack(it.tsid(it.mine.turn), edge_type, it.tsid(it.theirs.note))
        it.put(tables.EDGES_IN, key, bytes((parse_memory_ref(it.theirs.note)[0],)))


def revision(it: Forging) -> None:
    kind, other = parse_memory_ref(it.theirs.later)
    for direction in (0, 1, 2):
        key = revisions.KEY.pack(it.tsid(it.mine.later), direction, other, 7)
        it.put(tables.REVISIONS, key, revisions.VALUE.pack(3, kind, it.row(it.theirs.later).seq))


def happening(it: Forging) -> None:
    key = KEY64_64.pack(it.tsid(it.mine.later), it.row(it.theirs.later).seq)
    it.put(tables.HAPPENINGS, key, b"\1")


def touch(it: Forging) -> None:
    key = KEY64_64.pack(it.tsid(it.mine.later), it.row(it.theirs.later).seq)
    it.put(tables.TOUCHES, key, b"")


def fact(it: Forging) -> None:
    key = KEY64_64.pack(it.tsid(it.mine.later), 99)
    it.put(tables.FACTS_ADDED, key, revisions.FACT_SEQ.pack(it.row(it.theirs.later).seq))


def flag(it: Forging) -> None:
    key = KEY64_64.pack(it.tsid(it.mine.note), it.tsid(it.theirs.turn))
    it.put(tables.FLAGS, key, it.row(it.theirs.turn).seq.to_bytes(8, "little"))
    it.put_row(it.mine.note, it.row(it.mine.note)._replace(flags=1))


def turn(it: Forging) -> None:
    number = it.session_number(it.mine.session)
    it.put(tables.TURNS, KEY32_32.pack(number, 1), KEY64.pack(it.tsid(it.theirs.turn)))
    it.put(tables.SESSION_MEMORIES, KEY32_64.pack(number, it.tsid(it.theirs.note)), b"")


def session_id(it: Forging) -> None:
    number = it.session_number(it.theirs.session)
    it.put(tables.SESSION_IDS, KEY64.pack(it.tsid(it.mine.session)), KEY32.pack(number))


def session_number(it: Forging) -> None:
    row = it.row(it.mine.note)
    it.put_row(it.mine.note, row._replace(session=it.session_number(it.theirs.session)))


def producer(it: Forging) -> None:
    for ref in (it.mine.note, it.mine.later):
        it.put_row(ref, it.row(ref)._replace(producer=it.row(it.theirs.note).producer))


def successor(it: Forging) -> None:
    it.put_row(it.mine.note, it.row(it.mine.note)._replace(superseded_by=it.tsid(it.theirs.later)))


def record(it: Forging) -> None:
    """A row of ours whose record is theirs."""
    other = it.row(it.theirs.later)
    it.put_row(it.mine.later, it.row(it.mine.later)._replace(seq=other.seq, particulars_seq=other.particulars_seq))


def proposal(it: Forging) -> None:
    ident = it.tsid(it.theirs.proposal)
    for status, kind in itertools.product(ProposalStatus, ProposalKind):
        it.put(tables.PROPOSALS_BY, proposals.BY_KEY.pack(1, status, kind, ident), b"")
    for status in ProposalStatus:
        it.put(tables.PROPOSALS_OF, proposals.OF_KEY.pack(it.tsid(it.mine.later), status, ident), b"")


def region(it: Forging) -> None:
    key = KEY64.pack(it.tsid(it.mine.later)) + (0).to_bytes(4, "big")
    it.put(tables.REGION_TARGETS, key, (2).to_bytes(4, "little"))


PLANTS: tuple[Callable[[Forging], None], ...] = (
    edge_out, edge_in, revision, happening, touch, fact, flag, turn, session_id, session_number, producer, successor,
    record, proposal, region,
)  # fmt: skip


def theirs_in(it: Forging, answers: dict[str, str]) -> list[tuple[str, str]]:
    named = [CANARY, *it.theirs, *(ref.partition(":")[2] for ref in it.theirs)]
    return [(question, word) for question, answer in answers.items() for word in named if word in answer]


@pytest.mark.parametrize("plant", PLANTS)
def test_nothing_of_anothers_comes_out_of_a_lie(forging: Forging, plant: Callable[[Forging], None]) -> None:
    honest = forging.all_answers()
    plant(forging)
    found = forging.all_answers()
    assert theirs_in(forging, honest) == [] and theirs_in(forging, found) == []
    assert found.keys() == honest.keys()
    forging.told.read("rebuild", {"what": "all"})
    healed = forging.all_answers()
    assert healed == honest


def test_the_questions_do_tell_what_is_ones_own(forging: Forging) -> None:
    """Else nothing would be found in them either way."""
    answers, mine = "".join(forging.all_answers().values()), forging.mine
    assert all(ref in answers for ref in (mine.turn, mine.note, mine.later, mine.proposal))


def test_an_index_that_names_anothers_proposal_is_damage_and_is_kept_as_such(forging: Forging) -> None:
    proposal(forging)
    assert json.loads(forging.ask("proposals"))[0] == Reason.DAMAGED.wire
    assert tables.PROPOSALS_BY in forging.told.projections.damaged
    forging.told.read("rebuild", {"what": "all"})


def test_what_led_out_of_the_tenant_is_counted(forging: Forging) -> None:
    before = forging.told.service.counts.foreign_references
    proposal(forging)
    forging.ask("history", id=forging.mine.later)
    assert forging.told.service.counts.foreign_references > before
    forging.told.read("rebuild", {"what": "all"})


def test_an_index_of_cohorts_that_names_anothers_is_damage(forging: Forging) -> None:
    forging.put(tables.COHORTS_BY, KEY32_64.pack(1, forging.tsid(forging.theirs.cohort)), b"")
    auditor = Caller(uid=9, role=CallerRole.AUDITOR)
    with pytest.raises(Refused) as caught:
        forging.told.service.read("cohorts", msgspec.convert({}, VERBS["cohorts"].params), auditor)
    assert caught.value.reason is Reason.DAMAGED
    forging.told.read("rebuild", {"what": "all"})


def test_a_write_that_meets_it_does_not_follow_it(forging: Forging) -> None:
    """Whatever a command looks up is its tenant's: a proposal under a forged index, a turn's forged successor."""
    proposal(forging)
    edge_in(forging)
    told, mine, theirs = forging.told, forging.mine, forging.theirs
    before = told.read("get", {"ids": [theirs.later, theirs.note, theirs.turn], **THEIRS})
    for verb, params in (
        ("decide", {"proposal": theirs.proposal, "accept": True}),
        ("forget", {"id": mine.turn}),
        ("recover", {"id": mine.turn}),
        ("mark", {"id": mine.later, "mark": "archived"}),
        ("propose", {"proposal_kind": "retention", "memory": mine.later, "action": "archive"}),
    ):
        try:
            told.write(verb, dict(params))
        except Refused as refused:
            assert theirs_in(forging, {verb: json.dumps([refused.message, refused.data])}) == []
    assert told.read("get", {"ids": [theirs.later, theirs.note, theirs.turn], **THEIRS}) == before
    told.read("rebuild", {"what": "all"})


def test_a_key_that_leads_to_anothers_answer_does_not_tell_it(forging: Forging) -> None:
    told, key = forging.told, key_hash(forging.told.store.vault.hash_key, "default", "k")
    seq = forging.row(forging.theirs.turn).seq
    forging.put(tables.IDEMPOTENCY, idempotency.idempotency_key(1, key), KEY64.pack(seq))
    head = told.store.log.head()
    with pytest.raises(Refused) as caught:
        told.write("remember", {"kind": "raw", "origin": "stated", "text": "mine", "idempotency_key": "k"})
    assert caught.value.reason is Reason.DAMAGED and told.store.log.head() == head
    assert theirs_in(forging, {"remember": json.dumps([caught.value.message, caught.value.data])}) == []
    told.read("rebuild", {"what": "idempotency"})
    assert told.write("remember", {"kind": "raw", "origin": "stated", "text": "mine", "idempotency_key": "k"})["id"]
