"""What the canary drill looks at after each step: whether anything yields what was purged, and all else is whole.

The expectation is made of what the store told before anything was purged: every memory with what it says. A text is
erased when no memory that is left has it. Everything is counted; all counts but those in `SEEN` are to be 0.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from daemon.cli.offline import open_to_read
from journal.codes import Part
from journal.errors import PartUnreadable
from journal.residue import Readable, open_all
from journal.store import Store
from journal.tsid import memory_ref
from journal.unsealing import unseal
from journal.vault import Vault
from projections.store import ProjectionStore
from projections.tables import DATABASES
from tests.system.process import DaemonProcess, everything

SEEN = ("memories", "purged", "erased", "plaintexts", "unopenable", "told")
SAID = ("text", "topic", "tags", "entities", "speaker", "subject", "project", "metadata", "facts")
GET_IDS = 20
LONG_ENOUGH = 12
"""A shorter text may stand in a log or a file by chance."""


@dataclass
class Counts:
    """What was seen, and what went wrong."""

    memories: int = 0  # living ones that were compared
    purged: int = 0
    erased: int = 0  # texts that nothing may yield any more
    plaintexts: int = 0  # what keys still open, free pages included
    unopenable: int = 0
    told: int = 0  # strings in answers that were looked at
    read: int = 0  # answers that have an erased text
    opened: int = 0  # plaintexts that have one, or are of what was purged
    at_rest: int = 0  # files that have one
    logged: int = 0  # log lines that have one
    changed: int = 0  # living memories that don't say what they said
    statuses: int = 0  # purged ones that don't read as purged, or others that do
    findings: int = 0  # of an audit with rebuild: chain from 1 to head, fold equal to live
    keyless: int = 0  # projections that fold otherwise once every key is destroyed

    @property
    def clean(self) -> bool:
        wrong = {name: count for name, count in asdict(self).items() if name not in SEEN}
        return not any(wrong.values()) and self.plaintexts > 0 and self.told > 0


@dataclass
class Expected:
    """Every memory as it was before, by reference, and what was purged since."""

    before: dict[str, dict[str, Any]]
    purged: set[str] = field(default_factory=set)

    @property
    def living(self) -> set[str]:
        return set(self.before) - self.purged

    def erased(self) -> set[str]:
        """All strings that only purged memories said."""
        gone = {said for ref in self.purged for said in strings(told_of(self.before[ref]))}
        left = {said for ref in self.living for said in strings(told_of(self.before[ref]))}
        return {said for said in gone - left if len(said) >= LONG_ENOUGH}


def told_of(memory: dict[str, Any]) -> dict[str, Any]:
    """What a memory says: the fields that are sealed. Ids of facts are not, and are retained."""
    facts = [{name: said for name, said in fact.items() if name != "id"} for fact in memory.get("facts") or []]
    return {**{name: memory.get(name) for name in SAID}, "facts": facts}


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield name
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


def check(daemon: DaemonProcess, expected: Expected) -> Counts:
    """Look at a daemon that serves, then stop it, look at what lies there, and start it again."""
    erased = expected.erased()
    counts = Counts(purged=len(expected.purged), erased=len(erased))
    _check_answers(daemon, expected, erased, counts)
    counts.findings += len(daemon.audit()["findings"]) + len(daemon.call("status")["findings"])
    assert daemon.stop() == 0, daemon.logged()[-2000:]
    check_at_rest(daemon.state, expected, erased, counts)
    counts.logged += sum(any(each in line for each in erased) for line in daemon.logged().split("\n"))
    counts.keyless += without_keys(daemon.state)
    daemon.start()
    return counts


def _check_answers(daemon: DaemonProcess, expected: Expected, erased: set[str], counts: Counts) -> None:
    now = {memory["id"]: memory for memory in everything(daemon)}
    for ref in expected.living:
        counts.memories += 1
        counts.changed += ref in now and told_of(now[ref]) != told_of(expected.before[ref])
    for verb, answer in _answers(daemon, expected, now):
        said = list(strings(answer))
        counts.told += len(said)
        if found := sum(each in erased for each in said):
            counts.read += found
            print(f"! {verb} says what was erased, {found} times", file=sys.stderr, flush=True)
    got = {memory["id"]: memory for memory in _get(daemon, sorted(expected.before))}
    for ref in expected.before:
        memory = got.get(ref, {"status": "absent"})
        counts.statuses += (memory["status"] == "purged") is not (ref in expected.purged) or memory[
            "status"
        ] == "absent"
        if ref in expected.living:
            counts.changed += told_of(memory) != told_of(expected.before[ref])


def _get(daemon: DaemonProcess, refs: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with daemon.client() as client:
        for at in range(0, len(refs), GET_IDS):
            found += client.call("get", {"ids": refs[at : at + GET_IDS]}, dict)["memories"]
    return found


def _answers(daemon: DaemonProcess, expected: Expected, now: dict[str, dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    """What every read path says, by verb: of all, and of what was purged in particular."""
    yield "list", list(now.values())
    purged = sorted(expected.purged)
    yield "get", _get(daemon, purged)
    with daemon.client() as client:
        for verb in ("trace", "explain", "history"):
            for ref in purged:
                yield verb, client.call(verb, {"id": ref}, dict)
        sessions = client.call("sessions", {"limit": 1000}, dict)
        yield "sessions", sessions
        for row in sessions["sessions"]:
            asked = {"session": row["session"], "include": ["turns"], "limit": 1000}
            yield "session", client.call("session", asked, dict)
            yield "session_provenance", client.call("session_provenance", {"session": row["session"]}, dict)
        for verb in ("review", "proposals", "cohorts", "purges", "holds", "partitions"):
            yield verb, client.call(verb, {"limit": 100}, dict)
        yield from _found(client, expected)
        params: dict[str, Any] = {"level": "content", "store_wide": True, "limit": 1000}
        while True:
            page = client.call("records", params, dict)
            yield "records", page
            if page["next_cursor"] is None:
                return
            params = {**params, "cursor": page["next_cursor"]}


def _found(client: Any, expected: Expected) -> Iterator[tuple[str, Any]]:
    """Searches for texts that were erased and stand in none that is left: what they find at all counts as said."""
    left = "\n".join(str(expected.before[ref]["text"]) for ref in expected.living)
    gone = sorted({str(expected.before[ref]["text"]) for ref in expected.purged})
    sought = [text for text in gone if text not in left]
    for text in sought[:: max(1, len(sought) // 20)]:
        yield "list of a text", [text] if client.call("list", {"sel": {"text": text}}, dict)["memories"] else []


def check_at_rest(state: Path, expected: Expected, erased: set[str], counts: Counts) -> None:
    """Everything that lies in a directory nobody has open: each file as it is, each ciphertext that a key opens."""
    for path in sorted(each for each in state.rglob("*") if each.is_file()):
        content = path.read_bytes()
        counts.at_rest += sum(said.encode() in content for said in erased)
    sought = [said.encode() for said in erased]
    texts = {said.encode() for said in erased}

    def hear(found: Readable, opened: bytes) -> bool:
        counts.plaintexts += 1
        if found.part == Part.TEXT:
            return opened in texts
        return (found.memory is not None and memory_ref(*found.memory) in expected.purged) or any(
            each in opened for each in sought
        )

    with open_to_read(state) as (store, _):
        found = open_all(store, state, hear)
        counts.unopenable += found.unopenable
        counts.opened += len(found.readable)
        counts.opened += _of_purged(store, expected)


def _of_purged(store: Store, expected: Expected) -> int:
    """Parts of purged memories that open, but for a text that one that is left says too."""
    left = {str(expected.before[ref]["text"]).encode() for ref in expected.living}
    found = 0
    for chunk in store.log.chunks():
        for record in chunk:
            event: Any = record.event
            if type(event).__name__ != "MemoryCreated" or memory_ref(event.kind, event.id) not in expected.purged:
                continue
            for part in event.parts:
                found += _opens(store, part, left)
    return found


def _opens(store: Store, part: Any, left: set[bytes]) -> bool:
    try:
        with store.env.read() as txn:
            return unseal(store.log, store.sealer, txn, part) not in left
    except PartUnreadable:
        return False


def without_keys(state: Path) -> int:
    """How many projections fold otherwise than live once every key is destroyed, in a copy."""
    with tempfile.TemporaryDirectory(prefix="noctuary-") as name:
        copy = Path(name) / "state"
        shutil.copytree(state, copy)
        with open_to_read(copy) as (store, _):
            live = ProjectionStore.open(copy / "projections", store.boot_id)
            wanted = live.digests()
            live.close(clean=False)
            vault = Vault.open(copy / "vault", store.store_id)
            vault.shred(range(1, store.log.state.vault_next))
            vault.close()
            folded = ProjectionStore.open(Path(name) / "folded", store.boot_id)
            try:
                folded.catch_up(store.log)
                found = folded.digests()
            finally:
                folded.close(clean=False)
    assert len(wanted) and DATABASES
    return sum(found[each] != wanted[each] for each in wanted)


def table(rows: Iterable[tuple[str, Counts]]) -> str:
    names = list(asdict(Counts()))
    lines = [f"{'after':28}" + " ".join(f"{name:>10}" for name in names)]
    lines += [f"{step:28}" + " ".join(f"{getattr(row, name):>10}" for name in names) for step, row in rows]
    return "\n".join(lines)
