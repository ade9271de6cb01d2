"""Purges, their receipts, and holds, as people read them."""

from __future__ import annotations

from typing import Any, Final

from daemon.cli.render_operator import repeated
from daemon.cli.render_text import counted, plain, short, sized, table, wrap, zone_line

TOLD: Final = 20
"""Memories of one answer; `--json` has more, and the receipt has all."""


def purge(result: dict[str, Any]) -> list[str]:
    count, dry = result["count"], bool(result.get("dry_run"))
    sessions = result.get("sessions") or []
    told = _memories(count) + (f" and the key of {counted(len(sessions), 'session')}" if sessions else "")
    if count or sessions:
        lines = wrap(f"{told} would be purged" if dry else f"{told} purged; nobody can bring back what they said")
    else:
        lines = wrap("nothing is there to be purged")
    results = result.get("results") or []
    lines += _results(results, max(count, len(results)))
    lines += _totals(result["totals"], dry) if count or sessions else []
    if result.get("token"):
        lines += [*wrap("nothing is done yet; to do it, ask again with"), f"--token {plain(result['token'])}"]
    if result.get("receipt"):
        lines += wrap(f"receipt {_address(result['receipt'])}: noctuary purges --receipt {_address(result['receipt'])}")
    if results and not dry:
        lines += ["", *wrap(plain(results[0]["disclosure"]))]
    return [*lines, *repeated(result)]


def _results(results: list[dict[str, Any]], count: int) -> list[str]:
    lines: list[str] = []
    for each in results[:TOLD]:
        lines += wrap(f"{plain(each['memory'])}: {'; '.join(_of_one(each))}", "  ")
    more = count - min(len(results), TOLD)
    return lines + (wrap(f"and {more} more", "  ") if results and more > 0 else [])


def _of_one(each: dict[str, Any]) -> list[str]:
    if not each["found"]:
        return ["there is no such memory"]
    if each.get("damaged"):
        return ["left as it is: a record of it is damaged"]
    if each.get("receipt"):
        return [f"purged before, {short(each['purged_at'])}: receipt {_address(each['receipt'])}"]
    if each["purged_at"] and not each["keys_shredded"] and not each["text_retained_shared"]:
        return [f"purged {short(each['purged_at'])}"]
    told = [counted(each["keys_shredded"], "key")]
    if each["text_retained_shared"]:
        others = counted(each["text_shared_with"], "other memory", "other memories")
        told.append(
            f"its text stays, {others} have it" if each["text_shared_with"] != 1 else f"its text stays, {others} has it"
        )
    for name, words in _SURVIVING:
        if each[name]:
            told.append(f"{each.get(f'{name}_count') or len(each[name])} {words}")
    return told


_SURVIVING = (
    ("quoting_purged", "copies went with it"),
    ("derived_surviving", "made from it are there"),
    ("sources_surviving", "of its sources are there"),
    ("versions_surviving", "of its versions are there"),
)


def _totals(totals: dict[str, Any], dry: bool) -> list[str]:
    what = "would be destroyed" if dry else "destroyed"
    told = f"{counted(totals['keys_shredded'], 'key')} {what}, of {sized(totals['payload_bytes'])}"
    if totals["text_retained_shared"]:
        told += f"; {sized(totals['text_retained_shared'])} of text stay with other memories"
    return wrap(told)


def _memories(number: int) -> str:
    return counted(number, "memory", "memories")


def _address(address: dict[str, Any]) -> str:
    return f"{address['epoch']}/{address['seq']}"


def purges(result: dict[str, Any]) -> list[str]:
    found = result.get("purges") or []
    if len(found) == 1 and "results" in found[0]:
        return [*_receipt(found[0]), *_more(result)]
    if not found and not result.get("next_cursor"):
        return ["none"]
    rows = [
        [short(row["at"]), _address(row["receipt"]), str(row["count"]), plain(row["reason"]), _about(row)]
        for row in found
    ]
    lines = table(("AT", "RECEIPT", "COUNT", "REASON", "WHAT"), rows)
    lines += wrap(f"{len(found)} of {result.get('total', len(found))}; {zone_line([row['at'] for row in found])}")
    return [*lines, *_more(result)]


def _about(row: dict[str, Any]) -> str:
    told = [plain(row["memories"][0])] if row["count"] == 1 and row["memories"] else []
    told += [f"cascade {plain(row['cascade'])}"] if row["cascade"] != "none" else []
    told += [counted(len(row["sessions"]), "session")] if row["sessions"] else []
    told += ["may not come again"] if row["fingerprint_retained"] else []
    told += ["done again by a restore"] if row["applied_again"] else []
    return "; ".join(told) or "-"


def _receipt(row: dict[str, Any]) -> list[str]:
    actor = row["actor"]
    lines = wrap(f"receipt {_address(row['receipt'])} of {short(row['at'])}, tenant {plain(row['tenant'])}")
    lines += wrap(
        f"{_memories(row['count'])} purged by {plain(actor['role'])} {actor['uid']}, reason {plain(row['reason'])}"
    )
    lines += wrap(_about(row)) if _about(row) != "-" else []
    lines += _totals(row["totals"], False)
    lines += _results(row["results"], len(row["results"]))
    return [*lines, zone_line([row["at"]]), "", *wrap(plain(row["disclosure"]))]


def _more(result: dict[str, Any]) -> list[str]:
    return [f"more: --cursor {plain(result['next_cursor'])}"] if result.get("next_cursor") else []


def hold(result: dict[str, Any]) -> list[str]:
    changed, count = result.get("changed") or [], result["count"]
    what = "held" if result["held"] else "released"
    lines = wrap(f"{_memories(len(changed))} {what}, of {count} that the selection finds")
    told = ", ".join(plain(ref) for ref in changed[:TOLD])
    more = len(changed) - TOLD
    lines += wrap(told + (f" and {more} more" if more > 0 else ""), "  ") if changed else []
    for name, words in (("noted", "held already, and noted anew"), ("not_found", "not found")):
        named = result.get(name) or []
        told = ", ".join(plain(ref) for ref in named[:TOLD]) + (
            f" and {len(named) - TOLD} more" if named[TOLD:] else ""
        )
        lines += wrap(f"{words}: {told}") if named else []
    return [*lines, *repeated(result)]


def holds(result: dict[str, Any]) -> list[str]:
    found = result.get("holds") or []
    if not found and not result.get("next_cursor"):
        return ["none"]
    rows = [
        [short(row["since"]), plain(row["memory"]), plain(row["note"]) if row.get("note") else "-"] for row in found
    ]
    lines = table(("SINCE", "MEMORY", "NOTE"), rows)
    lines += wrap(f"{len(found)} of {result.get('total', len(found))}; {zone_line([row['since'] for row in found])}")
    return [*lines, *_more(result)]
