"""An instance of a type with every field set, made from what the type itself says of its fields.

Numbers come from a few series in turn, so that every width of msgpack occurs. The same type always gives
the same instance.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, cast, get_args

from msgspec import inspect

from journal.events import AnyEvent

_WIDTHS = (1, 200, 40_000, 3_000_000_000, 1 << 63, -1, -200, -40_000, -3_000_000_000)


def event_types() -> list[type]:
    """Every event type, by tag."""
    return sorted(get_args(AnyEvent), key=tag_of)


def tag_of(event_type: type) -> int:
    """The number that says in a record which event it is."""
    return cast("int", cast("Any", event_type).__struct_config__.tag)


def filled(event_type: type) -> Any:
    """An instance whose optional fields are set too."""
    return _struct(event_type, count(tag_of(event_type)))


def _struct(struct_type: type, numbers: Iterator[int]) -> Any:
    described = inspect.type_info(struct_type)
    assert isinstance(described, inspect.StructType)
    return struct_type(**{field.name: _given(field, numbers) for field in described.fields})


def _given(field: inspect.Field, numbers: Iterator[int]) -> Any:
    """A value that isn't the default."""
    value = _value(field.type, numbers)
    return not value if field.default is value else value


def _value(described: inspect.Type, numbers: Iterator[int]) -> Any:
    number = next(numbers)
    match described:
        case inspect.BoolType():
            return True
        case inspect.IntType():
            width = _WIDTHS[number % len(_WIDTHS)]
            return width + number if width > 0 else width - number
        case inspect.FloatType():
            return number / 7
        case inspect.StrType():
            return f"text {number}"
        case inspect.BytesType():
            return number.to_bytes(4, "big") * (1 + number % 20)
        case inspect.UnionType():
            wanted = next(each for each in described.types if not isinstance(each, inspect.NoneType))
            return _value(wanted, numbers)
        case inspect.VarTupleType():
            return tuple(_value(described.item_type, numbers) for _ in range(1 + number % 3))
        case inspect.TupleType():
            return tuple(_value(item_type, numbers) for item_type in described.item_types)
        case inspect.DictType():
            return {f"key {each}": _value(described.value_type, numbers) for each in range(2)}
        case inspect.StructType():
            return _struct(described.cls, numbers)
        case _:
            raise TypeError(f"no value is known for {described}")
