"""A receipt as one page of HTML for the person who asked: no content, no script, nothing that leads or loads elsewhere.

Every word of the answer is escaped. It is told in the times of UTC, because the page travels.
"""

from __future__ import annotations

from html import escape
from typing import Any

STYLE = (
    "body{font:16px/1.5 serif;max-width:44em;margin:2em auto;padding:0 1em}table{border-collapse:collapse;width:100%}"
    "td,th{border-bottom:1px solid #ccc;padding:.3em .6em;text-align:left;vertical-align:top}code{font-size:.9em}"
)
_COLUMNS = (
    ("memory", "Memory"), ("purged_at", "Erased at"), ("keys_shredded", "Keys destroyed"),
    ("payload_bytes", "Bytes made unreadable"), ("text_retained_shared", "Text bytes kept by other memories"),
)  # fmt: skip


def page(receipt: dict[str, Any]) -> str:
    """The whole document. `receipt` has all its results."""
    address = f"{receipt['receipt']['epoch']}/{receipt['receipt']['seq']}"
    totals, results = receipt["totals"], receipt["results"]
    facts = [
        ("Receipt", address), ("Erased at", receipt["at"]), ("Kept for", receipt["tenant"]),
        ("Reason", receipt["reason"]), ("Memories erased", receipt["count"]),
        ("Keys destroyed", totals["keys_shredded"]), ("Bytes made unreadable", totals["payload_bytes"]),
        ("Text bytes that other memories still have", totals["text_retained_shared"]),
        ("Sessions whose name was erased", len(receipt["sessions"])),
    ]  # fmt: skip
    first = results[0] if results else {}
    lists = [
        ("Kept of each memory's row", first.get("retained_header_fields", ())),
        ("Kept of each memory in the journal", first.get("retained_journal_fields", ())),
        ("Copies that this does not reach", first.get("unreachable_copies", ())),
    ]
    return "\n".join(
        [
            "<!DOCTYPE html>", '<html lang="en"><head><meta charset="utf-8">',
            f"<title>Receipt of erasure {_told(address)}</title><style>{STYLE}</style></head><body>",
            "<h1>Receipt of an erasure</h1>", "<table>",
            *(f"<tr><th>{_told(name)}</th><td>{_told(value)}</td></tr>" for name, value in facts), "</table>",
            f"<p>{_told(receipt['disclosure'])}</p>",
            *(f"<h2>{_told(name)}</h2><p>{', '.join(f'<code>{_told(each)}</code>' for each in listed)}</p>"
              for name, listed in lists if listed),
            "<h2>Memories</h2>", "<table><tr>", *(f"<th>{_told(name)}</th>" for _, name in _COLUMNS), "</tr>",
            *(f"<tr>{''.join(f'<td>{_told(each[field])}</td>' for field, _ in _COLUMNS)}</tr>" for each in results),
            "</table></body></html>",
        ]
    )  # fmt: skip


def _told(value: Any) -> str:
    return escape(str(value))
