"""Committing a pass: a session's turns become notes, and are settled, in one commit (contract §5, SLEEP §5).

One command decides the notes with their lineage, their rows in the provenance region, and the record that settles the
turns. So whatever a crash leaves, all of a commit is there or none: who tries again finds its turns settled, and each
fact is there once. It is no verb: sleep calls it, through `Service.commit_pass`.

A pass may take several commits. The first one takes the session's next number; what follows goes under it until one
is the `last`, and until then its rows are partial. Noise of an earlier pass may be taken again when the session has
turns that wait: it is reopened in the same commit.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from daemon import limits
from daemon.commands import rederiving
from daemon.commands.building import Building
from daemon.commands.settling import Turn, session_of, settle, turns_of
from daemon.decision import Draft
from daemon.prepare import invalid, parse_memory, parse_session, parse_time
from daemon.refusal import Reason, Refused
from daemon.wire.checks import parameter_of
from daemon.wire.forms import fault_in
from daemon.wire.params import Closed, ProducerIn, TagList
from daemon.wire.request import explain, unspeakable
from daemon.wire.vocabulary import IdempotencyKey, Importance, Reference, Text, Time, Unit, Valence
from journal import events
from journal.codes import ImportanceBy, Kind, Mark, Origin, Part, subtype_code
from journal.particulars import Particulars, encode
from journal.tsid import format_tsid, memory_ref
from projections import passes, provenance
from projections.kinds import KINDS
from projections.region import MAX_FACTS, MAX_PASS
from projections.workingset import text_hash

_FINDING = subtype_code(Kind.NOTE, "finding")
_NO_PARTICULARS = Particulars()

_FLOAT32_MAX = 3.4028234663852886e38
MAX_SETTLED = 65_536
"""Turns of one commit."""

TurnList = Annotated[list[Reference], Meta(max_length=limits.RELAY_REFERENCES)]
Measure = Annotated[float, Meta(ge=-_FLOAT32_MAX, le=_FLOAT32_MAX)]


class PassFact(Closed, frozen=True, kw_only=True):
    """One fact. What is not given comes from its turns: importance the mean, valence and arousal the highest,
    `valid_from` when the first of them occurred."""

    text: Text
    turns: TurnList
    valence: Valence | UnsetType = UNSET
    arousal: Unit | UnsetType = UNSET
    importance: Importance | UnsetType = UNSET
    tags: TagList | UnsetType = UNSET
    quoted_from: TurnList | UnsetType = UNSET
    valid_from: Time | UnsetType = UNSET
    surprise: Measure | UnsetType = UNSET
    distance: Measure | UnsetType = UNSET


class PassScore(Closed, frozen=True, kw_only=True):
    """What was measured of a turn that is settled."""

    turn: Reference
    importance: Importance
    distance: Measure | None = None
    surprise: Measure | None = None
    pinned: bool = False


class PassParams(Closed, frozen=True, kw_only=True):
    """One commit of a pass. `noise` are turns that are settled without a note; `number`, if given, is the pass that
    the caller takes this for."""

    session: Reference
    facts: list[PassFact] = msgspec.field(default_factory=list)
    noise: Annotated[list[Reference], Meta(max_length=MAX_SETTLED)] = msgspec.field(default_factory=list)
    last: bool = True
    scores: Annotated[list[PassScore], Meta(max_length=MAX_SETTLED)] = msgspec.field(default_factory=list)
    producer: ProducerIn | UnsetType = UNSET
    number: Annotated[int, Meta(ge=1, le=MAX_PASS)] | UnsetType = UNSET
    cycle: Annotated[int, Meta(ge=0, le=(1 << 32) - 1)] = 0
    idempotency_key: IdempotencyKey | UnsetType = UNSET


class PreparedFact(NamedTuple):
    """A fact with its references taken apart: TSIDs of turns, in the order given."""

    params: PassFact
    text: bytes
    text_hash: bytes
    turns: tuple[int, ...]
    quoted_from: tuple[int, ...]
    valid_from: int | None


class PreparedPass(NamedTuple):
    """A commit of a pass that needs nothing more but the store."""

    params: PassParams
    session: int
    facts: tuple[PreparedFact, ...]
    noise: tuple[int, ...]
    scores: tuple[events.TurnScore, ...]


def prepare(params: PassParams, tenant: str, hash_key: bytes) -> PreparedPass:
    """Everything about it that needs no store. Raises Refused."""
    check(params)
    session = parse_session("session", params.session)
    if len(params.facts) > MAX_FACTS:
        raise invalid("facts", f"a pass has at most {MAX_FACTS} facts", limit=MAX_FACTS)
    facts = tuple([_prepare_fact(fact, tenant, hash_key) for fact in params.facts])
    noise = _turns("noise", params.noise)
    taken = {turn for fact in facts for turn in fact.turns}
    for turn in noise:
        if turn in taken:
            raise invalid("noise", "a turn is either noise or in a fact", ids=[memory_ref(Kind.RAW, turn)])
    scored = _turns("scores", [each.turn for each in params.scores])
    for turn in scored:
        if turn not in taken and turn not in noise:
            raise invalid("scores", "a score is of a turn that is settled", ids=[memory_ref(Kind.RAW, turn)])
    scores = tuple(map(_score, scored, params.scores))
    return PreparedPass(params, session, facts, noise, scores)


def check(params: PassParams) -> None:
    """What the wire would have refused is refused alike: who calls from within makes the same mistakes. Raises
    Refused."""
    plain = msgspec.to_builtins(params)
    for path, message in unspeakable(plain):
        raise invalid(parameter_of(path), message)
    for fact in params.facts:
        if isinstance(fact.text, str) and len(fact.text.encode()) > limits.TEXT_BYTES:
            raise Refused(Reason.TOO_LARGE, "the text is too large", parameter="facts.text", limit=limits.TEXT_BYTES)
    try:
        msgspec.convert(plain, PassParams)
    except msgspec.ValidationError as error:
        raise explain(str(error), PassParams) from None
    fault = fault_in(params)
    if fault is not None:
        raise invalid(parameter_of(fault.path), fault.form.value[1])
    key = params.idempotency_key
    if isinstance(key, str) and len(key.encode()) > limits.IDEMPOTENCY_KEY_BYTES:
        raise invalid("idempotency_key", "the key is too long", limit=limits.IDEMPOTENCY_KEY_BYTES)


def _score(turn: int, score: PassScore) -> events.TurnScore:
    return events.TurnScore(turn, score.distance, score.surprise, score.importance, score.pinned)


def _prepare_fact(fact: PassFact, tenant: str, hash_key: bytes) -> PreparedFact:
    if not fact.turns:
        raise Refused(Reason.PROVENANCE, "a fact is made from at least one turn", parameter="derived_from")
    turns = _turns("turns", fact.turns)
    quoted = () if fact.quoted_from is UNSET else _turns("quoted_from", fact.quoted_from)
    for turn in quoted:
        if turn not in turns:
            ref = memory_ref(Kind.RAW, turn)
            raise Refused(
                Reason.PROVENANCE, f"{ref} is quoted, but not a turn of the fact", parameter="quoted_from", ids=[ref]
            )
    text = fact.text.encode()
    valid_from = None if fact.valid_from is UNSET else parse_time("valid_from", fact.valid_from)[0]
    return PreparedFact(fact, text, text_hash(hash_key, tenant, text), turns, quoted, valid_from)


def _turns(parameter: str, refs: list[str]) -> tuple[int, ...]:
    """The TSIDs of turns, none twice. Raises Refused."""
    found: dict[int, None] = {}
    for ref in refs:
        kind, tsid = parse_memory(parameter, ref)
        if kind != Kind.RAW:
            raise Refused(Reason.PROVENANCE, f"{ref} is not a turn", parameter=parameter, ids=[ref])
        if tsid in found:
            raise invalid(parameter, f"{ref} stands there twice", ids=[ref])
        found[tsid] = None
    return tuple(found)


def commit_pass(building: Building, prepared: PreparedPass) -> dict[str, Any]:
    """Decide one commit. Raises Refused: `not_found` for the session, `provenance` for a turn that is none of its,
    `conflict` for one that is settled, dead, held or quarantined, or for another pass than the caller thinks.
    """
    building.refuse_in_maintenance()
    session = session_of(building, prepared.session)
    params = prepared.params
    sleep = passes.sleep_of(building.view.state, session)
    if not (prepared.facts or prepared.noise or (params.last and sleep.open_pass)):
        raise Refused(Reason.PROVENANCE, "a pass settles at least one turn", parameter="derived_from")
    named = dict.fromkeys([*(turn for fact in prepared.facts for turn in fact.turns), *prepared.noise])
    turns = turns_of(building, session, named)
    number, first_fact = _number(building, session, sleep.open_pass, prepared)
    settle(building, session, turns, sleep, params.cycle)
    count = first_fact + len(prepared.facts)
    made = [
        _note(building, prepared, session, turns, fact, (number, first_fact + index, count))
        for index, fact in enumerate(prepared.facts)
    ]
    turns_of_notes = [frozenset(fact.turns) for fact in prepared.facts]
    notes = [parse_memory("id", ref)[1] for ref in made]
    rederiving.replace(building, turns, list(zip(notes, turns_of_notes, strict=True)))
    promoted = dict.fromkeys(turn for fact in prepared.facts for turn in fact.turns)
    building.add(Draft(events.PassCommitted(
        session=session, number=number, promoted=_in_order(promoted, turns),
        noise=_in_order(prepared.noise, turns), last=params.last, cycle=params.cycle,
        scores=tuple([_as_it_stood(score, turns[score.id]) for score in prepared.scores]),
    )))  # fmt: skip
    return {
        "session": f"session:{format_tsid(building.session(session).id)}",
        "pass": number,
        "notes": made,
        "settled": len(turns),
        "partial": not params.last,
    }


def _as_it_stood(score: events.TurnScore, turn: Turn) -> events.TurnScore:
    """With what a revert gives back."""
    row = turn.row
    return msgspec.structs.replace(score, old_importance=row.importance, was_pinned=row.has(Mark.PINNED))


def _in_order(tsids: Any, turns: dict[int, Turn]) -> tuple[int, ...]:
    return tuple(sorted(tsids, key=lambda tsid: turns[tsid].row.turn))


def _number(building: Building, session: int, open_pass: int, prepared: PreparedPass) -> tuple[int, int]:
    """`(the pass, how many facts it has already)`: the open one, else one more than any row of the session has."""
    known = provenance.highest(building.view.state, session)
    number = open_pass or known.number + 1
    facts = known.facts if number == known.number else 0
    wanted = prepared.params.number
    if wanted is not UNSET and wanted != number:
        raise Refused(Reason.CONFLICT, f"the session is at pass {number}", parameter="number", current=number)
    if number > MAX_PASS:
        raise Refused(Reason.CONFLICT, f"a session has at most {MAX_PASS} passes", parameter="session")
    if facts + len(prepared.facts) > MAX_FACTS:
        raise invalid(
            "facts",
            f"a pass has at most {MAX_FACTS} facts, with these it has {facts + len(prepared.facts)}",
            limit=MAX_FACTS,
        )
    return number, facts


def _note(
    building: Building, prepared: PreparedPass, session: int, turns: dict[int, Turn], fact: PreparedFact,
    made_by_pass: tuple[int, int, int],
) -> str:  # fmt: skip
    """Add the draft of one note; its reference."""
    view = building.view
    sources = [turns[tsid] for tsid in _in_order(fact.turns, turns)]
    producer = _producer(building, prepared.params)
    partition = building.partition(Kind.NOTE)
    view.numbers.slot += 1
    tsid = view.new_tsid()
    scored = {score.id: score.importance for score in prepared.scores}
    given = fact.params
    by_extractor = given.importance is not UNSET
    mean = sum(scored.get(turn.tsid, turn.row.importance) for turn in sources) / len(sources)
    event = events.MemoryCreated(
        id=tsid, slot=view.numbers.slot, kind=int(Kind.NOTE), subtype=_FINDING, origin=int(Origin.CONSOLIDATED),
        partition=partition, session=session, producer=producer,
        sources=tuple([(int(Kind.RAW), turn.tsid) for turn in sources]),
        importance=given.importance if by_extractor else mean,  # type: ignore[arg-type]
        importance_by=int(ImportanceBy.EXTRACTOR if by_extractor else ImportanceBy.CLUSTER),
        confidence=KINDS[Kind.NOTE].confidence,
        valence=_or(given.valence, max(turn.event.valence for turn in sources)),
        arousal=_or(given.arousal, max(turn.event.arousal for turn in sources)),
        surprise=_or(given.surprise, None), distance=_or(given.distance, None),
        quoted_from=fact.quoted_from, made_by_pass=made_by_pass,
        valid_from=min(turn.occurred_at for turn in sources) if fact.valid_from is None else fact.valid_from,
        rows=(_row(building, session, sources),),
    )  # fmt: skip
    _draft(building, event, fact, session)
    building.kinds[tsid] = int(Kind.NOTE)
    return memory_ref(Kind.NOTE, tsid)


def _or(given: Any, otherwise: Any) -> Any:
    return otherwise if given is UNSET else given


def _producer(building: Building, params: PassParams) -> int:
    stamp = params.producer
    if stamp is UNSET:
        return 0
    return building.producer(stamp.agent, stamp.model, stamp.version, stamp.extractor)


def _row(building: Building, session: int, sources: list[Turn]) -> events.RegionRow:
    """What the provenance region says of a note from these turns, which are in order."""
    first, last = sources[0].row, sources[-1].row
    return events.RegionRow(
        session=building.session(session).id, turns=len(sources), partition=first.partition,
        first_turn=first.turn, last_turn=last.turn, first_offset=first.offset, last_offset=last.offset,
    )  # fmt: skip


def _draft(building: Building, event: events.MemoryCreated, fact: PreparedFact, session: int) -> None:
    """With the plaintext of its parts."""
    plain, shared = building.text(fact.text_hash, fact.text)
    defaults = building.defaults_of(session)
    particulars = Particulars(
        tags=() if fact.params.tags is UNSET else tuple(fact.params.tags),
        subject=None if defaults is None else defaults.subject,
        project=None if defaults is None else defaults.project,
    )
    if particulars != _NO_PARTICULARS:
        plain.append((int(Part.PARTICULARS), encode(particulars)))
    building.add(Draft(event, tuple(plain), shared))
