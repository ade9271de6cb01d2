"""Where a memory comes from and what came out of a session, for people; rows of the region as they lie there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from daemon.cli.render_records import who
from daemon.cli.render_text import counted, local, named, plain, short, table, wrap, zone_line


def explain(result: dict[str, Any]) -> list[str]:
    stamps = result.get("producer") or {}
    made = " ".join(plain(stamps[name]) for name in ("agent", "model", "version", "extractor") if stamps.get(name))
    turn = f", turn {result['turn']}" if result["turn"] else ""
    lines = wrap(f"{plain(result['id'])} {plain(result['how'])} {local(result['at'])}")
    lines += named(
        [
            ("by", who(result["actor"])),
            ("made with", made),
            ("origin", plain(result["origin"])),
            ("session", plain(result["session"]) + turn if result["session"] else ""),
        ],
        "  ",
    )
    quoted = set(result["quoted_from"])
    for name, title in (("sources", "made from:"), ("evidence", "supported by:")):
        if result[name]:
            lines += ["", title, *(line for each in result[name] for line in _source(each, quoted))]
    if not result["sources"]:
        lines += ["", "made from nothing that is recorded"]
    if result["row"] is not None:
        lines += ["", "row of the provenance region:", *named(_row(result["row"]), "  ")]
    return lines


def _source(each: dict[str, Any], quoted: set[str]) -> list[str]:
    state = plain(each["state"]) + (f" {short(each['purged_at'])}" if each.get("purged_at") else "")
    aside = "" if state == "live" else f" ({state})"
    words = " (quoted)" if each["ref"] in quoted else ""
    text = f": {plain(each['text'])}" if each.get("text") else ""
    return wrap(plain(each["ref"]) + aside + words + text + (" …" if each.get("cut") else ""), "  ")


def _row(row: dict[str, Any]) -> list[tuple[str, str]]:
    place = "" if row["pass"] is None else f"{row['pass']}, fact {row['fact_index'] + 1} of {row['batch_count']}"
    return [
        ("state", plain(row["state"])),
        ("session", plain(row["session"]) if row["session"] else ""),
        ("pass", place),
        ("turns", _turns(row)),
        ("partition", plain(row["partition"]) if row["partition"] else ""),
        ("source", plain(row["source"]) if row["source"] else ""),
        ("hash", f"{row['content_hash_hi']:04x}" if row["content_hash_hi"] else ""),
    ]


def _turns(row: dict[str, Any]) -> str:
    if not row["turn_count"]:
        return ""
    first, last, many = row["first_seq"], row["last_seq"], row["turn_count"]
    if many == last - first + 1:
        return plain(first) if many == 1 else f"{first}-{last}"
    return f"{many} of {first}-{last}"


def session_provenance(result: dict[str, Any]) -> list[str]:
    rows = [
        [short(row["at"]), "-" if row["pass"] is None else f"{row['pass']}.{row['fact_index']}",
         plain(row["state"]), plain(row["id"]), _turns(row) or "-"]
        for row in result["derived"]
    ]  # fmt: skip
    if not rows:
        return ["nothing came out of it yet"]
    lines = table(("AT", "PASS.FACT", "STATE", "ID", "TURNS"), rows)
    lines += wrap(f"{counted(len(rows), 'memory', 'memories')}; {zone_line(row['at'] for row in result['derived'])}")
    return lines + (["there are more than an answer holds"] if result["truncated"] else [])


def region(result: dict[str, Any]) -> list[str]:
    rows = counted(result["rows"], "row")
    return wrap(f"{rows} of tenant {plain(result['tenant'])} in {plain(result['file'])}, room for {result['room']}")


def region_rows(result: dict[str, Any]) -> list[str]:
    rows = [
        [str(number), plain(row["flags"]), _pass(row), plain(row["target"]), _when(row["consolidated_at"]), _from(row)]
        for number, row in enumerate(result["rows"])
    ]
    return table(("ROW", "STATE", "PASS", "TARGET", "AT", "FROM"), rows) if rows else ["none"]


def _pass(row: dict[str, Any]) -> str:
    return f"{row['pass_number']}.{row['fact_index']}" if row["pass_number"] else "-"


def _from(row: dict[str, Any]) -> str:
    if row["source_tsid"]:
        return plain(row["source_tsid"])
    return f"{plain(row['session_id']).partition(':')[2]} {row['first_seq']}-{row['last_seq']}"


def _when(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return short(f"{at:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z")
