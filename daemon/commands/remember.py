"""remember: one new memory with its whole lineage. The rules are those of contract §4.2-§4.5, §4.7, §4.8."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from daemon.commands.attachment import attach, file_turn, names_model, particulars_of, producer_of
from daemon.commands.building import Building
from daemon.commands.creation import Decided, creating_event
from daemon.commands.keys import answer_memory, same_command
from daemon.commands.lineage import Ref, check_kinds, check_stated, region_rows, resolve
from daemon.commands.preparation import Prepared
from daemon.decision import Draft
from journal.codes import Kind, Note, Origin, Part, Role
from journal.particulars import Particulars, encode
from journal.tsid import format_tsid, memory_ref, parse_memory_ref
from projections.kinds import is_self_scoped

_PARTICULARS, _VECTOR = int(Part.PARTICULARS), int(Part.VECTOR)
_NO_PARTICULARS = Particulars()


def decide(building: Building, prepared: Prepared, item_refs: Sequence[Ref | None] | None = None) -> dict[str, Any]:
    """Add the drafts of one memory to `building` and return the result. Raises Refused.

    `item_refs` are the memories of the items before this one in a batch, for `@N`.
    """
    repeated = _answered(building, prepared)
    if repeated is not None:
        return repeated
    building.refuse_in_maintenance()
    sources = resolve(building, "derived_from", prepared.sources, item_refs)
    evidence = resolve(building, "evidence", prepared.evidence, item_refs)
    check_kinds(building, prepared, sources)
    building.begin_tenant()
    if prepared.origin is not Origin.SEEDED:
        building.activate()
    attached = attach(building, prepared)
    session, notes, defaults = attached
    subtype, turn = file_turn(building, prepared, session)
    quoted: tuple[int, ...] = ()
    if prepared.origin is Origin.STATED and names_model(prepared.params, defaults):
        quoted = check_stated(building, prepared, subtype, sources + evidence)
    particulars = particulars_of(prepared, defaults)
    view = building.view
    producer = producer_of(building, prepared.params, defaults)
    entities = tuple([building.entity(name, hashed) for name, hashed in prepared.entities])
    partition = building.partition(prepared.kind)
    view.numbers.slot += 1
    tsid = view.new_tsid()
    decided = Decided(
        tsid, view.numbers.slot, subtype, partition, session, turn, producer, sources, evidence, entities, notes,
        region_rows(building, prepared.kind, sources), is_self_scoped(prepared.kind, particulars.subject),
        quoted,
    )  # fmt: skip
    seq = building.next_seq
    _draft(building, prepared, decided, particulars)
    building.kinds[tsid] = int(prepared.kind)
    if turn and prepared.role is Role.USER:
        building.spoken[tsid] = prepared.params.text
    result = _result(building, prepared.kind, tsid, seq, session, turn, notes)
    if prepared.key is not None:
        building.keys[prepared.key] = (prepared.digest, result)
    return result


def _answered(building: Building, prepared: Prepared) -> dict[str, Any] | None:
    """The answer that the key of a write already has, in the journal or in this very command."""
    key = prepared.key
    if key is None:
        return None
    seq = building.view.answered(building.tenant, key) if building.tenant else None
    if seq is not None:
        return answer_memory(building.view, seq, prepared.digest)
    earlier = building.keys.get(key)
    return None if earlier is None else same_command(earlier, prepared.digest)


def _draft(building: Building, prepared: Prepared, decided: Decided, particulars: Particulars) -> None:
    """The event with the plaintext of its parts."""
    plain, shared = building.text(prepared.text_hash, prepared.text)
    if particulars != _NO_PARTICULARS:
        plain.append((_PARTICULARS, encode(particulars)))
    if prepared.vector is not None:
        plain.append((_VECTOR, prepared.vector))
    for _, _, value in particulars.facts:
        building.refuse_blocked("facts.value", value.encode())
    event = creating_event(prepared, decided, building.view)
    building.add(Draft(event, tuple(plain), shared))


def _result(
    building: Building, kind: Kind, tsid: int, seq: int, session: int, turn: int, notes: tuple[Note, ...]
) -> dict[str, Any]:
    return {
        "id": memory_ref(kind, tsid),
        "address": {"epoch": building.view.state.head.epoch, "seq": seq},
        "duplicate": False,
        "session": f"session:{format_tsid(building.session(session).id)}" if session else None,
        "turn": turn or None,
        "notes": [note.wire for note in notes],
    }


def ref_of(result: dict[str, Any]) -> Ref:
    """The memory that a result of `decide` names."""
    return parse_memory_ref(result["id"])
