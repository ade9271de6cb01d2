"""The scenario: real programs traced on one state directory, with a power cut in between.

An *era* is what lies between two power cuts: the files it began with, and the programs traced in it. Era 1
makes the store, writes, stops clean, starts again and is killed in the middle of writing; then the power
goes, and some of what no sync had covered with it. Era 2 starts on what is left, under another boot id, so
that its recovery is traced too; it writes, commits passes of sleep, purges, starts once more and stops.

Invariant: after each program the model of the disk holds, byte for byte, what the file system shows.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import noctuary
from ops.drills.crash.booted import new_boot
from ops.drills.crash.disk import Directory, Disk, Fates
from ops.drills.crash.fates import Scattered
from ops.drills.crash.load import Request, run_clients
from ops.drills.crash.purging import purge_requests
from ops.drills.crash.replay import OPAQUE, Replay
from ops.drills.crash.trace import TRACED, BadTrace, Call, parse_trace

ROOT = Path(__file__).resolve().parents[3]
STATE = "state"
PROJECTIONS = f"{STATE}/projections/data.mdb"
READY_WITHIN_S = 60.0
END_WITHIN_S = 60.0
POLL_S = 0.01
WHOLE_STRINGS = 1 << 27


def strace_problem() -> str | None:
    """Why strace can't be used here; None when it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(["strace", "-f", "-o", os.devnull, "true"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"strace can't trace: {tried.stderr.strip()[:200]}"


@dataclass
class Program:
    """One traced program. `boot` is the file with its boot id."""

    name: str
    boot: Path
    calls: list[Call]
    lines: int


@dataclass
class Era:
    """`base` is a copy of what the directory held when it began; None: nothing."""

    base: Path | None
    programs: list[Program] = field(default_factory=list)

    def disk(self) -> Disk:
        return Disk() if self.base is None else Disk.load(self.base)


class Recording:
    """Records the scenario under `work`, which must have a short path. `size` multiplies the load.

    `given`: see `Replay`.
    """

    def __init__(self, work: Path, size: int, seed: int, given: frozenset[str]) -> None:
        self.work = work
        self.root = work / "traced"
        self.socket = work / "s"
        self.size = size
        self.seed = seed
        self.given = given
        self.requests: list[Request] = []
        self.eras: list[Era] = []
        self._disk = Disk()
        self._origin = 0

    def record(self) -> None:
        """All of it. Raises BadTrace when the model and the file system differ."""
        self.root.mkdir()
        boot = new_boot(self.work / "boot-1")
        self.eras.append(Era(None))
        self._daemon("made", boot, lambda pid: self._load(["a", "b"]))
        self._daemon("killed", boot, self._load_and_kill)
        self._cut_power()
        boot = new_boot(self.work / "boot-2")
        self._daemon("recovered", boot, lambda pid: self._load(["d", "e"]))
        self._sleep(boot)
        self._purge(boot)
        self._daemon("last", boot, lambda pid: self._load(["f"]))

    # --- programs ----------------------------------------------------------------------------------------

    def _daemon(self, name: str, boot: Path, use: Callable[[int], None]) -> None:
        """Start the daemon, use it, stop it (if it still runs), and take its trace in."""
        words = ("daemon.cli.entry", "daemon", "--state", str(self.root / STATE), "--socket", str(self.socket))
        process = self._spawn(name, boot, words)
        try:
            pid = self._ready(process)
            use(pid)
            with contextlib.suppress(ProcessLookupError):  # it was killed
                os.kill(pid, signal.SIGTERM)
            process.wait(END_WITHIN_S)
        finally:
            _end(process)
        self._take(name, boot)

    def _purge(self, boot: Path) -> None:
        requests = purge_requests("p")
        self.requests += requests
        listed = self.work / "purge-requests.json"
        listed.write_text(json.dumps(requests), "utf-8")
        self._program("purged", boot, ("ops.drills.crash.purging", str(self.root / STATE), str(listed)))

    def _sleep(self, boot: Path) -> None:
        """Passes, as they are committed; it is left as a killed process leaves it."""
        listed = self.work / "sleep-requests.json"
        self._program("slept", boot, ("ops.drills.crash.sleeping", str(self.root / STATE), str(listed)))
        self.requests += [Request(*each) for each in json.loads(listed.read_text("utf-8"))]

    def _program(self, name: str, boot: Path, words: tuple[str, ...]) -> None:
        process = self._spawn(name, boot, words)
        try:
            code = process.wait(END_WITHIN_S)
        finally:
            _end(process)
        if code:
            raise AssertionError(f"{words[0]} ended with {code}: {self._logged(name)}")
        self._take(name, boot)

    def _spawn(self, name: str, boot: Path, words: tuple[str, ...]) -> subprocess.Popen[bytes]:
        strace = ["strace", "-f", "-qq", "--seccomp-bpf", "-xx", "-s", str(WHOLE_STRINGS)]
        strace += ["-e", "trace=" + ",".join(TRACED), "-e", "signal=none", "-o", str(self._trace(name)), "--"]
        python = [sys.executable, "-m", "ops.drills.crash.booted", str(boot), *words]
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("NOCTUARY_", "XDG_"))}
        environment = {**kept, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(self.work / "none")}
        with (self.work / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                strace + python, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def _trace(self, name: str) -> Path:
        return self.work / f"{name}.trace"

    def _logged(self, name: str) -> str:
        return (self.work / f"{name}.log").read_text("utf-8", "replace")[-2000:]

    def _ready(self, process: subprocess.Popen[bytes]) -> int:
        """The pid of the daemon, once it answers."""
        deadline = time.monotonic() + READY_WITHIN_S
        while process.poll() is None and time.monotonic() < deadline:
            try:
                with noctuary.Client(str(self.socket)) as client:
                    if client.hello().state == "ready":
                        return _child(process.pid)
            except (noctuary.Unreachable, noctuary.Unavailable):
                pass
            time.sleep(POLL_S)  # between two questions; nothing is assumed to have happened meanwhile
        raise AssertionError("the traced daemon does not get ready")

    # --- load ----------------------------------------------------------------------------------------------

    def _load(self, names: list[str]) -> None:
        self.requests += run_clients(self.socket, names, self.size)

    def _load_and_kill(self, pid: int) -> None:
        """SIGKILL at an answer in the middle of the load."""
        left = iter(range(9 * self.size, -1, -1))
        lock = threading.Lock()

        def on_answer() -> None:
            with lock:
                if next(left, None) == 0:
                    os.kill(pid, signal.SIGKILL)

        self.requests += run_clients(self.socket, ["c", "k"], 2 * self.size, on_answer)

    # --- the model beside it -------------------------------------------------------------------------------

    def _take(self, name: str, boot: Path) -> None:
        """Play the trace on the model, and hold the model against the directory."""
        with self._trace(name).open("r", encoding="ascii") as lines:
            calls = parse_trace(lines)
        program = Program(name, boot, calls, max((call.ended for call in calls), default=0) + 1)
        replay = Replay(self._disk, str(self.root), self._origin, given=self.given)
        for _ in replay.play(calls):
            pass
        if differences(self._disk.root, self.root):
            program.calls += self._finish(replay, calls)
        self._origin += program.lines
        self.eras[-1].programs.append(program)
        differing = list(differences(self._disk.root, self.root))
        if differing:
            raise BadTrace(f"after {name} the model differs from the directory in {', '.join(differing)}")

    def _finish(self, replay: Replay, calls: list[Call]) -> list[Call]:
        """The writes that were under way at a kill: what differs may be that they were done, unseen."""
        cut = [call for call in calls if call.result is None and "write" in call.name]
        done = [call._replace(result=sum(map(len, call.strings()))) for call in cut]
        for _ in replay.play(done):
            pass
        return done

    def _cut_power(self) -> None:
        """Put a state that a power cut may leave in the place of the directory, projections in pieces."""
        base = self.work / "base-2"
        self._disk.put_under(base, Scattered(random.Random(self.seed), PROJECTIONS))
        shutil.rmtree(self.root)
        shutil.copytree(base, self.root)
        self._disk = Disk.load(base)
        self.eras.append(Era(base))


def _end(process: subprocess.Popen[bytes]) -> None:
    """No process is left of it: strace that dies lets go of what it traces, so its whole group is ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _child(pid: int) -> int:
    """The one child of strace's."""
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    return int(child)


def differences(directory: Directory, path: Path) -> list[str]:
    """The paths that are not alike in the model and under `path`."""
    there = {entry.name: Path(entry.path) for entry in os.scandir(path)}
    found = [str(path / name) for name in there.keys() ^ directory.names.keys()]
    for name in there.keys() & directory.names.keys():
        node = directory.names[name]
        if isinstance(node, Directory):
            found += differences(node, there[name])
        elif name not in OPAQUE and node.content(Fates().writes(name, node)) != there[name].read_bytes():
            found.append(str(there[name]))
    return found
