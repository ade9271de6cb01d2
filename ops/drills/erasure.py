"""Drill: canaries. Memories are purged in every way, with all that may come between, and nothing yields them after.

    python ops/drills/erasure.py [--data FILE] [--memories N] [--sessions N] [--seed S] [--keep DIR]

Four long conversations (LoCoMo, `--data`; without the file as many are made up) are written to a daemon, and beside
them memories with every field set, a subject, a cohort of one extractor, and co-tenants of texts that will go. Then, in
rounds: forgets; purges by ids, by session, by subject, of a cohort, one of them cut off by a kill; vacuums; kills;
rebuilds, live and from nothing; a backup from before that is restored with the purge list. After each,
`erasure_checks.py` looks at every read path, every log line, every file and every ciphertext that a key still opens.
One line of counts for each; everything behind `told` is to be 0.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import noctuary
from ops.drills.erasure_checks import Counts, Expected, check, table
from tests.system.process import ENTRY, ROOT, DaemonProcess, everything

DATA = ROOT.parent / "shared" / "data" / "locomo4.json"
BAD = {"agent": "drill", "model": "m", "extractor": "bad-7"}


@dataclass
class Sizes:
    """How much is written and purged."""

    memories: int = 200
    sessions: int = 3
    rich: int = 20
    turns: int = 120
    """Of each made-up session, where there is no data."""


@dataclass
class Drill:
    """One store, and what is expected of it."""

    directory: Path
    sizes: Sizes
    chance: random.Random
    data: Path | None
    rows: list[tuple[str, Counts]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.daemon = DaemonProcess(self.directory)
        self.expected = Expected({})
        self.forgotten: list[str] = []

    def run(self) -> None:
        self.daemon.start()
        try:
            self._fill()
            self.expected = Expected({memory["id"]: memory for memory in everything(self.daemon)})
            backup = self.directory / "backup"
            self.daemon.call("backup", dir=str(backup))
            for name, step in self._steps():
                step()
                self.rows.append((name, check(self.daemon, self.expected)))
            self._restore(backup)
            self.rows.append(("restored with the list", check(self.daemon, self.expected)))
        finally:
            self.daemon.close()

    def _steps(self) -> list[tuple[str, Callable[[], None]]]:
        third = self.sizes.memories // 3
        return [
            ("purged by ids, co-tenants", lambda: self._purge_some(third)),
            (
                "forgotten, purged, vacuumed",
                lambda: self._then(self._forget, lambda: self._purge_some(third), self._vacuum),
            ),
            ("sessions purged, killed", lambda: self._then(self._purge_sessions, self._kill)),
            ("subject purged, rebuilt", lambda: self._then(self._purge_subject, self._rebuild)),
            ("cohort purged, vacuumed", lambda: self._then(self._purge_cohort, self._vacuum, self._kill)),
            ("killed while purging", lambda: self._killed_while(self.sizes.memories - 2 * third)),
            ("folded from nothing", self._fold_from_nothing),
        ]

    def _then(self, *steps: Callable[[], None]) -> None:
        for step in steps:
            step()

    # --- what is written -----------------------------------------------------------------------------

    def _fill(self) -> None:
        if self.data is not None:
            done = self.daemon.command("import", "--format", "locomo", str(self.data))
            assert done.returncode == 0, done.stderr[-1000:]
        else:
            for number in range(self.sizes.sessions + 2):
                self._make_up_session(number)
        with self.daemon.client() as client:
            for number in range(self.sizes.rich):
                client.call("remember", self._rich(number), dict)
        spoken = self.chance.sample([memory["text"] for memory in everything(self.daemon)], self.sizes.rich)
        self._write([{"kind": "raw", "subtype": "capture", "origin": "stated", "text": text} for text in spoken])
        source = next(memory["id"] for memory in everything(self.daemon))
        derived = {"kind": "note", "origin": "inferred", "derived_from": [source], "producer": BAD}
        self._write(
            [{**derived, "text": f"wrongly extracted {number} {self._word()}"} for number in range(self.sizes.rich)]
        )

    def _make_up_session(self, number: int) -> None:
        session = {"agent": "drill", "key": f"made up {number} {self._word()}"}
        turn = {"kind": "raw", "role": "user", "session": session}
        self._write([{**turn, "text": f"turn {at} of {number} {self._word()}"} for at in range(self.sizes.turns)])

    def _rich(self, number: int) -> dict[str, Any]:
        """With a word of its own in every field; every other one is of one subject."""
        word = self._word()
        return {
            "kind": "raw", "subtype": "capture", "origin": "stated", "text": f"text {word}", "topic": f"topic {word}",
            "tags": [f"tag {word}"], "entities": [{"name": f"entity {word}", "type": "person"}],
            "speaker": f"speaker {word}", "subject": "the subject of the drill" if number % 2 else f"subject {word}",
            "project": f"project {word}", "metadata": {f"name {word}": f"value {word}"},
            "facts": [{"subject": f"a {word}", "predicate": f"b {word}", "value": f"c {word}"}],
            "idempotency_key": f"key {word}",
        }  # fmt: skip

    def _word(self) -> str:
        return f"zq{self.chance.getrandbits(64):016x}"

    def _write(self, items: list[dict[str, Any]]) -> None:
        with self.daemon.client() as client:
            for at in range(0, len(items), 500):
                results = client.call("remember_many", {"items": items[at : at + 500]}, dict)["results"]
                assert all("id" in each for each in results), results[:3]

    # --- what is done --------------------------------------------------------------------------------

    def _some(self, count: int) -> list[str]:
        return self.chance.sample(sorted(self.expected.living), count)

    def _purge_some(self, count: int) -> None:
        refs = self._some(count)
        for at in range(0, len(refs), 50):
            self._purge(refs[at : at + 50])

    def _purge(self, refs: list[str], **more: Any) -> None:
        answer = self.daemon.call("purge", ids=refs, **more)
        done = {each["memory"] for each in answer["results"]}
        assert set(refs) <= done and answer["receipt"] is not None, answer
        self.expected.purged |= done

    def _purge_selected(self, sel: dict[str, Any]) -> None:
        """In two steps, and what goes is what a list says before."""
        listed: set[str] = set()
        params: dict[str, Any] = {"sel": sel, "limit": 1000}
        while True:
            page = self.daemon.call("list", **params)
            listed |= {memory["id"] for memory in page["memories"]}
            if page["next_cursor"] is None:
                break
            params["cursor"] = page["next_cursor"]
        told = self.daemon.call("purge", sel=sel)
        assert told["receipt"] is None and told["count"] >= len(listed) > 0, told
        done = self.daemon.call("purge", sel=sel, token=told["token"])
        assert done["receipt"] is not None
        self.expected.purged |= {each["memory"] for each in done["results"]} | listed

    def _purge_sessions(self) -> None:
        rows = self.daemon.call("sessions", limit=1000)["sessions"]
        for row in self.chance.sample(rows, self.sizes.sessions):
            self._purge_selected({"session": row["session"]})

    def _purge_subject(self) -> None:
        self._purge_selected({"subject": "the subject of the drill"})

    def _purge_cohort(self) -> None:
        """Quarantined first, as somebody would who found it out."""
        sel = {"producer": {"extractor": BAD["extractor"]}}
        token = self.daemon.call("cohort", sel=sel, action="quarantine")["token"]
        self.daemon.call("cohort", sel=sel, action="quarantine", token=token)
        self._purge_selected({**sel, "status": ["quarantined"]})

    def _forget(self) -> None:
        self.forgotten = self._some(self.sizes.rich)
        for ref in self.forgotten:
            self.daemon.call("forget", id=ref, note=f"note {self._word()}")
        for ref in self.forgotten[::2]:
            self.daemon.call("recover", id=ref)
        self._purge(self.forgotten[1::4])

    def _vacuum(self) -> None:
        results = self.daemon.call("vacuum", force=True)["results"]
        assert any(each["compacted"] for each in results), results

    def _kill(self) -> None:
        self.daemon.kill()
        self.daemon.start()

    def _rebuild(self) -> None:
        self.daemon.call("rebuild")

    def _fold_from_nothing(self) -> None:
        self.daemon.kill()
        shutil.rmtree(self.daemon.state / "projections")
        self.daemon.start()

    def _killed_while(self, count: int) -> None:
        """The kill comes at any moment of the purge; then it is asked again under its key."""
        refs = self._some(count)
        key = self._word()

        def ask() -> None:
            try:
                self.daemon.call("purge", ids=refs, idempotency_key=key)
            except noctuary.NoctuaryError:
                return

        asking = threading.Thread(target=ask)
        asking.start()
        asking.join(self.chance.random() * 0.03)
        self.daemon.kill()
        asking.join()
        self.daemon.start()
        self._purge(refs, idempotency_key=key)

    def _restore(self, backup: Path) -> None:
        """The backup is from before everything that was purged."""
        assert self.daemon.stop() == 0
        old, restored = self.daemon.state, self.directory / "restored"
        command = [*ENTRY, "--json", "restore", str(backup), "--state", str(restored), "--purges", str(old / "purges")]
        done = subprocess.run(
            command, cwd=ROOT, env=self.daemon.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert json.loads(done.stdout)
        self.daemon.state = restored
        self.daemon.start()


def main() -> int:
    parser = argparse.ArgumentParser(description="canaries that are purged, and looked for everywhere")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--memories", type=int, default=200)
    parser.add_argument("--sessions", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="work here, and leave it")
    given = parser.parse_args()
    data = given.data if given.data.exists() else None
    print(f"{data or 'made-up conversations'}; seed {given.seed}", flush=True)
    sizes = Sizes(given.memories, given.sessions)
    with tempfile.TemporaryDirectory(prefix="noctuary-") as name:
        drill = Drill(given.keep or Path(name), sizes, random.Random(given.seed), data)
        try:
            drill.run()
        finally:
            print(table(drill.rows), flush=True)
    passed = all(counts.clean for _, counts in drill.rows)
    print("clean" if passed else "NOT CLEAN")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
