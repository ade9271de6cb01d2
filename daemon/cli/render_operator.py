"""What is asked about the daemon and its store, for a glance: what is wrong comes first, with what to do."""

from __future__ import annotations

from typing import Any, Final

from daemon.cli.render_block import block, said
from daemon.cli.render_text import counted, fold, lasted, named, plain, sized, width, wrap

KNOWN: Final = """health findings recovery head lag map_bytes disk_free_bytes oldest_reader_ms warmed cycle partitions
    keys_ready tenant tenant_state enforce read_only socket usage"""
"""What a status says in a place of its own; what else it says follows as it is."""


def status(result: dict[str, Any]) -> list[str]:
    """A page: health, findings with what to do, then a line for each thing there is to know."""
    head, cycle = result.get("head") or {}, result.get("cycle") or {}
    lines = wrap(f"health {plain(result['health'])}" + _troubles(result))
    lines += findings(result.get("findings") or [])
    lines += ["", *named([
        ("tenant", _tenant(result)),
        ("usage", _usage(result.get("usage") or {})),
        ("partitions", ", ".join(f"{count} {name}" for name, count in (result.get("partitions") or {}).items())),
        ("store", f"{plain(head.get('store'))}, epoch {plain(head.get('epoch'))}"),
        ("head", _head(head)),
        ("projections", _lag(result.get("lag") or 0)),
        ("last start", _recovery(result.get("recovery") or {})),
        ("warmed", f"{result['warmed']:.0%}" if isinstance(result.get("warmed"), int | float) else ""),
        ("journal", sized(result.get("map_bytes")) and f"room for {sized(result['map_bytes'])}"),
        ("disk", sized(result.get("disk_free_bytes")) and f"{sized(result['disk_free_bytes'])} free"),
        ("keys", "" if result.get("keys_ready") is None else f"{result['keys_ready']} ready"),
        ("oldest read", lasted(result["oldest_reader_ms"]) if result.get("oldest_reader_ms") else ""),
        ("sleep", _sleep(cycle)),
        ("socket", plain(result["socket"]) if result.get("socket") else ""),
    ])]  # fmt: skip
    return lines + block(said({name: value for name, value in result.items() if name not in KNOWN.split()}))


def _troubles(result: dict[str, Any]) -> str:
    told = [counted(len(result["findings"]), "finding")] if result.get("findings") else []
    told += ["READ ONLY: ordinary writes are refused"] if result.get("read_only") else []
    return f"; {'; '.join(told)}" if told else ""


def findings(found: list[dict[str, Any]]) -> list[str]:
    """Each finding and, under it, what to do."""
    lines: list[str] = []
    for row in found:
        place = "" if row.get("seq") is None else f" at record {row['seq']}"
        lines += wrap(f"  {plain(row['code'])}{place}: {plain(row['what'])}", "  ")
        lines += [f"      {line}" for line in fold(plain(row["action"]), width() - 6)] if row.get("action") else []
    return lines


def _tenant(result: dict[str, Any]) -> str:
    enforced = "" if result.get("enforce", True) else ", its lifecycle is not enforced"
    return f"{plain(result.get('tenant'))}, {plain(result.get('tenant_state'))}{enforced}"


def _usage(usage: dict[str, Any]) -> str:
    if not usage:
        return ""
    bound = usage.get("max_bytes")
    records = f"{counted(usage['records'], 'record')}, " if usage.get("records") is not None else ""
    share = f" of {sized(bound)} ({(usage.get('bytes') or 0) / bound:.0%})" if bound else ""
    return f"{records}{sized(usage.get('bytes'))}{share}"


def _head(head: dict[str, Any]) -> str:
    written = f", written {plain(head['at'])}" if head.get("at") else ""
    return f"record {plain(head.get('seq'))}{written}; chain {plain(head.get('chain'))}"


def _lag(lag: int) -> str:
    return f"{counted(lag, 'record')} behind the journal" if lag else "up to the journal's head"


def _recovery(told: dict[str, Any]) -> str:
    if not told:
        return ""
    began = "after a clean stop" if told.get("clean") else "after an end that was no stop"
    boot = ", another boot" if told.get("boot_changed") else ""
    first, last = told.get("from_seq") or 0, told.get("to_seq") or 0
    folded = f"; folded records {first} to {last} in {lasted(told.get('took_ms') or 0)}" if last else ""
    rebuilt = f"; rebuilt {plain(told['rebuilt'])}" if told.get("rebuilt") else ""
    return began + boot + folded + rebuilt


def _sleep(cycle: dict[str, Any]) -> str:
    told = [f"{name} {plain(cycle[name])}" for name in ("last", "next") if cycle.get(name)]
    return ", ".join(told)


def hello(result: dict[str, Any]) -> list[str]:
    lines = wrap(
        f"noctuary {plain(result['version'])}, protocol {plain(result['protocol'])}, {plain(result['state'])}; "
        f"you are {plain(result['role'])} of tenant {plain(result['tenant'])}"
    )
    lines += ["", *named([
        ("store", f"{plain(result['store'])}, epoch {plain(result['epoch'])}"),
        ("verbs", " ".join(map(plain, result.get("verbs") or ()))),
    ])]  # fmt: skip
    limits = [f"{plain(name)} {value}" for name, value in (result.get("limits") or {}).items()]
    return [*lines, *(["", "limits:", *grid(limits)] if limits else [])]


def grid(cells: list[str], indent: str = "  ") -> list[str]:
    """Short cells side by side, read down the columns."""
    wide = max(map(len, cells)) + 2
    across = max(1, (width() - len(indent)) // wide)
    down = -(-len(cells) // across)
    return [indent + "".join(cell.ljust(wide) for cell in cells[at::down]).rstrip() for at in range(down)]


def head(result: dict[str, Any]) -> list[str]:
    return named((name, plain(value)) for name, value in result.items() if value is not None)


def audit(result: dict[str, Any]) -> list[str]:
    """What was walked and found; the digests a line each."""
    found = result["findings"]
    told = counted(len(found), "finding") if found else "no findings"
    lines = [f"{counted(result['records'], 'record')}; {told}", *findings(found)]
    place = result.get("head") or {}
    lines += named([
        ("store", f"{plain(place['store'])}, epoch {plain(place.get('epoch'))}" if place.get("store") else ""),
        ("head", _head(place) if place else ""),
    ], "  ")  # fmt: skip
    if digests := result.get("digests"):
        lines += [
            "digests of the projections:",
            *named(((n, plain(d)) for n, d in digests.items()), "  "),
        ]
    if held := result.get("holdings"):
        lines += _holdings(held)
    lines += [line for note in result.get("notes") or () for line in wrap(plain(note))]
    for number, item in enumerate(result.get("against") or (), 1):
        lines += wrap(f"against {number}: {plain(item)}")
    return lines


def _holdings(held: dict[str, Any]) -> list[str]:
    """What a tenant has, and what of that a key still opens."""
    there = held.get("readable") or {}
    parts = ", ".join(f"{plain(part)} {plain(count)}" for part, count in there.items())
    return [
        *wrap(f"tenant {plain(held['tenant'])} up to record {plain(held['head']['seq'])}:"),
        *named([
            ("records", plain(held["records"])),
            *((plain(name), plain(each["count"])) for name, each in (held.get("things") or {}).items()),
            ("readable", parts or "nothing"),
            ("destroyed", counted(held.get("destroyed") or 0, "part")),
        ], "  "),
    ]  # fmt: skip


def backup(result: dict[str, Any]) -> list[str]:
    """The manifest: which place each part stands at, and its files."""
    lines = wrap(f"backup of store {plain(result['store'])} by noctuary {plain(result['version'])}")
    for name in ("journal", "vault"):
        part = result.get(name)
        if part is None:
            lines += wrap(f"{name}: not in this backup")
            continue
        upto = "records up to" if name == "journal" else "purges carried out up to record"
        lines += wrap(f"{name}: {upto} {part['seq']} of epoch {part['epoch']}, {plain(part['at'])}")
        for each in part["files"]:
            lines += wrap(f"{plain(each['name'])}, {sized(each['bytes'])}", "    ")
        if part.get("master_key"):
            lines += wrap("its keys are wrapped: a restore takes the master key of this time", "    ")
    return lines


def rebuild(result: dict[str, Any]) -> list[str]:
    return wrap(f"rebuilt {plain(result['rebuilt'])} in {lasted(result['took_ms'])}")


def cancel(result: dict[str, Any]) -> list[str]:
    return ["cancelled"] if result["cancelled"] else wrap("nothing was cancelled: no such request is being answered")


def metrics(result: dict[str, Any]) -> list[str]:
    """The text as it is, for whoever scrapes."""
    return str(result["text"]).rstrip("\n").split("\n")


def lifecycle(result: dict[str, Any]) -> list[str]:
    enforced = "enforced" if result["enforce"] else "not enforced"
    return wrap(f"tenant is {plain(result['state'])}; its lifecycle is {enforced}") + repeated(result)


def repeated(result: dict[str, Any]) -> list[str]:
    """That a request was done before."""
    state = f" (since then {plain(result['state'])})" if result.get("state") == "purged" else ""
    return wrap(f"done before: this is the first answer again{state}") if result.get("duplicate") else []
