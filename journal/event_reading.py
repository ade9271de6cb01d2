"""The stable JSON reading of an event: every field by its name, in words that need no table of codes.

| in the event | in the reading |
|---|---|
| a code of a closed set | its wire word; the number, when this version knows none |
| a `Ref` | `kind:TSID` |
| an id | a reference where the field says what it is (`session:`, `fact:`, `edge:`, `cycle:`, …), else its TSID |
| a number that a store assigns (session, turn, producer, entity, partition, slot, tenant) | the number |
| 0 where it means "none" | null |
| UTC milliseconds | RFC 3339 with 3 digits and `Z` |
| a day | `YYYY-MM-DD` |
| bytes | hex |
| a sealed part | `{owner_seq, part, slot, length, digest}`, the part as a word, the digest in hex |
| a pair or triple | an object whose names are in `FIELDS` |

Invariant: `FIELDS` has each event and each of its fields, and a reading never changes for one that is written: a
journal's frames are compared with it when they are imported. Like an event, it only grows at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from journal import codes, events
from journal.events import root
from journal.events.memories import PurgeTarget
from journal.times import DAY_MS, FIRST_MS, LAST_MS, format_day, format_ms
from journal.tsid import MAX_TSID, format_tsid

Reader = Callable[[Any, Any], Any]
"""Called with (the value, the struct that it is a field of); never with None, which is null."""
Fields = dict[str, Reader]


def read_event(event: Any) -> dict[str, Any]:
    """The reading of an event. Pure: it needs no store."""
    return _read(FIELDS[type(event)], event)


def _read(fields: Fields, struct: Any) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name, reader in fields.items():
        value = getattr(struct, name)
        told[name] = None if value is None else reader(value, struct)
    return told


# --- single values -------------------------------------------------------------------------------


def _plain(value: Any, _struct: Any) -> Any:
    return value


def _number(value: int, _struct: Any) -> int | None:
    """A number that begins at 1."""
    return value or None


def _hex(value: bytes, _struct: Any) -> str:
    return value.hex()


def _hex_map(value: dict[str, bytes], _struct: Any) -> dict[str, str]:
    return {name: each.hex() for name, each in value.items()}


def _time(value: int, _struct: Any) -> str | int:
    return format_ms(value) if FIRST_MS <= value <= LAST_MS else value


def _time_if_any(value: int, struct: Any) -> str | int | None:
    return _time(value, struct) if value else None


def _day(value: int, _struct: Any) -> str | int:
    return format_day(value) if FIRST_MS <= value * DAY_MS <= LAST_MS else value


def _tsid(value: int, _struct: Any) -> str | None:
    return _bare(value) if value else None


def _bare(value: int) -> str:
    return format_tsid(value) if 0 <= value <= MAX_TSID else str(value)


def _id(prefix: str) -> Reader:
    """An id whose field says what it is of; 0 is none."""
    return lambda value, _struct: f"{prefix}:{_bare(value)}" if value else None


def _code(of: type[codes.Code], none: int | None = None) -> Reader:
    """A code of a closed set; `none` is what stands for none."""
    words: dict[int, str | None] = {int(member): member.wire for member in of}
    if none is not None:
        words[none] = None
    return lambda value, _struct: words.get(value, value)


_KINDS = {int(kind): kind.wire for kind in codes.Kind}


def _memory(kind: int, tsid: int) -> str:
    return f"{_KINDS.get(kind, kind)}:{_bare(tsid)}"


def _ref(value: root.Ref, _struct: Any) -> str:
    return _memory(*value)


def _source(value: int, struct: Any) -> str | None:
    """The id of a source whose kind stands beside it; 0 is none."""
    return _memory(struct.source_kind, value) if value else None


def _own_ref(value: int, struct: Any) -> str:
    """The id of a memory whose kind stands beside it."""
    return _memory(struct.kind, value)


def _subtype(value: int, struct: Any) -> str | int | None:
    try:
        return codes.subtype_name(codes.Kind(struct.kind), value) if value >= 0 else value
    except (ValueError, IndexError):
        return value


# --- what is made of several ---------------------------------------------------------------------


def _each(reader: Reader) -> Reader:
    return lambda value, struct: [None if item is None else reader(item, struct) for item in value]


def _named(**readers: Reader) -> Reader:
    """A tuple of fixed length, as an object."""

    def read(value: tuple[Any, ...], struct: Any) -> dict[str, Any]:
        pairs = zip(readers.items(), value, strict=True)
        return {name: None if item is None else reader(item, struct) for (name, reader), item in pairs}

    return read


def _struct(of: type) -> Reader:
    return lambda value, _struct: _read(FIELDS[of], value)


_turn = _id("raw")  # only what is raw can be a turn
_refs = _each(_ref)
_turns = _each(_turn)
_tsids = _each(_tsid)
_numbers = _each(_plain)
_parts = _each(_struct(root.SealedPart))
_externals = _each(_struct(root.External))
_changes = _each(_struct(root.Change))
_cycle, _edge, _proposal, _fact, _cohort = _id("cycle"), _id("edge"), _id("proposal"), _id("fact"), _id("cohort")
_edge_type = _code(codes.EdgeType, none=0)
_relay = _code(codes.Relay)
_partition_state = _code(codes.PartitionState)
_mark = _code(codes.Mark)

_OPENED: Fields = {"boot_id": _hex, "version": _plain, "format": _plain, "epoch": _plain, "vault_nonce": _hex}
_GROUNDS: Fields = {"evidence": _refs, "externals": _externals}
_WHO: Fields = {"id": _cycle, "boot_id": _hex, "process_start": _plain, "fence": _plain}

FIELDS: dict[type, Fields] = {
    # what events are made of
    root.SealedPart: {
        "owner_seq": _plain, "part": _code(codes.Part), "slot": _plain, "length": _plain, "digest": _hex,
    },
    root.External: {
        "use": _code(codes.ExternalUse), "kind": _code(codes.ExternalKind), "resolvable": _plain,
    },
    root.FactHead: {
        "id": _fact, "confidence": _plain, "valid_from": _time, "valid_to": _time, "proposal": _proposal,
    },
    root.RegionRow: {
        "session": _id("session"), "turns": _plain, "partition": _number, "first_turn": _number,
        "last_turn": _number, "first_offset": _plain, "last_offset": _plain, "source": _source,
        "source_kind": _code(codes.Kind), "source_partition": _number,
    },
    root.Change: {"kind": _code(codes.Kind), "id": _own_ref, "old": _plain, "new": _plain},
    root.TurnScore: {
        "id": _turn, "distance": _plain, "surprise": _plain, "importance": _plain, "pinned": _plain,
        "old_importance": _plain, "was_pinned": _plain,
    },
    PurgeTarget: {
        "kind": _code(codes.Kind), "id": _own_ref, "keys_shredded": _plain, "payload_bytes": _plain,
        "text_bytes": _plain, "text_retained_shared": _plain, "text_shared_with": _plain,
        "hebbian_edges_removed": _plain, "temporal_unlinked": _plain, "entity_links_removed": _plain,
        "hyperedges_removed": _plain, "quoting_purged": _refs, "derived_surviving": _refs,
        "sources_surviving": _refs, "versions_surviving": _refs, "quoting_purged_count": _plain,
        "derived_surviving_count": _plain, "sources_surviving_count": _plain, "versions_surviving_count": _plain,
        "is_fingerprinted": _plain,
    },
    # store, tenants and names
    events.Opened: _OPENED,
    events.Restored: {
        **_OPENED, "from_store": _hex, "from_epoch": _plain, "from_seq": _plain, "from_chain": _hex,
    },
    events.TenantBegan: {"number": _plain, "name": _plain},
    events.TenantChanged: {"state": _code(codes.TenantState), "enforce": _plain},
    events.ProducerNamed: {
        "number": _plain, "agent": _plain, "model": _plain, "version": _plain, "extractor": _plain,
    },
    events.EntityNamed: {"number": _plain, "parts": _parts},
    events.SessionOpened: {
        "id": _id("session"), "number": _plain, "agent": _plain, "uid": _plain, "opened_at": _time,
        "producer": _number, "parts": _parts,
    },
    events.SessionReopened: {
        "number": _plain, "activation": _plain, "at": _time, "cause": _code(codes.SessionCause),
        "producer": _number, "parts": _parts, "defaults_before": _number,
    },
    events.SessionClosed: {"number": _plain, "at": _time},
    events.SessionTouched: {
        "number": _plain, "at": _time, "producer": _number, "parts": _parts, "defaults_before": _number,
    },
    # memories
    events.MemoryCreated: {
        "id": _own_ref, "slot": _plain, "kind": _code(codes.Kind), "subtype": _subtype,
        "origin": _code(codes.Origin), "partition": _plain, "session": _number, "turn": _number,
        "role": _code(codes.Role, none=0), "producer": _number, "sources": _refs, **_GROUNDS,
        "importance": _plain, "importance_by": _code(codes.ImportanceBy), "confidence": _plain,
        "strength": _plain, "valence": _plain, "arousal": _plain,
        "hints": _named(interest=_plain, challenge=_plain, urgency=_plain), "surprise": _plain,
        "soul_version": _plain, "pinned": _plain, "protected": _plain, "entities": _numbers,
        "facts": _each(_struct(root.FactHead)), "quoted_from": _turns,
        "made_by_pass": _named(number=_plain, fact_index=_plain, batch_count=_plain),
        "imported": _named(format=_plain, created_at=_time), "occurred_at": _time, "occurred_offset": _plain,
        "valid_from": _time, "valid_to": _time, "key": _hex, "notes": _each(_code(codes.Note)),
        "predecessor": _ref, "disposition": _edge_type, "edge": _edge, "proposal": _proposal,
        "modality": _plain, "encoding": _named(profile=_plain, alpha=_plain, beta=_plain), "parts": _parts,
        "distance": _plain, "self_scoped": _plain, "rows": _each(_struct(root.RegionRow)),
    },
    events.Forgotten: {"memory": _ref, "strength": _plain, "flagged": _refs, "cycle": _cycle, "parts": _parts},
    events.Recovered: {
        "memory": _ref, "mark": _mark, "old_strength": _plain, "new_strength": _plain, "cleared": _refs,
        "cycle": _cycle, "parts": _parts, **_GROUNDS,
    },
    events.Purged: {
        "targets": _each(_struct(PurgeTarget)), "parts": _parts, "reason": _code(codes.PurgeReason),
        "cascade": _code(codes.Cascade), "sessions": _numbers, "proposals": _each(_proposal),
        "entities": _numbers, "fingerprint_key": _hex, "fingerprints": _each(_hex), "file_system": _plain,
        "directive": _named(store=_hex, epoch=_plain, seq=_plain), "tenant_name": _plain,
        "first_at": _time_if_any, "first_actor": _named(uid=_plain, role=_code(codes.CallerRole), via=_code(codes.Via)),
        "earlier": _each(_named(epoch=_plain, seq=_plain)),
    },
    events.Verified: {
        "memory": _ref, "old_confidence": _plain, "new_confidence": _plain, "old_strength": _plain,
        "new_strength": _plain, "verifications": _plain, "boosted": _changes, **_GROUNDS, "parts": _parts,
        "cleared": _refs, "boost_cleared": _each(_named(source=_ref, child=_ref)),
    },
    events.Reinforced: {
        "memory": _ref, "old_confidence": _plain, "new_confidence": _plain, "reinforcements": _plain,
        **_GROUNDS, "parts": _parts,
    },
    events.Weakened: {
        "memory": _ref, "old_strength": _plain, "new_strength": _plain, "flagged": _refs, "parts": _parts,
        **_GROUNDS,
    },
    events.Reaffirmed: {"memory": _ref, "parts": _parts, "session": _number, **_GROUNDS},
    events.Marked: {
        "memory": _ref, "mark": _mark, "on": _plain, "valid_to": _time, "proposal": _proposal, "parts": _parts,
        "session": _number, "cohort": _cohort,
    },
    events.Superseded: {
        "predecessor": _ref, "successor": _ref, "edge_type": _edge_type, "edge": _edge, "valid_to": _time,
        "proposal": _proposal, "session": _number, "cohort": _cohort,
    },
    events.Related: {
        "source": _ref, "target": _ref, "edge_type": _edge_type, "edge": _edge, "proposal": _proposal,
    },
    events.Moved: {"memory": _ref, "entities": _numbers, "parts": _parts, "session": _number},
    events.Held: {"memories": _refs, "on": _plain, "parts": _parts},
    events.FactAdded: {"memory": _ref, "fact": _struct(root.FactHead), "parts": _parts},
    events.ResolvableChanged: {"memory": _ref, "index": _plain, "resolvable": _plain, "owner_seq": _number},
    events.EmbedFailed: {"memory": _ref, "model": _plain, "error": _plain},
    # partitions
    events.PartitionOpened: {
        "number": _plain, "tier": _code(codes.Tier), "day": _day, "part": _plain, "zone": _plain,
    },
    events.PartitionChanged: {
        "number": _plain, "old": _partition_state, "new": _partition_state, "rows": _plain, "dead": _plain,
        "threshold": _plain,
    },
    events.Vacuumed: {
        "partition": _plain, "before_count": _plain, "after_count": _plain, "tombstones_removed": _plain,
        "removed_bytes": _plain, "forced": _plain,
        "removed": _each(_named(owner_seq=_plain, part=_code(codes.Part))),
        "first": _plain, "until": _plain, "to": _plain, "last": _plain, "late": _refs,
        "counted": _each(_named(partition=_plain, bytes=_plain)), "threshold": _plain,
    },
    # passes
    events.PassCommitted: {
        "session": _number, "number": _plain, "promoted": _turns, "noise": _turns, "last": _plain,
        "cycle": _cycle, "scores": _each(_struct(root.TurnScore)),
    },
    events.PassFailed: {"session": _number, "attempt": _plain, "error": _plain, "parked": _plain, "cycle": _cycle},
    events.Unparked: {"session": _number},
    events.TurnsReopened: {
        "session": _number, "turns": _turns, "cohort": _cohort, "cycle": _cycle,
        "cause": _code(codes.ReopenCause),
    },
    # proposals and cohorts
    events.ProposalMade: {
        "id": _proposal, "kind": _code(codes.ProposalKind), "memory": _ref, "other": _ref,
        "edge_type": _edge_type, "action": _code(codes.ProposalAction, none=0), "fact": _struct(root.FactHead),
        "cycle": _cycle, "parts": _parts,
    },
    events.ProposalDecided: {
        "id": _proposal, "accepted": _plain, "edges": _each(_edge), "facts": _each(_fact), "seqs": _numbers,
        "parts": _parts, "cycle": _cycle,
    },
    events.CohortMade: {
        "id": _cohort, "action": _code(codes.CohortAction), "changes": _changes, "part": _plain,
        "last": _plain, "downstream": _plain, "not_rederivable": _refs, "producers": _numbers,
        "origins": _each(_code(codes.Origin)), "kinds": _each(_code(codes.Kind)), "since": _time, "until": _time,
        "statuses": _each(_code(codes.Status)), "session": _number, "sealed": _plain, "token": _hex,
        "held_by_others": _plain,
    },
    events.CohortLifted: {
        "id": _cohort, "changes": _changes, "part": _plain, "last": _plain, "unmarked": _refs,
        "reopened": _each(_named(memory=_ref, valid_to=_time)),
        "unarchived": _refs, "settled": _each(_named(session=_number, turn=_turn, promoted=_plain)),
    },
    # sleep and graph
    events.SoulSet: {
        "version": _plain, "interest": _plain, "challenge": _plain, "novelty": _plain, "urgency": _plain,
        "steepness": _plain, "parts": _parts,
    },
    events.MeanMoved: {"model": _plain, "count": _plain, "destroyed": _parts, "cycle": _cycle, "parts": _parts},
    events.CycleStarted: {
        **_WHO, "tenants": _numbers, "relays": _each(_relay), "include_active": _plain, "sessions": _numbers,
        "constants": _plain, "extractor": _plain,
    },
    events.CycleTaken: _WHO,
    events.RelayEnded: {
        "cycle": _cycle, "relay": _relay, "outcome": _plain, "took_ms": _plain, "counters": _plain,
    },
    events.CycleCheckpointed: {
        "cycle": _cycle, "local_date": _day, "report": _hex, "head_seq": _plain, "head_chain": _hex,
        "digests": _hex_map,
    },
    events.CycleEnded: {"cycle": _cycle, "reason": _plain},
    events.CycleReverted: {"cycle": _cycle, "restored": _changes, "not_restorable": _refs},
    events.BulkChanged: {
        "recipe": _plain, "recipe_version": _plain, "parameters": _numbers, "cycle": _cycle,
        "kept": _each(_numbers),
    },
    events.Recalled: {"counts": _each(_named(memory=_tsid, count=_plain))},
    events.Pruned: {"memories": _refs, "cycle": _cycle},
    events.Rescored: {
        "cause": _relay, "changes": _changes, "soul_version": _number, "cycle": _cycle,
        "surprises": _each(_named(memory=_tsid, surprise=_plain)),
    },
    events.Unlinked: {"memories": _tsids, "cycle": _cycle},
    events.Interfered: {"pairs": _each(_named(older=_tsid, newer=_tsid)), "cycle": _cycle},
    events.EntityMerged: {"winner": _plain, "loser": _plain, "on": _plain, "cycle": _cycle},
    events.HyperedgePut: {
        "id": _tsid, "edge_type": _plain, "members": _each(_named(entity=_plain, role=_plain)), "weight": _plain,
        "memories": _tsids, "cycle": _cycle,
    },
    events.Linked: {"pairs": _each(_named(slot=_plain, other=_plain, weight=_plain))},
    # bookkeeping
    events.Keyed: {"key": _hex, "result": _hex, "memories": _tsids, "parts": _parts, "sessions": _numbers},
    events.OperatorCrossed: {"verb": _plain},
    events.Upgraded: {"old_format": _plain, "new_format": _plain},
}  # fmt: skip
"""How each field of each event, and of what they are made of, is read; in the order of its fields."""
