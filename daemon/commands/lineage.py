"""The lineage of a new memory: its sources exist, fit its kind, and carry what it claims (contract §4.2, §4.3).

A memory can't exist without its lineage, so everything here is checked before its event is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from daemon.commands.building import Building
from daemon.commands.preparation import Prepared
from daemon.commands.quarantine import is_quarantined
from daemon.prepare import Sources, invalid
from daemon.refusal import Reason, Refused
from journal import events
from journal.codes import ExternalKind, Kind, Mark, Origin, Role, TenantState, Tier
from journal.errors import PartUnreadable
from journal.tsid import memory_ref
from projections.kinds import DOCUMENT_SUBTYPE, KINDS

Ref = tuple[int, int]  # (kind code, TSID)


def resolve(
    building: Building, parameter: str, sources: Sources, item_refs: Sequence[Ref | None] | None
) -> tuple[Ref, ...]:
    """The memories that a list of sources names, each once. Raises Refused.

    `item_refs` are those of the items before this one in a batch, for `@N`; None: that one was refused.
    """
    found: dict[Ref, None] = {}
    for item in sources.refs:
        ref = _earlier(parameter, item, item_refs) if isinstance(item, int) else item
        if ref not in found:
            _check_known(building, parameter, *ref)
            found[ref] = None
    return tuple(found)


def _earlier(parameter: str, place: int, item_refs: Sequence[Ref | None] | None) -> Ref:
    if item_refs is None or place >= len(item_refs):
        raise invalid(parameter, f"@{place} is not an item before this one")
    ref = item_refs[place]
    if ref is None:
        raise Refused(Reason.PROVENANCE, f"@{place} was refused itself", parameter=parameter)
    return ref


def _check_known(building: Building, parameter: str, kind: int, tsid: int) -> None:
    known = building.kinds.get(tsid)
    if known is None:
        row = building.view.memory(building.tenant, tsid) if building.tenant else None
        if row is None:
            raise _bad_source(parameter, kind, tsid, "it does not exist")
        if row.has(Mark.PURGED):
            raise _bad_source(parameter, kind, tsid, "it is purged")
        if row.has(Mark.QUARANTINED) and row.kind == kind:
            raise is_quarantined(building, parameter, kind, tsid, f"{memory_ref(kind, tsid)} can't be a source: it")
        known = row.kind
    if known != kind:
        raise _bad_source(parameter, kind, tsid, "it does not exist")


def _bad_source(parameter: str, kind: int, tsid: int, why: str) -> Refused:
    ref = memory_ref(kind, tsid)
    return Refused(Reason.PROVENANCE, f"{ref} can't be a source: {why}", parameter=parameter, ids=[ref])


def check_kinds(building: Building, prepared: Prepared, sources: tuple[Ref, ...]) -> None:
    """Enough sources, of kinds that this kind may be made from. Enforced or not, an annotation never stands alone
    (contract §4.5). Raises Refused."""
    externals = prepared.sources.externals
    if externals and not sources and all(external[0] == ExternalKind.CONTEXT for external in externals):
        raise Refused(Reason.PROVENANCE, "an annotation never stands alone", parameter="derived_from")
    tenant = building.tenant_row()
    if tenant is not None and not tenant.enforce:
        return
    kind = prepared.kind
    allowed = KINDS[kind].sources
    for source_kind, tsid in sources:
        if source_kind not in allowed:
            raise _bad_source("derived_from", source_kind, tsid, f"a {kind.wire} can't derive from it")
    if sources:
        return
    seeding = prepared.origin is Origin.SEEDED and (tenant is None or tenant.state == TenantState.INITIALIZING)
    if allowed and not seeding:
        raise Refused(
            Reason.PROVENANCE,
            f"a {kind.wire} must derive from at least one {' or '.join(sorted(k.wire for k in allowed))}",
            parameter="derived_from", allowed=sorted(k.wire for k in allowed),
        )  # fmt: skip


def check_stated(building: Building, prepared: Prepared, subtype: int, refs: tuple[Ref, ...]) -> tuple[int, ...]:
    """A model says that the subject said so: the words must stand in one live user turn that is named; which it is. A
    turn (or capture, without a session) of role user is itself the utterance; a document is not. Raises Refused.
    """
    if prepared.kind is Kind.RAW and prepared.role is Role.USER and subtype != DOCUMENT_SUBTYPE:
        return ()
    return check_words(building, prepared.params.text, refs)


def check_words(building: Building, text: str, refs: tuple[Ref, ...]) -> tuple[int, ...]:
    """The words of a text stand in one live user turn among `refs`: the first that has them. What has its words is a
    copy of it, and goes with it, so this belongs into the event. Raises Refused."""
    words = " ".join(text.split())
    for tsid, spoken in _utterances(building, refs):
        if words in " ".join(spoken.split()):
            return (tsid,)
    raise Refused(
        Reason.PROVENANCE, "a model can't say `stated` unless the words stand in a user turn that is named",
        parameter="origin", hint="inferred",
    )  # fmt: skip


def _utterances(building: Building, refs: tuple[Ref, ...]) -> Iterator[tuple[int, str]]:
    """`(TSID, text)` of the live user turns among `refs`. One whose key is gone is as silent as a purged one."""
    view = building.view
    for _, tsid in refs:
        spoken = building.spoken.get(tsid)
        if spoken is not None:
            yield tsid, spoken
            continue
        row = view.state.memory(tsid)
        if row is None or row.role != Role.USER or row.dead or not row.turn:
            continue
        record = view.record(row.seq)
        if record is None or not isinstance(record.event, events.MemoryCreated):
            continue
        try:
            yield tsid, view.unseal(record.event.parts[0]).decode()
        except PartUnreadable as error:
            if error.state != "purged":
                raise


def region_rows(building: Building, kind: Kind, sources: tuple[Ref, ...]) -> tuple[events.RegionRow, ...]:
    """What the provenance region says of a memory that a client makes: of a procedure one row per semantic source."""
    if KINDS[kind].tier is not Tier.PROCEDURAL:
        return ()
    return tuple(
        [
            events.RegionRow(source=tsid, source_kind=of, source_partition=_partition_of(building, of, tsid))
            for of, tsid in sources
            if KINDS[Kind(of)].tier is Tier.SEMANTIC
        ]
    )


def _partition_of(building: Building, kind: int, tsid: int) -> int:
    """Of one that this very command makes there is no row yet: it goes where its kind goes now."""
    row = building.view.memory(building.tenant, tsid)
    return building.partition(kind) if row is None else row.partition
