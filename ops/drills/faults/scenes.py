"""The scenes of a fault drill: on what store, on which threads, and while the daemon does what.

| scene | the tracer is on | while |
|---|---|---|
| create | the process, from its first call | a store is made, opened and served |
| start | the process, from its first call | a store that was stopped clean is opened and served |
| refold | the process, from its first call | a store without projections is opened |
| finish | the process, from its first call | a store whose last PURGE was cut short is opened |
| commit | all threads but the main one | waves of writes are answered |
| extend | all threads but the main one | the same, where the vault runs out of keys ahead |
| stop | the main thread | SIGTERM ends it |

The stores are made once by daemons without faults and copied for each run.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from journal.events import MemoryCreated, Purged, PurgeTarget
from journal.record import Actor, Cause, Record, encode_body
from journal.store import open_store
from journal.vault import KEYED_AHEAD_SLOTS
from ops.drills.faults import judging, tracing, writing
from ops.drills.faults.judging import Evidence, Verdict
from ops.drills.faults.tracing import TracedDaemon
from tests.system.process import DaemonProcess, everything

BASE_WAVES = 2
COMMIT_WAVES = 4
KEYS_LEFT = 6  # fewer than a wave takes
READY_WITHIN_S = 30.0
END_WITHIN_S = 30.0


@dataclass(frozen=True)
class Scene:
    """`store` names the template; `files` those that are of interest (by the start of the path; "" all)."""

    name: str
    store: str
    calls: tuple[str, ...]
    act: Callable[[TracedDaemon, list[str], Run], None]
    file: str = ""


@dataclass
class Run:
    """What happened under the tracer."""

    evidence: Evidence
    code: int | None = None  # the exit code; None: it had to be killed
    hung: bool = False


# --- what is done under the tracer -----------------------------------------------------------------


def open_and_serve(daemon: TracedDaemon, options: list[str], run: Run) -> None:
    """Open under the tracer; if that goes well, write a wave and stop."""
    daemon.spawn_traced(options)
    deadline = time.monotonic() + READY_WITHIN_S
    while daemon.running and not daemon.answers() and time.monotonic() < deadline:
        time.sleep(tracing.POLL_S)  # between two questions
    run.hung = time.monotonic() >= deadline
    if daemon.running and not run.hung:
        _write(daemon, run, waves=1)
    _end(daemon, run)


def write_then_stop(daemon: TracedDaemon, options: list[str], run: Run) -> None:
    """Waves of writes under the tracer, the stop without it."""
    daemon.start()
    daemon.attach(daemon.other_threads(), options)
    _write(daemon, run, COMMIT_WAVES)
    if all(write.fate is writing.Fate.ACKED for write in run.evidence.writes) and daemon.running:
        daemon.detach()
    _end(daemon, run)


def stop_traced(daemon: TracedDaemon, options: list[str], run: Run) -> None:
    """A wave of writes without the tracer, the stop under it."""
    daemon.start()
    _write(daemon, run, waves=1)
    daemon.attach(daemon.main_threads(), options)
    _end(daemon, run)


def _write(daemon: TracedDaemon, run: Run, waves: int) -> None:
    sent = writing.send(daemon.socket, "under", waves)
    run.evidence.writes += sent.writes
    run.hung |= sent.hung


def _end(daemon: TracedDaemon, run: Run) -> None:
    """Its exit code. One that failed ends by itself, but a signal does no harm then."""
    run.code = daemon.ended(END_WITHIN_S)
    run.hung |= run.code is None
    daemon.detach()


_ALL = tracing.WRITING
_OPENING = (*tracing.WRITING, *tracing.READING)
SCENES = (
    Scene("create", "", _ALL, open_and_serve),
    Scene("start", "served", _OPENING, open_and_serve),
    Scene("refold", "bare", _ALL, open_and_serve, "projections"),
    Scene("finish", "purging", _OPENING, open_and_serve),
    Scene("commit", "served", _ALL, write_then_stop),
    Scene("extend", "edge", _ALL, write_then_stop, "vault"),
    Scene("stop", "served", _ALL, stop_traced),
)


# --- the stores ------------------------------------------------------------------------------------


class Templates:
    """Stores by name, each with the texts that are in it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.texts: dict[str, list[str]] = {"": []}

    def copy(self, name: str, to: DaemonProcess) -> list[str]:
        """Put a copy where the daemon looks; the texts in it."""
        if name not in self.texts:
            self.texts[name] = self._make(name)
        if name:
            shutil.copytree(self._directory / name / "state", to.state, symlinks=True)
        return self.texts[name]

    def _make(self, name: str) -> list[str]:
        directory = self._directory / name
        directory.mkdir()
        daemon = DaemonProcess(directory)
        daemon.start()
        try:
            sent = writing.send(daemon.socket, "base", BASE_WAVES)
            assert all(write.fate is writing.Fate.ACKED for write in sent.writes)
            if name == "edge":
                _use_keys(daemon)
            texts = [memory["text"] for memory in everything(daemon)]
            assert daemon.stop() == 0, daemon.logged()
        finally:
            daemon.close()
        if name == "bare":
            shutil.rmtree(daemon.state / "projections")
        if name == "purging":
            texts = _purge_in_part(daemon.state, texts)
        return texts


def _use_keys(daemon: DaemonProcess) -> None:
    """Write until the next wave is what makes the vault run short of keys ahead."""
    with daemon.client() as client:
        while (left := daemon.call("status")["keys_ready"] - KEYED_AHEAD_SLOTS - KEYS_LEFT) > 0:
            texts = [f"{writing.MARK} filler {left - at}" for at in range(min(left, 500))]
            items = [{"kind": "raw", "subtype": "capture", "origin": "stated", "text": text} for text in texts]
            client.call("remember_many", {"items": items}, dict)


def _purge_in_part(state: Path, texts: list[str]) -> list[str]:
    """Commit a PURGE of one memory as a daemon would that died right behind the commit; the texts left."""
    store = open_store(state, version="0.1.0", now_ms=int(time.time() * 1000))
    records = [record for chunk in store.log.chunks() for record in chunk]
    made = next(record for record in records if isinstance(record.event, MemoryCreated))
    assert isinstance(made.event, MemoryCreated)
    event = Purged(targets=(PurgeTarget(made.event.kind, made.event.id),), parts=made.event.parts)
    seq = store.log.head().seq + 1
    record = Record(seq, made.at_ms, made.tenant, Actor(0, 0, 0), Cause(seq, "purge"), event)
    store.log.append([encode_body(record)], [], store.log.state, destroying_seqs=(seq,))
    store.close(clean=False)
    return [text for text in texts if text != f"{writing.MARK} base.0.0"]


# --- one run ---------------------------------------------------------------------------------------


@dataclass
class Result:
    hits: int
    verdict: Verdict
    notes: str  # what is worth showing when it isn't clean


def record_calls(scene: Scene, templates: Templates, directory: Path) -> Counter[tuple[str, str]]:
    """A run without faults: (file, call) -> how often it happens."""
    daemon = TracedDaemon(directory)
    try:
        run = Run(Evidence(templates.copy(scene.store, daemon)))
        scene.act(daemon, tracing.recording(scene.calls), run)
        assert run.code == 0 and not run.hung, daemon.logged()
        counted = tracing.recorded(daemon.noted(), daemon.state)
        return Counter({key: many for key, many in counted.items() if key[0].startswith(scene.file)})
    finally:
        daemon.close()


def run_with_fault(scene: Scene, injection: tracing.Injection, templates: Templates, directory: Path) -> Result:
    """One run with the fault, one without on what it left, and what the judge says."""
    daemon = TracedDaemon(directory)
    try:
        run = Run(Evidence(templates.copy(scene.store, daemon)))
        scene.act(daemon, injection.options(daemon.state), run)
        hits = injection.hits(daemon.noted())
        verdict = Verdict(hangs=int(run.hung))
        lawful = judging.lawful_exits(injection, creating=scene.name == "create")
        verdict.exits = int(bool(hits) and run.code not in lawful)
        log = daemon.logged()
        why = _look_again(daemon, run.evidence, verdict)
        verdict += judging.judge_answers(injection, run.evidence)
        verdict.leaks = sum(word in daemon.logged() for word in (writing.MARK, "Traceback"))
        return Result(hits, verdict, f"exit {run.code}; {why}; {log[-1200:]}")
    finally:
        daemon.close()


def _look_again(daemon: TracedDaemon, seen: Evidence, verdict: Verdict) -> str:
    """Start without faults, collect the evidence, and judge; what kept it from that."""
    try:
        daemon.start()
        seen.before = _memories(daemon)
        with daemon.client() as client:
            for write in seen.writes:
                if write.fate is not writing.Fate.REFUSED:
                    seen.again[write.key] = writing.ids_of(client.call(*write.call, dict))
        seen.after = _memories(daemon)
        verdict.findings = len(daemon.audit()["findings"]) + len(daemon.call("status")["findings"])
        verdict.unopened = int(daemon.stop() != 0)
    except Exception as error:
        # Whatever it is: what is in the store could not be seen, which is a fault of its own and not judged further.
        verdict.unopened = 1
        return f"{type(error).__name__}: {error}"
    verdict += judging.judge_writes(seen)
    return "opened again"


def _memories(daemon: DaemonProcess) -> list[tuple[str, str]]:
    return [(memory["id"], memory["text"]) for memory in everything(daemon)]
