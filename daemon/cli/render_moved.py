"""What came of moving things in and out: files imported, stores exported, imported and restored."""

from __future__ import annotations

from typing import Any

from daemon.cli.complaining import sentence
from daemon.cli.render_text import counted, named, plain, wrap


def imported(result: dict[str, Any]) -> list[str]:
    """`import` of turns: how many, then what was not written and why."""
    counts = [counted(result["recognised"], "item"), f"{result['written']} written"]
    counts += [f"{result['duplicates']} there already"] if result["duplicates"] else []
    lines = wrap(", ".join(counts))
    for row in result["refused"]:
        data = {name: value for name, value in row.items() if name not in ("where", "message")}
        lines += wrap(f"{plain(row['where'])} refused: {sentence(str(row['message']), data)}")
    for row in result["dangling"]:
        lines += wrap(f"{plain(row['where'])} cites {plain(row['ref'])}, which is not in the file")
    return lines + [line for each in result["skipped"] for line in wrap(f"skipped: {plain(each)}")]


def exported(result: dict[str, Any]) -> list[str]:
    whose = f" of tenant {plain(result['tenant'])}" if result.get("tenant") else ""
    told = f"{counted(result['records'], 'record')}{whose} at level {plain(result['level'])}"
    return wrap(f"{told} in {plain(result['file'])}")


def made(result: dict[str, Any]) -> list[str]:
    """`import` of frames: the new store, and which one it came from."""
    source = result["source"]
    return named(
        [
            ("made", f"store {plain(result['store'])} of {counted(result['records'], 'record')}"),
            ("in", plain(result["state"])),
            ("from", f"store {plain(source['store'])}, epoch {source['epoch']}, record {source['seq']}"),
        ]
    )


def restored(result: dict[str, Any]) -> list[str]:
    """Which store now stands where, and what was purged in it again."""
    source, purges = result["from"], result["purges"]
    told = [f"{purges['applied']} carried out again", f"{purges['already']} known here already"]
    told += [f"{purges['not_found']} of what isn't here"]
    return named(
        [
            ("restored", f"store {plain(result['store'])}"),
            ("in", plain(result["state"])),
            ("from", f"epoch {source['epoch']}, record {source['seq']}, backed up {plain(source['at'])}"),
            ("now at", f"epoch {result['epoch']}, record {result['seq']}"),
            ("purges", ", ".join(told)),
        ]
    )
