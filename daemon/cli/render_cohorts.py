"""Cohorts: what one would touch, what was done, which there are, and two producers side by side."""

from __future__ import annotations

from typing import Any, Final

from daemon.cli.render_operator import repeated
from daemon.cli.render_text import counted, plain, short, some, table, wrap, zone_line

TOLD: Final = 20
"""Ids of each kind; `--json` has them all."""
FIRST_TOLD: Final = 3
STATUSES_MEANT: Final = 6
"""Where none was asked for: all but purged. They are told only when they were."""
SELECTED: Final = ("producers", "origins", "kinds", "since", "until", "session", "sealed")
_RATES = ("superseded", "rejected", "unresolvable", "forgotten")


def cohort(result: dict[str, Any]) -> list[str]:
    if result.get("compared"):
        return _compared(result["compared"])
    if result.get("cohort"):
        return [*_done(result), *repeated(result)]
    return _looked(result)


def _looked(result: dict[str, Any]) -> list[str]:
    count = result["count"]
    lines = wrap(f"{_memories(count)} {'is' if count == 1 else 'are'} meant" if count else "no memory is meant")
    lines += _ids(result["ids"], count)
    derived, cut = result.get("downstream") or [], bool(result.get("downstream_cut"))
    if derived:
        lines += wrap(f"{_number(derived, cut)} made from them, touched with --downstream:")
        lines += _ids(derived, None if cut else len(derived))
    lines += _left(result)
    if result.get("token"):
        lines += [*wrap("nothing is done yet; to do it, ask again with"), f"--token {plain(result['token'])}"]
    elif count:
        lines += wrap("nothing can be done about them")
    return lines


def _done(result: dict[str, Any]) -> list[str]:
    lines = wrap(f"{plain(result['cohort'])}: {_memories(result.get('done') or 0)} touched; `lift` undoes it")
    if held := result.get("held_by_others"):
        lines += wrap(f"another cohort held {held} of them already: they are as they were")
    return [*lines, *_left(result)]


def _left(result: dict[str, Any]) -> list[str]:
    left, cut = result.get("not_rederivable") or [], bool(result.get("not_rederivable_cut"))
    if not left:
        return []
    lines = wrap(f"{_number(left, cut)} can't be made again, for only living notes that a pass of sleep made can:")
    return lines + _ids(left, None if cut else len(left))


def _number(refs: list[Any], cut: bool) -> str:
    return f"more than {_memories(len(refs))}" if cut else _memories(len(refs))


def _memories(number: int) -> str:
    return counted(number, "memory", "memories")


def _ids(refs: list[Any], count: int | None) -> list[str]:
    """The first of them; how many more there are, when that is known."""
    told = ", ".join(plain(ref) for ref in refs[:TOLD])
    more = len(refs) - TOLD if count is None else count - min(len(refs), TOLD)
    return wrap(told + (f" and {more} more" if more > 0 else ""), "  ") if refs else []


def _compared(sides: list[dict[str, Any]]) -> list[str]:
    """A line for each number, a column for each of the two sides."""
    sides = sides[:2]
    rows = [["memories", *(str(side["count"]) for side in sides)]]
    for name, words in (("origin", "by_origin"), ("kind", "by_kind")):
        for word in sorted({word for side in sides for word in side[words]}):
            rows.append([f"{name} {plain(word)}", *(str(side[words].get(word, 0)) for side in sides)])
    rows += [[name, *(_share(side[f"{name}_rate"]) for side in sides)] for name in _RATES]
    for name in ("confidence", "importance"):
        rows.append([f"mean {name}", *(_mean(side[f"mean_{name}"]) for side in sides)])
    return table(("", "SELECTION", "WITH")[: len(rows[0])], rows)


def _share(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.1f} %"


def _mean(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def lift(result: dict[str, Any]) -> list[str]:
    if result["already"]:
        return [*wrap(f"{plain(result['cohort'])} was lifted before"), *repeated(result)]
    held = result.get("held_by_others") or 0
    stay = f"; {held} stay as they are: another cohort holds them" if held else ""
    told = f"{plain(result['cohort'])} lifted: {_memories(result['done'] - held)} given back{stay}"
    return [*wrap(told), *repeated(result)]


def cohorts(result: dict[str, Any]) -> list[str]:
    found = result.get("cohorts") or []
    if not found and not result.get("next_cursor"):
        return ["none"]
    rows = [
        [short(row["at"]), plain(row["cohort"]), plain(row["action"]), str(row["count"]), _about(row)] for row in found
    ]
    lines = table(("AT", "COHORT", "ACTION", "COUNT", "WHAT"), rows)
    lines += wrap(f"{len(found)} of {result.get('total', len(found))}; {zone_line([row['at'] for row in found])}")
    if result.get("next_cursor"):
        lines.append(f"more: --cursor {plain(result['next_cursor'])}")
    return lines


def _about(row: dict[str, Any]) -> str:
    """What of its selection may be told, and whether it is lifted."""
    told = [f"lifted {short(row['lifted_at'])}"] if row.get("lifted_at") else []
    told += [f"{row['downstream']} of them derived"] if row.get("downstream") else []
    told += [f"by {some([_stamp(each) for each in row['producers']])}"] if row.get("producers") else []
    told += [f"{plain(name)} {plain(row[name])}" for name in ("origins", "kinds") if row.get(name)]
    told += [f"{name} {short(row[name])}" for name in ("since", "until") if row.get(name)]
    told += [f"status {plain(row['statuses'])}"] if 0 < len(row.get("statuses") or ()) < STATUSES_MEANT else []
    told += [f"in {plain(row['session'])}"] if row.get("session") else []
    told += ["and by content"] if row.get("sealed") else []
    if row.get("ids") and not any(row.get(name) for name in SELECTED):
        told.append(_first(row["ids"], row["count"]))
    return "; ".join(told) or "-"


def _first(refs: list[Any], count: int) -> str:
    """Some of its memories, where its selection has nothing that may be told."""
    shown = refs[:FIRST_TOLD]
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    return ", ".join(plain(ref) for ref in shown) + more


def _stamp(producer: dict[str, Any]) -> str:
    return " ".join(f"{name} {plain(value)}" for name, value in producer.items() if value) or "nobody"
