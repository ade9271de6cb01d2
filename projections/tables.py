"""The databases of the projection environment, and which projection owns which.

| projection | databases (key → value) |
|---|---|
| memories | `partitions` number u32 → msgpack, CRC; `memories` TSID u64 → memory row; `rows` partition u32, page u32 → up to 63 header rows, CRC; `removed_rows` partition u32, TSID u64 → header row that a vacuum took away, CRC; `late` partition u32, TSID u64 → CRC (those of `removed_rows` that were purged since, and whose ciphertexts are still to be collected); `touches` TSID u64, seq u64 → CRC; `held` tenant u32, TSID u64 → seq u64, CRC |
| edges | `edges_out` TSID u64 → entries of (type u8, kind u8, TSID u64), CRC; `edges_in` TSID u64, type u8, TSID u64 → kind u8, CRC; `lines` TSID u64 → first version u64, newest u64, whose sources u64 each, CRC (of what was revised or took another's place); `externals` TSID u64, seq u64 → CRC (the records that brought support from outside the store) |
| idempotency | `idempotency` tenant u32, key hash 16 → seq u64, CRC; `keyed_memories` TSID u64, seq u64 → CRC; `keyed_sessions` session u32, seq u64 → CRC (the keyed answers that speak of it) |
| sessions | `sessions` number u32 → session row; `session_ids` TSID u64 → number u32, CRC; `turns` session u32, turn u32 → TSID u64, CRC; `session_memories` session u32, TSID u64 → CRC; `settled` session u32, turn u32 → seq u64, promoted u8, CRC; `passes` session u32, pass u16 → msgpack, CRC; `sleeps` session u32 → msgpack, CRC |
| provenance | `regions` tenant u32 → rows u32, CRC; `region` tenant u32, page u32 → up to 56 provenance rows, CRC; `region_targets` TSID u64, row u32 → tenant u32, CRC; `region_sessions` session u32, pass u16, fact u8, row u32 → tenant u32, CRC; `region_passes` session u32 → highest pass u16, its facts u16, CRC; `region_dead` tenant u32, row u32 → state before u8, marks u8, CRC; `resolvables` TSID u64, owner seq u64, index u32 → u8, CRC |
| names | `tenants` number u32 → msgpack, CRC; `producers` number u32 → msgpack, CRC; `entities` number u32 → msgpack, CRC; `naming` entity u32, TSID u64 → CRC (the memories that name an entity) |
| texts | `texts` owner seq u64, TSID u64 → CRC (who shares a text part); `quotes` turn TSID u64, note TSID u64 → CRC (who has the words of a turn) |
| flags | `flags` child TSID u64, source TSID u64 → seq u64, CRC (open review flags, and the record that set each) |
| proposals | `proposals` id u64 → msgpack, CRC; `proposals_by` tenant u32, status u8, kind u8, id u64 → CRC; `proposals_of` memory TSID u64, status u8, id u64 → CRC |
| chain | `happenings` TSID u64, seq u64 → what happened u8, CRC; `revisions` TSID u64, direction u8, other TSID u64, edge id u64 → type u8, kind of the other u8, seq u64, CRC; `facts_added` TSID u64, fact id u64 → seq u64, CRC; `purges` tenant u32, seq u64 → CRC (the first record of each purge) |
| cohorts | `cohorts` id u64 → msgpack, CRC; `cohorts_by` tenant u32, id u64 → CRC; `cohort_members` id u64, TSID u64 → kind u8, importance before and after f64, CRC; `in_cohorts` TSID u64, cohort id u64 → action u8, CRC (of those not lifted) |
| usage | `usage` tenant u32 → records u64, content bytes i64, CRC |
| blocks | `blocks` kind u8, id u64, block u32 → CRC or bounds, CRC (which 256-record blocks hold records of an actor, a producer, a time, a vault slot) |

A projection reads and writes its own databases only, so that it can be folded alone: a partition counts its
rows, and a row's place is that count, so both are one. Integers in keys are big-endian. `meta` holds the watermark
with the counters, and of each projection the version of its fold.
"""

from __future__ import annotations

MEMORIES = "memories"
ROWS = "rows"
REMOVED_ROWS = "removed_rows"
LATE = "late"
TOUCHES = "touches"
EDGES_OUT = "edges_out"
EDGES_IN = "edges_in"
LINES = "lines"
EXTERNALS = "externals"
IDEMPOTENCY = "idempotency"
SESSIONS = "sessions"
SESSION_IDS = "session_ids"
TURNS = "turns"
SESSION_MEMORIES = "session_memories"
TENANTS = "tenants"
PRODUCERS = "producers"
ENTITIES = "entities"
PARTITIONS = "partitions"
TEXTS = "texts"
BLOCKS = "blocks"
USAGE = "usage"
FLAGS = "flags"
SETTLED = "settled"
PASSES = "passes"
SLEEPS = "sleeps"
REGIONS = "regions"
REGION = "region"
REGION_TARGETS = "region_targets"
REGION_SESSIONS = "region_sessions"
REGION_PASSES = "region_passes"
REGION_DEAD = "region_dead"
RESOLVABLES = "resolvables"
PROPOSALS = "proposals"
PROPOSALS_BY = "proposals_by"
PROPOSALS_OF = "proposals_of"
HAPPENINGS = "happenings"
REVISIONS = "revisions"
FACTS_ADDED = "facts_added"
COHORTS = "cohorts"
COHORTS_BY = "cohorts_by"
COHORT_MEMBERS = "cohort_members"
IN_COHORTS = "in_cohorts"
QUOTES = "quotes"
NAMING = "naming"
KEYED_MEMORIES = "keyed_memories"
KEYED_SESSIONS = "keyed_sessions"
HELD = "held"
PURGES = "purges"
META = "meta"

PROJECTIONS: dict[str, tuple[str, ...]] = {
    "memories": (PARTITIONS, MEMORIES, ROWS, REMOVED_ROWS, LATE, TOUCHES, HELD),
    "edges": (EDGES_OUT, EDGES_IN, LINES, EXTERNALS),
    "idempotency": (IDEMPOTENCY, KEYED_MEMORIES, KEYED_SESSIONS),
    "sessions": (SESSIONS, SESSION_IDS, TURNS, SESSION_MEMORIES, SETTLED, PASSES, SLEEPS),
    "provenance": (REGIONS, REGION, REGION_TARGETS, REGION_SESSIONS, REGION_PASSES, REGION_DEAD, RESOLVABLES),
    "names": (TENANTS, PRODUCERS, ENTITIES, NAMING),
    "texts": (TEXTS, QUOTES),
    "blocks": (BLOCKS,),
    "usage": (USAGE,),
    "flags": (FLAGS,),
    "proposals": (PROPOSALS, PROPOSALS_BY, PROPOSALS_OF),
    "chain": (HAPPENINGS, REVISIONS, FACTS_ADDED, PURGES),
    "cohorts": (COHORTS, COHORTS_BY, COHORT_MEMBERS, IN_COHORTS),
}

VERSIONS: dict[str, int] = {
    **dict.fromkeys(PROJECTIONS, 1), "memories": 5, "sessions": 3, "edges": 3, "provenance": 2, "idempotency": 2,
    "names": 2, "texts": 2, "chain": 2,
}  # fmt: skip
"""By projection, the version of its fold. Whoever changes what a fold makes of a record raises that one: it alone is
folded anew when the store is next opened."""

DATABASES: tuple[str, ...] = tuple(db for dbs in PROJECTIONS.values() for db in dbs)
"""Every database that a fold writes."""
