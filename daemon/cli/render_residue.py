"""What was found of a text in the state directory."""

from __future__ import annotations

from typing import Any, Final

from daemon.cli.render_text import counted, plain, table, wrap

TOLD: Final = 50
"""Rows of each kind; `--json` has all."""


def residue(result: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    if found := result["bytes"]:
        lines += wrap("in the clear:")
        lines += table(("FILE", "BYTE"), [[plain(row["file"]), str(row["offset"])] for row in found[:TOLD]])
        lines += _more(found)
    if readable := result["readable"]:
        rows = [
            [str(row["seq"]), plain(row["part"]), _whose(row), plain(row["status"] or "-")] for row in readable[:TOLD]
        ]
        lines += [*([""] if lines else []), *wrap("behind a key that is there:")]
        lines += [*table(("RECORD", "PART", "WHOSE", "STATUS"), rows), *_more(readable)]
    if result.get("cut"):
        lines += wrap("there is more than is told here")
    told = f"{len(found)} times in the clear, {len(readable)} behind a key" if lines else "nothing found"
    tried = f"{counted(result['ciphertexts_tried'], 'ciphertext')} tried, {result['unopenable']} of them no key opens"
    return [*lines, *wrap(f"{told}: {counted(result['files'], 'file')} read, {tried}")]


def _whose(row: dict[str, Any]) -> str:
    """The memory, else what kind of record it is of: a session, an entity."""
    return plain(row["memory"] or row.get("type") or "-")


def _more(found: list[Any]) -> list[str]:
    return wrap(f"and {len(found) - TOLD} more; --json has all") if len(found) > TOLD else []
