"""The JSON Schema (2020-12) of a verb, from the types that the daemon enforces: for `describe` and `noctuary schema`.

Python's end of a text is `\\Z` in a pattern, for `$` would allow a line break behind it; JSON Schema knows only `$`,
which means the same there.
"""

from __future__ import annotations

from typing import Any

import msgspec

from daemon.wire.verbs import VERBS


def schemas_of(verb: str) -> dict[str, Any]:
    """`params` and `result` of a verb, each a schema of its own. Raises KeyError for an unknown one."""
    row = VERBS[verb]
    return {"params": _portable(msgspec.json.schema(row.params)), "result": _portable(msgspec.json.schema(row.result))}


def _portable(told: Any) -> Any:
    if isinstance(told, list):
        return [_portable(item) for item in told]
    if not isinstance(told, dict):
        return told
    return {
        name: item.replace("\\Z", "$") if name == "pattern" and isinstance(item, str) else _portable(item)
        for name, item in told.items()
    }
