"""Every limit that a caller can run into, once, under one name.

`hello` tells them to the caller; the wire types enforce them while decoding. Lengths are in characters
unless the name says bytes.
"""

from __future__ import annotations

from typing import Final

LINE_BYTES: Final = 8 * 1024 * 1024
TEXT_BYTES: Final = 1024 * 1024
METADATA_BYTES: Final = 4096
METADATA_DEPTH: Final = 64
IDEMPOTENCY_KEY_BYTES: Final = 128
CORRELATION: Final = 64
REQUEST_ID: Final = 128
TENANT_NAME: Final = 64
TENANTS: Final = 64
TOPIC: Final = 256
TAG: Final = 64
TAGS: Final = 32
ENTITIES: Final = 16
REFERENCES: Final = 64
RELAY_REFERENCES: Final = 1024
KEY: Final = 256
NAME: Final = 256
"""Subject, source entity, entity, project, speaker, agent, producer field, model of a vector."""
ENTITY_TYPE: Final = 64
REASON_AND_NOTE: Final = 2000
EXTERNAL_ID: Final = 2000
FACTS: Final = 16
FACT_VALUE: Final = 2000
VECTOR_VALUES: Final = 4096
REFERENCE: Final = 128
CURSOR: Final = 1024
IDS_PER_GET: Final = 20
IDS_PER_GET_WITH_PROVENANCE: Final = 5
IDS_PER_SELECTION: Final = 1000
BATCH: Final = 1000
PIPELINED: Final = 1024
PIPELINED_BYTES: Final = 2 * LINE_BYTES
"""Of one connection's requests in flight; from there on the daemon stops reading, as at `PIPELINED`."""
IN_FLIGHT_BYTES: Final = 256 * 1024 * 1024
"""Of all connections' requests in flight; from there on a request is answered `overloaded`."""
HELD_BYTES: Final = 512 * 1024 * 1024
"""Of half lines and answers not taken, over all connections; from there on those who hold the most are dropped."""
CONNECTIONS: Final = 4096
"""At most; fewer where the process may open fewer files."""
LIST_DEFAULT: Final = 100
LIST_MAX: Final = 1000
TRACE_DEPTH_DEFAULT: Final = 20
TRACE_DEPTH_MAX: Final = 1000
AUDIT_HEADS: Final = 64
PATH: Final = 4096
"""Of a path that an operator names."""
SUBSCRIPTIONS: Final = 8
"""Of one connection, at a time."""
MARK_EVERY_MS: Final = 15_000
"""How often a subscriber without records hears that its connection lives."""
COMPACT_TEXT: Final = 200
CHAIN_VERSIONS: Final = 25
"""Of a provenance chain, the memory itself among them."""
CHAIN_EDGES: Final = 50
CHAIN_EVENTS: Final = 50
CHAIN_PROPOSALS: Final = 25
CHAIN_FACTS: Final = 25
CHAIN_BYTES: Final = 160 * 1024
"""Of a chain as JSON. Only topics and projects can make it longer: rows of versions beyond it are left out."""
MEMORIES_PER_ACTION: Final = 20_000
"""Of a selection that is acted on: it is one command, and other writes wait for it."""
OPEN_PROPOSALS: Final = 256
"""That may wait about one memory, at either end: each of them is looked at before one more is staged."""
FACTS_ACCEPTED: Final = 256
"""Of one memory, beside those it was written with: `get` tells them all, and an answer is a line."""
DOWNSTREAM_TOLD: Final = 1000
"""Ids that a dry run tells, of each kind; what it counts is complete."""
IMPORTANCE_MIN: Final = 0.05
IMPORTANCE_MAX: Final = 10.0


def told_limits() -> dict[str, int]:
    """The limits as `hello` tells them."""
    return {
        "line_bytes": LINE_BYTES,
        "text_bytes": TEXT_BYTES,
        "metadata_bytes": METADATA_BYTES,
        "metadata_depth": METADATA_DEPTH,
        "idempotency_key_bytes": IDEMPOTENCY_KEY_BYTES,
        "correlation": CORRELATION,
        "topic": TOPIC,
        "tag": TAG,
        "tags": TAGS,
        "entities": ENTITIES,
        "references": REFERENCES,
        "key": KEY,
        "reason": REASON_AND_NOTE,
        "note": REASON_AND_NOTE,
        "subject": NAME,
        "source_entity": NAME,
        "facts": FACTS,
        "ids_per_get": IDS_PER_GET,
        "ids_per_get_with_provenance": IDS_PER_GET_WITH_PROVENANCE,
        "batch": BATCH,
        "pipelined": PIPELINED,
        "pipelined_bytes": PIPELINED_BYTES,
        "connections": CONNECTIONS,
        "subscriptions": SUBSCRIPTIONS,
        "memories_per_action": MEMORIES_PER_ACTION,
        "open_proposals": OPEN_PROPOSALS,
        "facts_accepted": FACTS_ACCEPTED,
        "limit": LIST_MAX,
        "limit_default": LIST_DEFAULT,
        "depth": TRACE_DEPTH_MAX,
    }
