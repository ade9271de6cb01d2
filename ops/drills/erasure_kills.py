"""Drill: a daemon that is killed, or whose call fails, at the Nth system call of a purge.

    python ops/drills/erasure_kills.py [--faults kill|all] [--only CALL] [--step N] [--verbose]

First a purge without faults notes which calls that write happen on which file of the store, and how often. Then each
of them strikes once, in a copy of the same store. A daemon without faults opens what was left, and one of two must be
so: *never*: nothing was purged, and nobody was told that it was; or *complete*: every memory reads as purged, no key
opens anything with their words in it (also in free pages), the purges file has the line, the co-tenant of a purged text
answers in full. Then the purge is asked again under its key, and must be complete. All columns but `runs`, `never` and
`complete` are to be 0; `missed` runs say nothing. Needs strace.
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


@dataclass
class Template:
    """A store, and what is purged in copies of it: `gone`; the text of `shared` has a co-tenant, `tenant`."""

    state: Path
    gone: list[str]
    tenant: str
    kept: str
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


def make_template(directory: Path) -> Template:
    """A store with things to be purged; the calls of a purge in it."""
    daemon = DaemonProcess(directory)
    daemon.start()
    try:
        gone = [_write(daemon, f"{SECRET} {number}", tags=[SECRET], topic=SECRET) for number in range(3)]
        gone.append(_write(daemon, f"{SECRET} large " + "x" * 9000, idempotency_key="large"))
        gone.append(_write(daemon, SHARED))
        tenant, kept = _write(daemon, SHARED), _write(daemon, KEPT)
        daemon.call("verify", id=gone[0], note=SECRET)
        assert daemon.stop() == 0, daemon.logged()
    finally:
        daemon.close()
    return Template(daemon.state, gone, tenant, kept)


def _write(daemon: DaemonProcess, text: str, **more: Any) -> str:
    return str(daemon.call("remember", kind="raw", subtype="capture", origin="stated", text=text, **more)["id"])


def purge(daemon: DaemonProcess, template: Template) -> dict[str, Any] | None:
    """The answer; None when there was none, or it says that the outcome isn't known. Raises NoctuaryError."""
    try:
        return daemon.call("purge", ids=template.gone, idempotency_key=KEY)
    except (noctuary.Unreachable, noctuary.UnknownOutcome):
        return None


def record_calls(template: Template, directory: Path) -> Counter[tuple[str, str]]:
    """(file, call) → how often it happens while a purge without faults is answered."""
    daemon = TracedDaemon(directory)
    try:
        shutil.copytree(template.state, daemon.state)
        daemon.start()
        daemon.attach(daemon.other_threads(), tracing.recording(tracing.WRITING))
        assert purge(daemon, template) is not None, daemon.logged()
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
        daemon.attach(daemon.other_threads(), injection.options(daemon.state))
        try:
            promised = purge(daemon, template)
        except noctuary.NoctuaryError as refused:  # said to be not done
            promised = None
            row.broken += refused.reason not in ("read_only", "unavailable", "overloaded")
        if daemon.running:
            daemon.ended(END_WITHIN_S)
        elif daemon._process is not None:
            daemon.wait()
        daemon.detach()
        row.missed += not injection.hits(daemon.noted())
        _judge(daemon, template, promised, row)
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


def _judge(daemon: TracedDaemon, template: Template, promised: dict[str, Any] | None, row: Row) -> None:
    daemon.start()
    statuses = {status for _, status, _ in _memories(daemon, template.gone)}
    receipts = daemon.call("purges")["total"]
    lines = len(read_purges(daemon.state / "purges").directives)
    if statuses == {"active"} and not receipts and not lines:
        row.never += 1
        row.broken += promised is not None
        row.lost += sum(text is None for _, _, text in _memories(daemon, template.gone))
    elif statuses == {"purged"} and receipts == lines == 1:
        row.complete += 1
        row.readable += _readable(daemon, template)
    else:
        row.half += 1
    row.lost += _others(daemon, template)
    row.unopened += bool(daemon.call("audit", rebuild=True)["findings"] or daemon.call("status")["findings"])
    again = daemon.call("purge", ids=template.gone, idempotency_key=KEY)
    row.not_again += again["receipt"] is None or daemon.call("purges")["total"] != 1
    row.not_again += promised is not None and again["receipt"] != promised["receipt"]
    row.readable += _readable(daemon, template)
    row.lost += _others(daemon, template)
    row.unopened += daemon.stop() != 0


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


def injections(calls: Counter[tuple[str, str]], faults: str, only: str | None, step: int) -> Iterator[Injection]:
    for (file, call), many in sorted(calls.items()):
        if only not in (None, call):
            continue
        for fault in (Fault.KILL,) if faults == "kill" else (Fault.KILL, Fault.EIO, Fault.ENOSPC):
            for number in range(1, many + 1, step):
                yield Injection(call, file, number, fault)


def drill(faults: str, only: str | None, step: int, verbose: bool) -> tuple[dict[tuple[str, str, str], Row], Row]:
    """A row for each file, call and fault, and their sum."""
    rows: dict[tuple[str, str, str], Row] = {}
    total = Row()
    with tempfile.TemporaryDirectory(prefix="noctuary-") as name:
        directory = Path(name)
        (directory / "t").mkdir()
        template = make_template(directory / "t")
        with tempfile.TemporaryDirectory(dir=directory) as place:
            template.calls = record_calls(template, Path(place))
        for injection in injections(template.calls, faults, only, step):
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
    parser.add_argument("--faults", choices=("kill", "all"), default="kill")
    parser.add_argument("--only", help="this system call only")
    parser.add_argument("--step", type=int, default=1, help="every how many calls of a kind")
    parser.add_argument("--verbose", action="store_true", help="say what was seen whenever it isn't clean")
    given = parser.parse_args()
    if (why := tracing.why_not()) is not None:
        print(f"erasure_kills: {why}", file=sys.stderr)
        return 1
    rows, total = drill(given.faults, given.only, given.step, given.verbose)
    print(f"{'file':24}{'call':11}{'fault':7}" + " ".join(f"{name:>9}" for name in COLUMNS))
    for key, row in rows.items():
        print(shown(key, row))
    print(shown(("all", "", ""), total))
    passed = total.clean and total.never > 0 and total.complete > 0
    print("clean" if passed else "NOT CLEAN")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
