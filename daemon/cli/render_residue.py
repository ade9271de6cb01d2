"""What was found of a text in the state directory."""

from __future__ import annotations

from typing import Any

from daemon.cli.render_text import counted, plain, table, wrap


def residue(result: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    if found := result["bytes"]:
        lines += table(("FILE", "BYTE"), [[plain(row["file"]), str(row["offset"])] for row in found])
    if readable := result["readable"]:
        rows = [
            [str(row["seq"]), plain(row["part"]), plain(row["memory"] or "-"), plain(row["status"] or "-")]
            for row in readable
        ]
        lines += [*([""] if lines else []), *table(("RECORD", "PART", "MEMORY", "STATUS"), rows)]
    if result.get("cut"):
        lines += wrap("there is more than is told here")
    told = "found in the clear, or behind a key that is there" if lines else "nothing found"
    tried = f"{counted(result['ciphertexts_tried'], 'ciphertext')} tried, {result['unopenable']} of them no key opens"
    return [*lines, *wrap(f"{told}: {counted(result['files'], 'file')} read, {tried}")]
