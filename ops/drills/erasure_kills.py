"""Drill: a daemon that is killed, or whose call fails, at the Nth system call of a purge.

    python ops/drills/erasure_kills.py [--many N] [--faults kill|all] [--only CALL] [--step N]
                                         [--most N] [--verbose]

With `--many` a selection of so many memories is purged, which is a PURGE record for each thousand; without, five by
their ids. First a purge without faults notes which calls that write happen on which file of the store, and how often.
Then each of them strikes once, in a copy of the same store (`--most`: of a call that happens more often on a file so
many, spread evenly, with the first and the last). A daemon without faults opens what was left, and one of two must be
so: *never*: nothing was purged, and nobody was told that it was; or *complete*: every memory reads as purged, no key
opens anything with their words in it (also in free pages), the purges file has a line for each record, the receipt
names each of them once and its sums are those of its results, the co-tenant of a purged text answers in full. Then the
purge is asked again under its key, as a client does that never heard, and must be complete, under the receipt that
`purges` told before. All columns but `runs`, `never` and `complete` are to be 0; `missed` runs say nothing. Needs
strace.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import noctuary
from journal.purges import read_purges
from ops.drills.faults import tracing
from ops.drills.faults.tracing import Fault, Injection, TracedDaemon
from tests.system.process import DaemonProcess

SECRET, SHARED, KEPT = "zqsecret7", "zqshared7", "zqkept7"
END_WITHIN_S = 30.0
KEY = "the purge"
BY = {"producer": {"agent": "drill"}}
"""Who writes what is purged as a selection: a stamp is public, and stays."""
A_RECORD = 1000
"""So many memories stand in one PURGE record; also so many are written at once, and told on one page."""


@dataclass
class Template:
    """A store, and what is purged in copies of it: `gone`; the text of one of them has a co-tenant, `tenant`."""

    state: Path
    gone: list[str]
    tenant: str
    kept: str
    selected: bool
    """Whether they are purged as a selection: more can't be named."""
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass
class Row:
    """What became of all runs with one call on one file."""

    runs: int = 0
    missed: int = 0
    never: int = 0
    complete: int = 0
    half: int = 0  # neither
    broken: int = 0  # promised, and not done
    readable: int = 0  # what a key opens, or what stands in the clear, of what is purged
    lost: int = 0  # of what was not purged
    unopened: int = 0  # a daemon without faults does not start, or finds something
    not_again: int = 0  # asked again under its key it isn't done
    leaks: int = 0  # content in the log

    @property
    def clean(self) -> bool:
        wrong = self.half + self.broken + self.readable + self.lost + self.unopened + self.not_again + self.leaks
        return not wrong

    def __iadd__(self, other: Row) -> Row:
        for name in asdict(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self


COLUMNS = tuple(asdict(Row()))


def make_template(directory: Path, many: int = 0) -> Template:
    """A store with things to be purged: `many`, or a few in all their forms."""
    daemon = DaemonProcess(directory)
    daemon.start()
    try:
        by = BY if many else {}
        gone = _write_many(daemon, many - 5, by) if many else []
        gone += [_write(daemon, f"{SECRET} {number}", tags=[SECRET], topic=SECRET, **by) for number in range(3)]
        gone.append(_write(daemon, f"{SECRET} large " + "x" * 9000, idempotency_key="large", **by))
        gone.append(_write(daemon, SHARED, **by))
        tenant, kept = _write(daemon, SHARED), _write(daemon, KEPT)
        daemon.call("verify", id=gone[-2], note=SECRET)
        assert daemon.stop() == 0, daemon.logged()
    finally:
        daemon.close()
    return Template(daemon.state, gone, tenant, kept, bool(many))


def _write_many(daemon: DaemonProcess, many: int, by: dict[str, Any]) -> list[str]:
    written: list[str] = []
    for first in range(0, many, A_RECORD):
        items = [
            {"kind": "raw", "subtype": "capture", "origin": "stated", "text": f"{SECRET} of many {number}", **by}
            for number in range(first, min(first + A_RECORD, many))
        ]
        written += [str(each["id"]) for each in daemon.call("remember_many", items=items)["results"]]
    return written


def _write(daemon: DaemonProcess, text: str, **more: Any) -> str:
    return str(daemon.call("remember", kind="raw", subtype="capture", origin="stated", text=text, **more)["id"])


def what_is_meant(daemon: DaemonProcess, template: Template) -> dict[str, Any]:
    """The parameters of the purge. A selection is looked at first."""
    if not template.selected:
        return {"ids": template.gone}
    looked = daemon.call("purge", sel=BY)
    assert looked["count"] == len(template.gone)
    return {"sel": BY, "token": looked["token"]}


def purge(daemon: DaemonProcess, meant: dict[str, Any]) -> dict[str, Any] | None:
    """The answer; None when there was none, or it says that the outcome isn't known. Raises NoctuaryError."""
    try:
        return daemon.call("purge", **meant, idempotency_key=KEY)
    except (noctuary.Unreachable, noctuary.UnknownOutcome):
        return None


def record_calls(template: Template, directory: Path) -> Counter[tuple[str, str]]:
    """(file, call) → how often it happens while a purge without faults is answered."""
    daemon = TracedDaemon(directory)
    try:
        shutil.copytree(template.state, daemon.state)
        daemon.start()
        meant = what_is_meant(daemon, template)
        daemon.attach(daemon.other_threads(), tracing.recording(tracing.WRITING))
        assert purge(daemon, meant) is not None, daemon.logged()
        daemon.detach()
        return tracing.recorded(daemon.noted(), daemon.state)
    finally:
        daemon.close()


def run(template: Template, injection: Injection, directory: Path, verbose: bool = False) -> Row:
    """One purge with a fault, and what is there then."""
    row = Row(runs=1)
    daemon = TracedDaemon(directory)
    try:
        shutil.copytree(template.state, daemon.state)
        daemon.start()
        meant = what_is_meant(daemon, template)
        daemon.attach(daemon.other_threads(), injection.options(daemon.state))
        try:
            promised = purge(daemon, meant)
        except noctuary.NoctuaryError as refused:  # said to be not done
            promised = None
            row.broken += refused.reason not in ("read_only", "unavailable", "overloaded")
        if daemon.running:
            daemon.ended(END_WITHIN_S)
        elif daemon._process is not None:
            daemon.wait()
        daemon.detach()
        row.missed += not injection.hits(daemon.noted())
        judge(daemon, template, meant, promised, row)
        row.leaks += any(word in daemon.logged() for word in (SECRET, SHARED, KEPT))
    except Exception as error:
        # Whatever it is: what is in the store could not be seen.
        row.unopened += 1
        if verbose:
            print(f"  {type(error).__name__}: {error}", file=sys.stderr)
    finally:
        daemon.close()
    if verbose and not row.clean:
        print(f"! {injection} {row}\n{daemon.logged()[-1500:]}", file=sys.stderr, flush=True)
    return row


def judge(
    daemon: DaemonProcess, template: Template, meant: dict[str, Any], promised: dict[str, Any] | None, row: Row
) -> None:
    """What a daemon without faults finds. `promised` is the answer that was given, if any."""
    daemon.start()
    statuses = _statuses(daemon, template)
    receipts = daemon.call("purges")["purges"]
    lines = len(read_purges(daemon.state / "purges").directives)
    all_lines = -(-len(template.gone) // A_RECORD)
    if set(statuses) == {"active"} and not receipts and not lines:
        row.never += 1
        row.broken += promised is not None
        row.lost += sum(text is None for _, _, text in _memories(daemon, template.gone[-20:]))
    elif set(statuses) == {"purged"} and len(receipts) == 1 and lines == all_lines:
        row.complete += 1
        row.broken += not _receipt_is_true(daemon, template, receipts[0]["receipt"])
        row.readable += _readable(daemon, template)
    else:
        row.half += 1
    row.lost += len(template.gone) - sum(statuses.values())
    row.lost += _others(daemon, template)
    row.unopened += bool(daemon.call("audit", rebuild=True)["findings"] or daemon.call("status")["findings"])
    again = daemon.call("purge", **meant, idempotency_key=KEY)
    row.not_again += again["receipt"] is None or daemon.call("purges")["total"] != 1
    row.not_again += any(told["receipt"] != again["receipt"] for told in (*receipts, promised) if told is not None)
    row.broken += not _receipt_is_true(daemon, template, again["receipt"])
    row.readable += _readable(daemon, template)
    row.lost += _others(daemon, template)
    row.unopened += daemon.stop() != 0


def _statuses(daemon: DaemonProcess, template: Template) -> Counter[str]:
    """How many of the memories that are meant have each status."""
    if not template.selected:
        return Counter(status for _, status, _ in _memories(daemon, template.gone))
    sel = {**BY, "status": ["active", "purged"]}
    return Counter(memory["status"] for memory in _pages(daemon, "list", "memories", sel=sel))


def _receipt_is_true(daemon: DaemonProcess, template: Template, address: dict[str, Any]) -> bool:
    """It names each memory that is gone once, and its sums are those of its results."""
    (receipt,) = daemon.call("purges", receipt=address)["purges"]
    results = [
        each for page in _pages(daemon, "purges", "purges", receipt=address) for each in page["results"]
    ]  # fmt: skip
    sums = [sum(each[name] for each in results) for name in ("keys_shredded", "payload_bytes", "text_bytes")]
    totals = receipt["totals"]
    return (
        sorted(each["memory"] for each in results) == sorted(template.gone)
        and receipt["count"] == totals["memories"] == len(template.gone)
        and sums == [totals["keys_shredded"], totals["payload_bytes"], totals["text_bytes"]]
    )


def _pages(daemon: DaemonProcess, verb: str, name: str, **params: Any) -> Iterator[Any]:
    """What stands in the list `name` of all pages of an answer."""
    cursor: dict[str, Any] = {}
    while True:
        page = daemon.call(verb, **params, **cursor, limit=A_RECORD)
        yield from page[name]
        if page["next_cursor"] is None:
            return
        cursor = {"cursor": page["next_cursor"]}


def _memories(daemon: DaemonProcess, refs: list[str]) -> list[tuple[str, str, str | None]]:
    found = daemon.call("get", ids=refs)["memories"]
    return [(memory["id"], memory["status"], memory.get("text")) for memory in found]


def _readable(daemon: DaemonProcess, template: Template) -> int:
    """What is left of what was purged; and a search that finds nothing at all has not searched."""
    assert daemon.call("residue", pattern=KEPT)["readable"], "the search finds nothing"
    secret, shared = (daemon.call("residue", pattern=word) for word in (SECRET, SHARED))
    told = [each["memory"] for each in shared["readable"]]
    return len(secret["readable"]) + len(secret["bytes"] + shared["bytes"]) + (told != [template.tenant])


def _others(daemon: DaemonProcess, template: Template) -> int:
    found = _memories(daemon, [template.tenant, template.kept])
    return 2 - sum(status == "active" and text in (SHARED, KEPT) for _, status, text in found)


@dataclass(frozen=True)
class Asked:
    """What is to strike: `faults` kill or all; `only` that call; every `step`th of them, at most `most` of each."""

    faults: str = "kill"
    only: str | None = None
    step: int = 1
    most: int = sys.maxsize

    def injections(self, calls: Counter[tuple[str, str]]) -> Iterator[Injection]:
        for (file, call), happens in sorted(calls.items()):
            if self.only not in (None, call):
                continue
            for fault in (Fault.KILL,) if self.faults == "kill" else (Fault.KILL, Fault.EIO, Fault.ENOSPC):
                for number in self._numbers(happens):
                    yield Injection(call, file, number, fault)

    def _numbers(self, happens: int) -> list[int]:
        """Which of the calls, from 1."""
        numbers = range(1, happens + 1, self.step)
        if len(numbers) <= self.most:
            return list(numbers)
        apart = (happens - 1) / max(1, self.most - 1)
        return sorted({1 + round(at * apart) for at in range(self.most)})


def drill(asked: Asked, verbose: bool, many: int = 0) -> tuple[dict[tuple[str, str, str], Row], Row]:
    """A row for each file, call and fault, and their sum."""
    rows: dict[tuple[str, str, str], Row] = {}
    total = Row()
    with tempfile.TemporaryDirectory(prefix="noctuary-") as name:
        directory = Path(name)
        (directory / "t").mkdir()
        template = make_template(directory / "t", many)
        with tempfile.TemporaryDirectory(dir=directory) as place:
            template.calls = record_calls(template, Path(place))
        for injection in asked.injections(template.calls):
            with tempfile.TemporaryDirectory(dir=directory) as place:
                found = run(template, injection, Path(place), verbose)
            row = rows.setdefault((injection.file or ".", injection.call, injection.fault.value), Row())
            row += found
            total += found
    return rows, total


def shown(key: tuple[str, str, str], row: Row) -> str:
    file, call, fault = key
    return f"{file:24}{call:11}{fault:7}" + " ".join(f"{getattr(row, name):>9}" for name in COLUMNS)


def main() -> int:
    parser = argparse.ArgumentParser(description="a purge that is struck at the Nth system call")
    parser.add_argument("--many", type=int, default=0, help="how many are purged, as a selection, in several records")
    parser.add_argument("--faults", choices=("kill", "all"), default="kill")
    parser.add_argument("--only", help="this system call only")
    parser.add_argument("--step", type=int, default=1, help="every how many calls of a kind")
    parser.add_argument("--most", type=int, default=sys.maxsize, help="how many calls of a kind at most, spread evenly")
    parser.add_argument("--verbose", action="store_true", help="say what was seen whenever it isn't clean")
    given = parser.parse_args()
    if (why := tracing.why_not()) is not None:
        print(f"erasure_kills: {why}", file=sys.stderr)
        return 1
    rows, total = drill(Asked(given.faults, given.only, given.step, given.most), given.verbose, given.many)
    print(f"{'file':24}{'call':11}{'fault':7}" + " ".join(f"{name:>9}" for name in COLUMNS))
    for key, row in rows.items():
        print(shown(key, row))
    print(shown(("all", "", ""), total))
    passed = total.clean and total.never > 0 and total.complete > 0
    print("clean" if passed else "NOT CLEAN")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
