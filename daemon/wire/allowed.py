"""Which words may stand at a place of a request: those of the type that is decoded there.

Method: the path of the fault is walked through the type of the parameters. Where a value may be of several types, the
words of all of them are told, in their order.
"""

from __future__ import annotations

import re
import types
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

TENANT_WORDS = "1 to 64 of a-z 0-9 . _ -"
FORM_WORDS = {
    "tenant": TENANT_WORDS,
    "tenants": TENANT_WORDS,
    "imported.format": TENANT_WORDS,
    "correlation": "1 to 64 of A-Z a-z 0-9 . _ : / @ + -",
    "store": "32 hexadecimal digits, in lower case",
    "chain": "32 to 64 hexadecimal digits, in lower case, an even number of them",
}
"""The forms of what is decoded by a pattern, by the parameter or the last of its names."""
_STEP = re.compile(r"\.([^.\[]+)|\[[^\]]*\]")


def words_at(struct: type[msgspec.Struct], path: str) -> tuple[str, ...]:
    """The words that are allowed at `.what[0]` of a struct; none where anything may stand, or nothing can."""
    found: list[Any] = [struct]
    for step in _STEP.finditer(path):
        name = step[1]
        found = [inner for kind in found for inner in (_items(kind) if name is None else _field(kind, name))]
    words = [word for kind in found if get_origin(kind) is Literal for word in get_args(kind)]
    return tuple(dict.fromkeys(words))


def _field(kind: Any, name: str) -> list[Any]:
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return []
    return [each for field, hint in _hints(kind).items() if field == name for each in _alternatives(hint)]


@cache
def _hints(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The types of its fields, by their names on the wire."""
    hints = get_type_hints(struct, include_extras=True)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(struct)}


def _items(kind: Any) -> list[Any]:
    return _alternatives(get_args(kind)[0]) if get_origin(kind) is list else []


def _alternatives(hint: Any) -> list[Any]:
    origin = get_origin(hint)
    if origin is Annotated:
        return _alternatives(get_args(hint)[0])
    if origin in (Union, types.UnionType):
        return [each for part in get_args(hint) for each in _alternatives(part)]
    return [hint]
