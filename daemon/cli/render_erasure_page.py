"""A receipt as one page of HTML for the person who asked: no content, no script, nothing that leads or loads elsewhere.

Every word of the answer is escaped. It is told in the times of UTC, because the page travels.
"""

from __future__ import annotations

from collections.abc import Iterator
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
_LEFT = (
    ("quoting_purged", "Copies of it, erased with it"), ("derived_surviving", "Made from it, still there"),
    ("sources_surviving", "It was made from, still there"), ("versions_surviving", "Other versions, still there"),
)  # fmt: skip
_COPIES = {
    "dr_exports": "exports and copies for disaster recovery that were made before",
    "replica_disks": "disks of replicas",
    "cold_tier_objects": "objects that were moved to cold storage",
    "filesystem_snapshots_and_backups": "snapshots of the file system, and backups with the keys of before",
    "wal_segments_prior_to_the_last_checkpoint": "copies of the journal made earlier (unreadable without a copy of the "
    "vault from before)",
    "os_page_cache_and_ssd_wear_levelling_remnants": "what the memory of the operating system, or a solid state disk, "
    "still holds of overwritten places",
}
_CASCADES = {
    "none": "only what was named, and copies of it",
    "derived": "also all that was made from it",
    "ungrounded": "also what was made from it and had no other source left",
    "versions": "also its earlier and later versions",
}
TOLD = 20
"""Ids of each kind that are named for one memory."""


def page(receipt: dict[str, Any]) -> str:
    """The whole document. `receipt` has all its results."""
    address = f"{receipt['receipt']['epoch']}/{receipt['receipt']['seq']}"
    results = receipt["results"]
    return "\n".join(
        [
            "<!DOCTYPE html>", '<html lang="en"><head><meta charset="utf-8">',
            f"<title>Receipt of erasure {_told(address)}</title><style>{STYLE}</style></head><body>",
            "<h1>Receipt of an erasure</h1>", "<table>",
            *(f"<tr><th>{_told(name)}</th><td>{_told(value)}</td></tr>" for name, value in _facts(receipt, address)),
            "</table>", f"<p>{_told(receipt['disclosure'])}</p>", *_kept(results[0] if results else {}),
            "<h2>Memories</h2>", "<table><tr>", *(f"<th>{_told(name)}</th>" for _, name in _COLUMNS), "</tr>",
            *(f"<tr>{''.join(f'<td>{_told(each[field])}</td>' for field, _ in _COLUMNS)}</tr>" for each in results),
            "</table>", *_left(results), "</body></html>",
        ]
    )  # fmt: skip


def _facts(receipt: dict[str, Any], address: str) -> list[tuple[str, Any]]:
    totals, cascade = receipt["totals"], receipt["cascade"]
    facts = [
        ("Receipt", address), ("Erased at", receipt["at"]), ("Tenant", receipt["tenant"]),
        ("Reason", receipt["reason"]), ("How far", _CASCADES.get(cascade, cascade)),
        ("Memories erased", receipt["count"]),
        ("Keys destroyed", totals["keys_shredded"]), ("Bytes made unreadable", totals["payload_bytes"]),
        ("Text bytes that other memories still have", totals["text_retained_shared"]),
        ("Sessions whose name was erased", len(receipt["sessions"])),
    ]  # fmt: skip
    if receipt["fingerprint_retained"]:
        facts.append(("May not come again", "fingerprints of the texts are kept, so that they are refused"))
    if receipt["applied_again"]:
        facts.append(("Done again", "after a backup was restored: memories, counts and file system are those of then"))
    return facts


def _kept(first: dict[str, Any]) -> Iterator[str]:
    """What stays of every memory, and which copies nobody reached."""
    lists = (
        ("Kept of each memory's row", first.get("retained_header_fields", ())),
        ("Kept of each memory in the journal", first.get("retained_journal_fields", ())),
    )
    for name, listed in lists:
        if listed:
            yield f"<h2>{_told(name)}</h2><p>{', '.join(f'<code>{_told(each)}</code>' for each in listed)}</p>"
    if copies := first.get("unreachable_copies", ()):
        told = "".join(f"<li>{_told(_COPIES.get(each, each))} (<code>{_told(each)}</code>)</li>" for each in copies)
        yield f"<h2>Copies that this does not reach</h2><ul>{told}</ul>"


def _left(results: list[dict[str, Any]]) -> Iterator[str]:
    """What went along with each memory, and what has to do with it and is still there."""
    rows = [
        f"<tr><td>{_told(each['memory'])}</td><td>{_told(words)}</td><td>{_named(each, field)}</td></tr>"
        for each in results
        for field, words in _LEFT
        if each[field]
    ]
    if rows:
        yield "<h2>What went along, and what is left</h2><table><tr><th>Memory</th><th></th><th></th></tr>"
        yield from rows
        yield "</table>"


def _named(each: dict[str, Any], field: str) -> str:
    named, count = each[field][:TOLD], each.get(f"{field}_count") or len(each[field])
    more = f" and {count - len(named)} more" if count > len(named) else ""
    return f"{', '.join(_told(ref) for ref in named)}{more}"


def _told(value: Any) -> str:
    return escape(str(value))
