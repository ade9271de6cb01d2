"""Events of sleep and graph."""

from __future__ import annotations

from journal.events.root import Change, Event, Ref, SealedPart


class SoulSet(Event, frozen=True, tag=56):
    """Particulars part: topics."""

    version: int
    interest: float
    challenge: float
    novelty: float
    urgency: float
    steepness: float
    parts: tuple[SealedPart, ...] = ()


class MeanMoved(Event, frozen=True, tag=57):
    """Relay 3's prior mean is content: part mean. `destroyed` is the one before. None: it restarts."""

    model: str
    count: int
    destroyed: tuple[SealedPart, ...] = ()
    cycle: int = 0
    parts: tuple[SealedPart, ...] = ()


class CycleStarted(Event, frozen=True, tag=58):
    """Arguments and constants are kept, so that a resumed cycle uses the same ones."""

    id: int
    boot_id: bytes
    process_start: int
    fence: int
    tenants: tuple[int, ...]
    relays: tuple[int, ...]
    include_active: bool
    sessions: tuple[int, ...]
    constants: dict[str, float]
    extractor: str | None = None


class CycleTaken(Event, frozen=True, tag=59):
    id: int
    boot_id: bytes
    process_start: int
    fence: int


class RelayEnded(Event, frozen=True, tag=60):
    """`outcome`: did_work, nothing_to_do, skipped:REASON, failed:CLASS."""

    cycle: int
    relay: int
    outcome: str
    took_ms: int
    counters: dict[str, float]


class CycleCheckpointed(Event, frozen=True, tag=61):
    """REFLECT: one tenant's cycle is finished. `report` is its report in msgpack, ids and numbers only."""

    cycle: int
    local_date: int | None
    report: bytes
    head_seq: int
    head_chain: bytes
    digests: dict[str, bytes]


class CycleEnded(Event, frozen=True, tag=62):
    """A cycle ended without (all) its checkpoints; `reason` is an enumeration's wire name."""

    cycle: int
    reason: str


class CycleReverted(Event, frozen=True, tag=63):
    cycle: int
    restored: tuple[Change, ...] = ()
    not_restorable: tuple[Ref, ...] = ()


class BulkChanged(Event, frozen=True, tag=64):
    """A versioned, elementwise float32 recipe over folded state, with its parameters.

    `kept` are the pairs that it spares although they fall below the floor (bridges).
    """

    recipe: int
    recipe_version: int
    parameters: tuple[float, ...]
    cycle: int = 0
    kept: tuple[tuple[int, int], ...] = ()


class Recalled(Event, frozen=True, tag=65):
    """New recall counts: (TSID, count)."""

    counts: tuple[tuple[int, int], ...]


class Pruned(Event, frozen=True, tag=66):
    memories: tuple[Ref, ...]
    cycle: int


class Rescored(Event, frozen=True, tag=67):
    """Importances moved by sleep. `cause` is the relay; `soul_version` 0 leaves the stamp.
    `surprises` are those first measured by it."""

    cause: int
    changes: tuple[Change, ...]
    soul_version: int = 0
    cycle: int = 0
    surprises: tuple[tuple[int, float], ...] = ()


class Unlinked(Event, frozen=True, tag=68):
    """Nodes taken out of the temporal chain (relay 6)."""

    memories: tuple[int, ...]
    cycle: int


class Interfered(Event, frozen=True, tag=69):
    """A pair of near-duplicates was handled, once for ever: (older, newer)."""

    pairs: tuple[tuple[int, int], ...]
    cycle: int


class EntityMerged(Event, frozen=True, tag=70):
    winner: int
    loser: int
    on: bool
    cycle: int = 0


class HyperedgePut(Event, frozen=True, tag=71):
    """Upsert by (type, sorted members). Members are (entity number, role)."""

    id: int
    edge_type: int
    members: tuple[tuple[int, int], ...]
    weight: float
    memories: tuple[int, ...] = ()
    cycle: int = 0


class Linked(Event, frozen=True, tag=72):
    """Hebbian co-occurrence beyond what turns themselves say: (slot, slot, weight added)."""

    pairs: tuple[tuple[int, int, float], ...]
