"""Writes the generated sections of `formats.md` and `reference.md`, and the words of `--help`; with `--check` only
compares.

Invariant: the text depends on the code alone, never on clock, machine or order of a set.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

import msgspec  # noqa: E402

from journal import codes, events, log, particulars  # noqa: E402
from journal.frames import bare_frame, encode_frame  # noqa: E402
from journal.record import Actor, Cause, Record, encode_body, encode_value  # noqa: E402
from ops.docs import command_words, reference_sections, schema_tables  # noqa: E402
from projections import rows, tables  # noqa: E402

DOCS = REPOSITORY / "ops" / "docs"
EXAMPLE_STORE_ID = bytes(range(16))
EXAMPLE_AT_MS = 1_767_225_600_000


def type_name(kind: object) -> str:
    """A type as the tables show it."""
    text = kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
    return re.sub(r"journal\.(events\.(\w+\.)?|particulars\.)", "", text).replace("|", "\\|")


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


def example_record() -> Record:
    return Record(
        seq=1,
        at_ms=EXAMPLE_AT_MS,
        tenant=1,
        actor=Actor(uid=1000, role=0, via=0),
        cause=Cause(first_seq=1, verb="session_open", correlation="example"),
        event=events.TenantBegan(number=1, name="default"),
    )


def frame_section() -> str:
    """The frame of the worked example; in an export it is one line."""
    record = example_record()
    body = encode_body(record)
    chain = encode_value(EXAMPLE_STORE_ID, body)[1]
    frame = bare_frame(EXAMPLE_STORE_ID.hex(), 1, "default", record, body, EXAMPLE_STORE_ID, chain)
    return f"```json\n{msgspec.json.format(encode_frame(frame), indent=1).decode()}\n```"


def example_section() -> str:
    """Record 1 of a store with a fixed id, in hex."""
    record = example_record()
    body = encode_body(record)
    value, chain = encode_value(EXAMPLE_STORE_ID, body)
    shown = {"store id": EXAMPLE_STORE_ID, "key": (1).to_bytes(8, "big"), "crc": value[:4]}
    shown |= {"chain": chain, "body": body}
    lines = [f"{name:9}{content.hex()}" for name, content in shown.items()]
    return f"`{record!r}`\n\n```\n" + "\n".join(lines) + "\n```"


def codes_section() -> str:
    """Every closed set with its numbers, in the order of its module, then the subtypes."""
    lines = ["| set | codes |", "|---|---|"]
    for value in vars(codes).values():
        if isinstance(value, type) and issubclass(value, codes.Code) and len(value):
            members = ", ".join(f"{member.value} {member.wire}" for member in value)
            lines.append(f"| {value.__name__} | {members} |")
    for kind, names in codes.SUBTYPES.items():
        subtypes = ", ".join(f"{place} {name}" for place, name in enumerate(names, 1))
        lines.append(f"| subtypes of {kind.wire} | {', '.join(filter(None, ['0 none', subtypes]))} |")
    return "\n".join(lines)


def parts_section() -> str:
    """The plaintexts of sealed parts: the table of their module, and the arrays in it."""
    arrays = [struct_table(struct, struct.__name__) for struct in (particulars.Particulars, particulars.Vector)]
    return "\n\n".join([inspect.cleandoc(particulars.__doc__ or ""), *arrays])


def meta_section() -> str:
    """The arrays in the rows `state` and `source` of `meta`."""
    return "\n\n".join(struct_table(struct, struct.__name__) for struct in (log.MetaState, log.Source))


SECTIONS: dict[str, Callable[[], str]] = {
    "example": example_section,
    "frame": frame_section,
    "parts": parts_section,
    "meta": meta_section,
    "codes": codes_section,
    "projections": projection_section,
    "events": event_section,
    "results": schema_tables.compact_results,
}
PAGES: dict[str, Mapping[str, Callable[[], str]]] = {
    "formats.md": SECTIONS,
    "reference.md": reference_sections.SECTIONS,
}


def generated(name: str, page: str) -> str:
    """`page` with every generated section as the code says it now. Raises SystemExit for a missing or unknown one."""
    sections = PAGES[name]
    there = re.findall(r"<!-- generated: (.+?) -->\n", page)
    if sorted(there) != sorted(sections):
        raise SystemExit(f"{name} needs exactly one of each section: {', '.join(sections)}")
    for section, content in sections.items():
        begin = f"<!-- generated: {section} -->\n"
        pattern = re.compile(re.escape(begin) + ".*?(?=<!-- end generated -->)", re.DOTALL)
        replacement = f"{begin}{content()}\n".replace("\\", r"\\")
        page = pattern.sub(replacement, page)
    return page


def main(arguments: list[str]) -> int:
    """Exit code: 0 written or current, 1 not current, 2 unknown option."""
    if arguments not in ([], ["--check"]):
        print("usage: generate.py [--check]", file=sys.stderr)
        return 2
    stale = 0
    for path, wanted in whole_files().items():
        if path.exists() and path.read_text(encoding="utf-8") == wanted:
            continue
        if not arguments:
            path.write_text(wanted, encoding="utf-8")
            continue
        print(f"{path.relative_to(REPOSITORY)} is not current: run python ops/docs/generate.py", file=sys.stderr)
        stale = 1
    return stale


def whole_files() -> dict[Path, str]:
    """Every file that is written here, as it should be."""
    pages = {DOCS / name: generated(name, (DOCS / name).read_text(encoding="utf-8")) for name in PAGES}
    return {**pages, REPOSITORY / command_words.MODULE: command_words.written()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
