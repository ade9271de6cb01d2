"""Drill: `kill -9` under load. Counts what was acked and is lost, doubled, torn or out of order.

    python ops/drills/kill9.py [--rounds N] [--clients N] [--acks N]

Each round starts the daemon on the same store, lets clients write pipelined, kills it in the middle of
their writing, starts it again and compares what is there with what was acked. Then every write whose
answer was lost is sent again under its key: it must be there once. All counts but the last are to be 0.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import itertools

from tests.system.process import DaemonProcess, everything

WINDOW = 64
COLUMNS = ("acked", "lost", "changed", "phantom", "gaps", "disorder", "doubled", "findings", "unanswered")


@dataclass
class Counts:
    """What one round found."""

    acked: int = 0
    lost: int = 0  # acked, and not there
    changed: int = 0  # acked, and there with another text
    phantom: int = 0  # there, and never sent
    gaps: int = 0  # not there, though a later write of the same connection is
    disorder: int = 0  # there, in another order than it was sent in
    doubled: int = 0  # there more than once, also after it was sent again
    findings: int = 0  # of audit, after all
    unanswered: int = 0  # sent, the answer cut off by the kill: may be there or not

    @property
    def clean(self) -> bool:
        return not any(getattr(self, name) for name in COLUMNS[1:-1])


@dataclass
class Load:
    """One client: writes pipelined, until the connection breaks."""

    path: Path
    name: str
    on_ack: Callable[[], None]
    acked: dict[str, str] = field(default_factory=dict)  # text -> id
    sent: list[str] = field(default_factory=list)
    refused: list[Any] = field(default_factory=list)

    def run(self) -> None:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
                stream.connect(str(self.path))
                with stream.makefile("rb") as answers:
                    self._write(stream, answers)
        except (ConnectionError, BrokenPipeError):
            pass  # the kill

    def _write(self, stream: socket.socket, answers: Any) -> None:
        self._send(stream, WINDOW)
        while (line := answers.readline()).endswith(b"\n"):
            self._take(json.loads(line))
            self._send(stream, 1)

    def _send(self, stream: socket.socket, many: int) -> None:
        texts = [f"{self.name} {len(self.sent) + place}" for place in range(many)]
        self.sent += texts
        stream.sendall(b"".join(map(request_line, texts)))

    def _take(self, answer: dict[str, Any]) -> None:
        if "result" in answer:
            self.acked[answer["id"]] = answer["result"]["id"]
            self.on_ack()
        else:
            self.refused.append(answer["error"])
            self.on_ack()


def params_of(text: str) -> dict[str, Any]:
    return {"kind": "raw", "subtype": "capture", "origin": "stated", "text": text, "idempotency_key": text}


def request_line(text: str) -> bytes:
    request = {"jsonrpc": "2.0", "id": text, "method": "remember", "params": params_of(text)}
    return json.dumps(request).encode() + b"\n"


class Drill:
    """Rounds on one store."""

    def __init__(self, daemon: DaemonProcess, clients: int, acks: int) -> None:
        self.daemon = daemon
        self.clients = clients
        self.acks = acks
        self.acked: dict[str, str] = {}
        self.sent: list[list[str]] = []

    def round(self, number: int) -> Counts:
        """Start, load, kill, start, count, send again, count, stop."""
        self.daemon.start()
        loads = self._load_and_kill(number)
        for load in loads:
            assert not load.refused, load.refused[:3]
            self.acked |= load.acked
            self.sent.append(load.sent)
        self.daemon.start()
        counts = self._count()
        counts.unanswered = sum(len(load.sent) - len(load.acked) for load in loads)
        self._send_again(loads)
        there = Counter(memory["text"] for memory in everything(self.daemon))
        counts.doubled += sum(many > 1 for many in there.values())
        counts.lost += sum(text not in there for load in loads for text in load.sent)
        counts.findings = len(self.daemon.audit()["findings"])
        assert self.daemon.stop() == 0
        return counts

    def _load_and_kill(self, number: int) -> list[Load]:
        enough = threading.Event()
        left = iter(range(self.acks, -1, -1))
        lock = threading.Lock()

        def on_ack() -> None:
            with lock:
                if next(left, 0) == 0:
                    enough.set()

        loads = [Load(self.daemon.socket, f"{number}.{client}", on_ack) for client in range(self.clients)]
        threads = [threading.Thread(target=load.run) for load in loads]
        for thread in threads:
            thread.start()
        reached = enough.wait(60)
        self.daemon.kill()
        for thread in threads:
            thread.join(60)
        assert reached and not any(thread.is_alive() for thread in threads), "the load didn't run as meant"
        return loads

    def _count(self) -> Counts:
        memories = everything(self.daemon)
        texts = {memory["id"]: memory["text"] for memory in memories}
        seqs = {memory["text"]: memory["address"]["seq"] for memory in memories}
        counts = Counts(acked=len(self.acked))
        counts.lost = sum(ref not in texts for ref in self.acked.values())
        counts.changed = sum(ref in texts and texts[ref] != text for text, ref in self.acked.items())
        counts.doubled = len(memories) - len(seqs)
        sent = {text for each in self.sent for text in each}
        counts.phantom = sum(text not in sent for text in seqs)
        for each in self.sent:
            present = [text in seqs for text in each]
            counts.gaps += sum(not here for here in present[: sum(present)])
            order = [seqs[text] for text in each if text in seqs]
            counts.disorder += sum(after <= before for before, after in itertools.pairwise(order))
        return counts

    def _send_again(self, loads: list[Load]) -> None:
        """Everything of this round, acked or not, under the keys of the first time."""
        with self.daemon.client() as client:
            for load in loads:
                calls = [("remember", params_of(text)) for text in load.sent]
                for text, answer in zip(load.sent, client.call_many(calls), strict=True):
                    if isinstance(answer, Exception):
                        raise answer
                    if text in load.acked:
                        assert answer.duplicate and answer.id == load.acked[text], text


def main() -> int:
    parser = argparse.ArgumentParser(description="kill -9 under load")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--acks", type=int, default=2000, help="acks after which it is killed")
    given = parser.parse_args()
    print("round " + " ".join(f"{name:>10}" for name in COLUMNS))
    clean = True
    with tempfile.TemporaryDirectory(prefix="noctuary-") as name:
        daemon = DaemonProcess(Path(name))
        drill = Drill(daemon, given.clients, given.acks)
        try:
            for number in range(given.rounds):
                counts = drill.round(number)
                clean = clean and counts.clean
                row = asdict(counts)
                print(f"{number:5d} " + " ".join(f"{row[column]:10d}" for column in COLUMNS), flush=True)
        finally:
            daemon.close()
    print("clean" if clean else "NOT CLEAN")
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
