"""The JSON Schema (2020-12) of a verb, from the types that the daemon enforces: for `describe` and `noctuary schema`.

Python's end of a text is `\\Z` in a pattern, for `$` would allow a line break behind it; JSON Schema knows only `$`,
which means the same there. A list of several kinds of structs is `list[Any]` to msgspec, which tells structs apart by a
tag only, and a chain is built in parts: what stands in those is said in `INSIDE`, for the schemas and the reference.
"""

from __future__ import annotations

from typing import Any

import msgspec

from daemon.wire.chain_results import Chain
from daemon.wire.provenance_results import PassTold
from daemon.wire.results import (
    CompactMemory,
    DamagedMemory,
    Memory,
    PurgedMemory,
    RefusedItem,
    RememberResult,
)
from daemon.wire.verbs import VERBS

LISTED = (CompactMemory, PurgedMemory, DamagedMemory)
INSIDE: dict[tuple[str, str], tuple[type, ...]] = {
    ("RememberManyResult", "results"): (RememberResult, RefusedItem),
    ("GetResult", "memories"): (Memory, PurgedMemory, DamagedMemory),
    ("ListResult", "memories"): (CompactMemory, Memory, PurgedMemory, DamagedMemory),
    ("SessionResult", "memories"): LISTED,
    ("SessionResult", "derived"): LISTED,
    ("SessionResult", "passes"): (PassTold,),
    ("Memory", "provenance"): (Chain,),
    ("PurgedMemory", "provenance"): (Chain,),
    ("DamagedMemory", "provenance"): (Chain,),
}
"""What a field holds, or its items, whose type says only "anything"."""


def schemas_of(verb: str) -> dict[str, Any]:
    """`params` and `result` of a verb, each a schema of its own. Raises KeyError for an unknown one."""
    row = VERBS[verb]
    return {"params": _portable(msgspec.json.schema(row.params)), "result": _portable(schema_of(row.result))}


def schema_of(result: type) -> dict[str, Any]:
    """The schema of a result, complete: with the structs that its open fields hold, and those in them."""
    told: dict[str, Any] = msgspec.json.schema(result)
    defs = told["$defs"]
    waiting = list(defs)
    while waiting:
        name = waiting.pop()
        for field, schema in defs[name].get("properties", {}).items():
            types = INSIDE.get((name, field))
            if types is None:
                continue
            options, found = msgspec.json.schema_components(types)
            waiting += [each for each in found if each not in defs]
            defs |= {each: of for each, of in found.items() if each not in defs}
            inner = options[0] if len(options) == 1 else {"anyOf": list(options)}
            schema.update({"items": inner} if schema.get("type") == "array" else inner)
    return told


def _portable(told: Any) -> Any:
    if isinstance(told, list):
        return [_portable(item) for item in told]
    if not isinstance(told, dict):
        return told
    return {
        name: item.replace("\\Z", "$") if name == "pattern" and isinstance(item, str) else _portable(item)
        for name, item in told.items()
    }
