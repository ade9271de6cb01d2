"""The erasure registry: whatever holds content, or something made from it, says here what a purge does to it.

One row for every database, every name and column of the working set, every kind of sealed part, every path of the
state directory, every map that an LRU cache keeps. A row says what is held, its fate, and who sees to it, as
`module:function`. `tests/projections/test_erasing.py` fails for what has no row, for a row of what is there no more,
for a function that doesn't exist; and plants a text in every field to see that what is to go does go.

| fate | |
|---|---|
| `FREE` | nothing a caller wrote freely, nor made from it: what ERASURE §2 says is retained, and says so |
| `SHREDDED` | ciphertext: its key is overwritten; the bytes go later, with a vacuum |
| `MARKED` | stays, without content, and says that its memory is purged |
| `EVICTED` | in memory only; what was made from the content is taken out before the purge is answered |
| `KEPT` | made from content on purpose, and told in the receipt |
"""

from __future__ import annotations

from enum import Enum, unique
from typing import Final, NamedTuple

from journal.codes import Part
from projections import tables


@unique
class Fate(Enum):
    FREE = "free"
    SHREDDED = "shredded"
    MARKED = "marked"
    EVICTED = "evicted"
    KEPT = "kept"


class Erasure(NamedTuple):
    """`by` is empty only for what is `FREE`."""

    fate: Fate
    holds: str
    by: str = ""


_MARKED_ROW = "projections.memories:purged"
_SHRED = "journal.vault:Vault.shred"
_LET_GO = "projections.workingset:WorkingSet._let_go"
_REGION = "projections.provenance:purged"


def _free(holds: str) -> Erasure:
    return Erasure(Fate.FREE, holds)


DATABASES: Final[dict[str, Erasure]] = {
    tables.MEMORIES: Erasure(Fate.MARKED, "numbers, marks, times, places of parts", _MARKED_ROW),
    tables.ROWS: Erasure(Fate.MARKED, "header rows: the fields that are retained", _MARKED_ROW),
    tables.REMOVED_ROWS: Erasure(Fate.MARKED, "header rows that a vacuum took away", _MARKED_ROW),
    tables.LATE: _free("ids of what was purged after a vacuum had taken its row"),
    tables.PARTITIONS: _free("counts, states, days"),
    tables.TOUCHES: _free("numbers of records"),
    tables.HELD: _free("ids; what is held can't be purged"),
    tables.EDGES_OUT: _free("ids and types of edges"),
    tables.EDGES_IN: _free("ids and types of edges"),
    tables.LINES: _free("ids of versions"),
    tables.EXTERNALS: _free("numbers of records; the sources themselves are sealed"),
    tables.IDEMPOTENCY: _free("keyed hashes of idempotency keys, which are retained"),
    tables.KEYED_MEMORIES: _free("ids and numbers of records"),
    tables.KEYED_SESSIONS: _free("numbers"),
    tables.SESSIONS: _free("numbers, times, the agent's record; keys and defaults are sealed"),
    tables.SESSION_IDS: _free("ids"),
    tables.TURNS: _free("ids and numbers of turns"),
    tables.SESSION_MEMORIES: _free("ids"),
    tables.SETTLED: _free("numbers of turns and records"),
    tables.PASSES: _free("numbers, times, counts"),
    tables.SLEEPS: _free("numbers, times, counts"),
    tables.REGIONS: _free("counts"),
    tables.REGION: Erasure(Fate.MARKED, "provenance rows: ids, numbers, flags", _REGION),
    tables.REGION_TARGETS: _free("ids and places of rows"),
    tables.REGION_SESSIONS: _free("numbers and places of rows"),
    tables.REGION_PASSES: _free("numbers"),
    tables.REGION_DEAD: Erasure(Fate.MARKED, "what a row's flags were", _REGION),
    tables.RESOLVABLES: _free("whether an external source can be followed"),
    tables.TENANTS: _free("names of tenants, which are public"),
    tables.PRODUCERS: _free("stamps, which are public"),
    tables.ENTITIES: _free("numbers of records; names are sealed"),
    tables.NAMING: _free("ids"),
    tables.TEXTS: _free("ids: who shares a text"),
    tables.QUOTES: _free("ids: who has the words of a turn"),
    tables.FLAGS: _free("ids and numbers of records"),
    tables.PROPOSALS: _free("ids, codes, times; facts and notes are sealed"),
    tables.PROPOSALS_BY: _free("ids and codes"),
    tables.PROPOSALS_OF: _free("ids and codes"),
    tables.HAPPENINGS: _free("ids, codes, numbers of records"),
    tables.REVISIONS: _free("ids and types of edges"),
    tables.FACTS_ADDED: _free("ids and numbers of records"),
    tables.PURGES: _free("numbers of records"),
    tables.COHORTS: _free("counts, codes, times; selections are sealed"),
    tables.COHORTS_BY: _free("ids"),
    tables.COHORT_MEMBERS: _free("ids and importance, which is retained"),
    tables.IN_COHORTS: _free("ids and codes"),
    tables.BLOCKS: _free("numbers of blocks, bounds of times"),
    tables.USAGE: _free("counts"),
    tables.META: _free("the place that was folded up to, versions, counters"),
}

WORKING_SET: Final[dict[str, Erasure]] = {
    "columns": Erasure(Fate.EVICTED, "header rows and Blooms of tags", "projections.workingset:WorkingSet.evict"),
    "blooms": Erasure(Fate.EVICTED, "Blooms until they are in the columns", "projections.workingset:WorkingSet.folded"),
    "tenant_numbers": _free("names of tenants, which are public"),
    "tenants": _free("names of tenants, which are public"),
    "producers": _free("stamps, which are public"),
    "sessions": Erasure(Fate.EVICTED, "keyed hashes of session keys", _LET_GO),
    "session_agents": _free("agents, which are public"),
    "entities": Erasure(Fate.EVICTED, "keyed hashes of names", _LET_GO),
    "unreadable": _free("agents, which are public"),
    "session_defaults": Erasure(Fate.EVICTED, "project and subject of a session, in the clear", _LET_GO),
    "live": _free("agents and numbers of sessions"),
    "texts": Erasure(Fate.EVICTED, "keyed hashes of texts", _LET_GO),
    "partitions": _free("numbers"),
    "open_partitions": _free("numbers and days"),
    "blocked": Erasure(
        Fate.KEPT, "fingerprints of what may not come again, when asked for", "journal.purges:directive"
    ),
    "hash_key": _free("the key of the vault for keyed hashes"),
    "gone": Erasure(
        Fate.EVICTED, "of a batch: what its purge takes out", "projections.workingset:WorkingSet.take_over"
    ),
    "_kept": Erasure(Fate.EVICTED, "batches for names that are warmed anew", "projections.workingset:WorkingSet.teach"),
}
"""By field of a `WorkingSet`."""

COLUMNS: Final[dict[str, Erasure]] = {
    "rows": Erasure(Fate.MARKED, "the fields that are retained", "projections.header_columns:_segment"),
    "blooms": Erasure(Fate.EVICTED, "64 bits made from the tags: zeroed", "projections.header_columns:_segment"),
    "known": _free("whether the tags were read"),
}
"""By column of a `Segment`; `header_columns.EVICTIONS` has a check for each."""

PARTS: Final[dict[Part, Erasure]] = {
    Part.TEXT: Erasure(Fate.SHREDDED, "the text; with the last that shares it", _SHRED),
    Part.PARTICULARS: Erasure(Fate.SHREDDED, "tags, topic, metadata, facts and whatever else was given", _SHRED),
    Part.VECTOR: Erasure(Fate.SHREDDED, "made from the text", _SHRED),
    Part.WORDS: Erasure(Fate.SHREDDED, "notes, reasons, what a change says", _SHRED),
    Part.NAME: Erasure(Fate.SHREDDED, "a session's key, an entity's name; with the last that has it", _SHRED),
    Part.REQUEST: Erasure(Fate.SHREDDED, "a digest of what was asked under a key", _SHRED),
    Part.MEAN: Erasure(Fate.SHREDDED, "made from vectors; when the next one is set", _SHRED),
}

FILES: Final[dict[str, Erasure]] = {
    "FORMAT": _free("the version and the store's id"),
    "lock": _free("nothing"),
    "journal": Erasure(Fate.SHREDDED, "records and ciphertexts, free pages too", _SHRED),
    "vault": Erasure(Fate.SHREDDED, "keys, in slots that are overwritten", _SHRED),
    "vault.old.new": Erasure(Fate.SHREDDED, "keys under a master key before", "journal.creating:remove_leftovers"),
    "projections": Erasure(Fate.MARKED, "the databases above", "projections.store:ProjectionStore.commit"),
    "projections.copy": Erasure(Fate.MARKED, "the same as of earlier", "projections.store:ProjectionStore.catch_up"),
    "head": _free("the place and chain of the newest record"),
    "purges": Erasure(
        Fate.KEPT, "ids, digests of ciphertexts; fingerprints when asked for", "journal.purges:directive"
    ),
    "reserve": _free("zeros"),
    "unfinished": _free("nothing: it says that a making was not done"),
}
"""By name in a state directory. What ends in `.new` is one of these in the making, or a fold of an audit."""

CACHES: Final[dict[str, Erasure]] = {
    "daemon.erasure_words:file_system": _free("what file system a path is on"),
    "daemon.cli.render_text:_columns_of": _free("single characters, in the process of a command"),
    "daemon.prepare:_read_time": _free("times, which are retained"),
    "daemon.wire.forms:_is_agent": _free("names of agents, which are public"),
    "daemon.wire.forms:_is_stamp": _free("stamps, which are public"),
    "journal.sealing:_keyed": _free("keys of hashes, which are kept anyway"),
    "journal.times:_format_second": _free("times"),
    "journal.times:format_day": _free("days"),
}
"""By function whose arguments or results an LRU cache keeps. What `functools.cache` keeps is made from code only."""
