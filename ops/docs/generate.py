"""Writes the generated sections of `ops/docs/formats.md`; with `--check` only compares.

Invariant: the text depends on the code alone, never on clock, machine or order of a set.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import get_args

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

import msgspec  # noqa: E402

from journal import events  # noqa: E402
from journal.record import Actor, Cause, Record, encode_body, encode_value  # noqa: E402
from projections import rows, tables  # noqa: E402

PAGE = REPOSITORY / "ops" / "docs" / "formats.md"
EXAMPLE_STORE_ID = bytes(range(16))
EXAMPLE_AT_MS = 1_767_225_600_000


def type_name(kind: object) -> str:
    """A type as the tables show it."""
    text = kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
    return re.sub(r"journal\.events\.(\w+\.)?", "", text).replace("|", "\\|")


def field_row(field: msgspec.structs.FieldInfo) -> str:
    """One row of a field table."""
    default = "required" if field.required else f"`{field.default!r}`"
    return f"| {field.encode_name} | {type_name(field.type)} | {default} |"


def struct_table(struct: type, title: str) -> str:
    """Heading, first line of the docstring and fields of one struct, in stored order."""
    lines = [f"### {title}", ""]
    if struct.__doc__ and struct.__dict__.get("__doc__"):
        lines += [inspect.cleandoc(struct.__doc__), ""]
    lines += ["| field | type | default |", "|---|---|---|"]
    lines += [field_row(field) for field in msgspec.structs.fields(struct)]
    return "\n".join(lines)


def embedded_structs() -> list[type]:
    """The structs that stand inside events, in the order of the file."""
    members = {*get_args(events.AnyEvent), events.Event}
    return [
        value
        for value in vars(events).values()
        if isinstance(value, type) and issubclass(value, msgspec.Struct) and value not in members
    ]


def event_section() -> str:
    """All events by tag, then what stands inside them."""
    by_tag = sorted(get_args(events.AnyEvent), key=lambda event: int(event.__struct_config__.tag))
    tables_of_events = [struct_table(event, f"{event.__struct_config__.tag} {event.__name__}") for event in by_tag]
    return "\n\n".join(
        tables_of_events + [struct_table(struct, f"in events: {struct.__name__}") for struct in embedded_structs()]
    )


def projection_section() -> str:
    """The tables and rows as their modules describe them."""
    return f"{inspect.cleandoc(tables.__doc__ or '')}\n\n{inspect.cleandoc(rows.__doc__ or '')}"


def example_section() -> str:
    """Record 1 of a store with a fixed id, in hex."""
    record = Record(
        seq=1,
        at_ms=EXAMPLE_AT_MS,
        tenant=1,
        actor=Actor(uid=1000, role=0, via=0),
        cause=Cause(first_seq=1, verb="session_open", correlation="example"),
        event=events.TenantBegan(number=1, name="default"),
    )
    body = encode_body(record)
    value, chain = encode_value(EXAMPLE_STORE_ID, body)
    shown = {"store id": EXAMPLE_STORE_ID, "key": (1).to_bytes(8, "big"), "crc": value[:4]}
    shown |= {"chain": chain, "body": body}
    lines = [f"{name:9}{content.hex()}" for name, content in shown.items()]
    return f"`{record!r}`\n\n```\n" + "\n".join(lines) + "\n```"


def generated(page: str) -> str:
    """`page` with every generated section as the code says it now."""
    sections = {"example": example_section, "projections": projection_section, "events": event_section}
    for name, section in sections.items():
        begin = f"<!-- generated: {name} -->\n"
        pattern = re.compile(re.escape(begin) + ".*?(?=<!-- end generated -->)", re.DOTALL)
        if len(pattern.findall(page)) != 1:
            raise SystemExit(f"formats.md needs exactly one section {name}")
        replacement = f"{begin}{section()}\n"
        page = pattern.sub(lambda _match, text=replacement: text, page)  # type: ignore[misc]
    return page


def main(arguments: list[str]) -> int:
    """Exit code: 0 written or current, 1 not current, 2 unknown option."""
    if arguments not in ([], ["--check"]):
        print("usage: generate.py [--check]", file=sys.stderr)
        return 2
    current = PAGE.read_text(encoding="utf-8")
    wanted = generated(current)
    if not arguments:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    if current != wanted:
        print("ops/docs/formats.md is not current: run python ops/docs/generate.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
