"""Where a memory comes from and what came out of a session, for people; rows of the region as they lie there.

Facts of a pass are counted from 0 on the wire and at rest, and from 1 here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from daemon.cli.render_records import who
from daemon.cli.render_text import counted, local, named, plain, short, some, table, wrap, zone_line


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
            ("successor of", _before(result) if result["sources"] else ""),
        ],
        "  ",
    )
    quoted = set(result["quoted_from"])
    for name, title in (("sources", "made from:"), ("evidence", "supported by:")):
        if result[name]:
            lines += ["", title, *(line for each in result[name] for line in _source(each, quoted))]
    if not result["sources"]:
        lines += ["", *wrap(_beginning(result))]
    for row in result.get("rows") or ([] if result["row"] is None else [result["row"]]):
        lines += ["", "row of the provenance region:", *named(_row(row), "  ")]
    return lines


def _beginning(result: dict[str, Any]) -> str:
    """What is said of a memory that was derived from nothing: what it took the place of, who said it, or that it is a
    root."""
    if before := _before(result):
        return f"the successor of {before}"
    if said_by := _named(result.get("source")):
        return f"said by {said_by}"
    if plain(result["id"]).startswith("raw:"):
        return "a root: what was said stands on nothing"
    return "made from nothing that is recorded"


def _before(result: dict[str, Any]) -> str:
    if not result.get("predecessor"):
        return ""
    how = f" ({plain(result['disposition'])})" if result.get("disposition") else ""
    grounds = f", which stands on {some(result['grounds'], 20)}" if result.get("grounds") else ""
    return plain(result["predecessor"]) + how + grounds


def _named(source: Any) -> str:
    """An external source by its kind and id, however it is told."""
    if not isinstance(source, dict):
        return plain(source) if source else ""
    return plain(source["ref"]) if source.get("ref") else f"{plain(source['kind'])}:{plain(source['id'])}"


def _source(each: dict[str, Any], quoted: set[str]) -> list[str]:
    state = plain(each["state"]) + (f" {short(each['purged_at'])}" if each.get("purged_at") else "")
    state += ", quarantined" if each.get("quarantined") else ""
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
        [short(row["at"]), "-" if row["pass"] is None else f"{row['pass']}.{row['fact_index'] + 1}",
         plain(row["state"]), plain(row["id"]), _turns(row) or "-"]
        for row in result["derived"]
    ]  # fmt: skip
    aside = _left_out(result)
    if not rows:
        return wrap(f"no pass of sleep has made anything of it{aside}")
    lines = table(("AT", "PASS.FACT", "STATE", "ID", "TURNS"), rows)
    zone = zone_line(row["at"] for row in result["derived"])
    lines += wrap(f"{counted(len(rows), 'memory', 'memories')}{aside}; {zone}")
    return lines + (["there are more than an answer holds"] if result["truncated"] else [])


def _left_out(result: dict[str, Any]) -> str:
    """The notes of clients that were not asked for."""
    notes, shown = result.get("client_notes"), sum(row["pass"] is None for row in result["derived"])
    if notes and not shown:
        return f"; {counted(notes, 'note')} of clients: --include-clients"
    return ", nor has a client" if notes == 0 and not result["derived"] else ""


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
    return f"{row['pass_number']}.{row['fact_index'] + 1}" if row["pass_number"] else "-"


def _from(row: dict[str, Any]) -> str:
    """What a row was made from: a session and its turns, or one memory."""
    return plain(row["source_tsid"]) if row["source_tsid"] else f"{plain(row['session_id'])} {_turns(row)}".rstrip()


def _when(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return short(f"{at:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z")
