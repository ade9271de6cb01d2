"""The forms of strings that a request is made of: not blank, a stamp, an agent, a time.

msgspec could check them as patterns while it decodes, but a regular expression per string costs several
times the whole decode. So each type only carries the name of its form (and the pattern into the schema), and
`fault_in` walks what was decoded. Invariant: a request whose `fault_in` is None is one that the schema allows.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from enum import Enum, unique
from functools import cache, lru_cache
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta

NOT_BLANK_PATTERN = r"\S"
STAMP_PATTERN = r"^(?!(?:latest|unknown|default)$)[A-Za-z0-9._:/@+-]{1,64}$"
AGENT_PATTERN = r"^[A-Za-z0-9._:/@+-]{1,64}$"
TIME_PATTERN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,3})?([Zz]|[+-][0-9]{2}:[0-9]{2})$"

_AGENT = re.compile(r"[A-Za-z0-9._:/@+-]{1,64}")
_TIME = re.compile(TIME_PATTERN.strip("^$"))
_NAMES_NOTHING = frozenset({"latest", "unknown", "default"})


def _is_not_blank(text: str) -> bool:
    return text != "" and not text.isspace()


@lru_cache(maxsize=4096)  # producers repeat with almost every write
def _is_agent(text: str) -> bool:
    return _AGENT.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def _is_stamp(text: str) -> bool:
    return _AGENT.fullmatch(text) is not None and text.lower() not in _NAMES_NOTHING


def _is_time(text: str) -> bool:
    return _TIME.fullmatch(text) is not None


@unique
class Form(Enum):
    """A form: its pattern for the schema, and what is said of a text that doesn't have it."""

    NOT_BLANK = (NOT_BLANK_PATTERN, "the value is blank")
    STAMP = (
        STAMP_PATTERN,
        "the value names a version by 1 to 64 of A-Z a-z 0-9 . _ : / @ + -, and not as latest, unknown or default",
    )
    AGENT = (AGENT_PATTERN, "the value is 1 to 64 of A-Z a-z 0-9 . _ : / @ + -")
    TIME = (TIME_PATTERN, "a time is RFC 3339 with an offset and at most 3 fractional digits")

    @property
    def meta(self) -> Meta:
        """To annotate a string with."""
        return Meta(extra={"form": self}, extra_json_schema={"pattern": self.value[0]})


_HOLDS: dict[Form, Callable[[str], bool]] = {
    Form.NOT_BLANK: _is_not_blank,
    Form.STAMP: _is_stamp,
    Form.AGENT: _is_agent,
    Form.TIME: _is_time,
}
assert set(_HOLDS) == set(Form)


class Fault(NamedTuple):
    """A string without its form: the way to it (`.entities[0].name`), and the form it should have."""

    path: str
    form: Form


Check = Callable[[Any], Fault | None]


def fault_in(params: msgspec.Struct) -> Fault | None:
    """The first string in `params` that doesn't have its form; None when there is none."""
    for name, holds, check in _fields(type(params)):
        value = getattr(params, name)
        if value is UNSET or (holds is not None and type(value) is str and holds(value)):
            continue
        fault = check(value)
        if fault is not None:
            return Fault(f".{name}{fault.path}", fault.form)
    return None


Field = tuple[str, "Callable[[str], bool] | None", Check]


@cache
def _fields(struct: type[msgspec.Struct]) -> tuple[Field, ...]:
    """The fields of a struct in which a form can be missing: name, what a plain string must pass (most are one,
    so it is asked first), and the check of whatever else it may be."""
    hints = get_type_hints(struct, include_extras=True)
    found = ((name, _check_of(hints[name])) for name in struct.__struct_fields__)
    return tuple((name, _string_form(hints[name]), check) for name, check in found if check is not None)


def _string_form(hint: Any) -> Callable[[str], bool] | None:
    """The test of the one string type in a hint, None when it has none with a form."""
    if get_origin(hint) in (Union, types.UnionType):
        tests = [_string_form(part) for part in get_args(hint) if _plain_type(part) is str]
        return tests[0] if len(tests) == 1 else None
    if get_origin(hint) is not Annotated or _plain_type(hint) is not str:
        return None
    forms = [meta.extra["form"] for meta in get_args(hint)[1:] if isinstance(meta, Meta) and meta.extra]
    return _HOLDS[forms[0]] if forms else None


def _check_of(hint: Any, form: Form | None = None) -> Check | None:
    """The check of a value of this type; None when there is nothing to check."""
    origin = get_origin(hint)
    if origin is Annotated:
        inner, *metas = get_args(hint)
        for meta in metas:
            if isinstance(meta, Meta) and meta.extra is not None and "form" in meta.extra:
                form = meta.extra["form"]
        return _check_of(inner, form)
    if origin in (Union, types.UnionType):
        return _any_of([_check_of(part) for part in get_args(hint)], get_args(hint))
    if origin is list:
        return _each(_check_of(get_args(hint)[0]))
    if hint is str and form is not None:
        return _text(form)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return fault_in if _fields(hint) else None
    return None


def _text(form: Form) -> Check:
    holds = _HOLDS[form]
    fault = Fault("", form)
    return lambda text: None if holds(text) else fault


def _each(check: Check | None) -> Check | None:
    if check is None:
        return None

    def check_each(items: Any) -> Fault | None:
        for place, item in enumerate(items):
            fault = check(item)
            if fault is not None:
                return Fault(f"[{place}]{fault.path}", fault.form)
        return None

    return check_each


def _any_of(checks: list[Check | None], parts: tuple[Any, ...]) -> Check | None:
    """The alternatives of a union are told apart by the type of the value."""
    by_type = {_plain_type(part): check for part, check in zip(parts, checks, strict=True) if check is not None}
    if not by_type:
        return None

    def check_any(value: Any) -> Fault | None:
        check = by_type.get(type(value))
        return None if check is None else check(value)

    return check_any


def _plain_type(hint: Any) -> Any:
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return get_origin(hint) or hint
