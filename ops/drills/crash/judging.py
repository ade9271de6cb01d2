"""Judges as processes: they are given states, and one that dies of a state is replaced, which is a finding."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from ops.drills.crash.judge import Brief, Case, Verdict
from ops.drills.crash.recording import ROOT
from ops.drills.crash.states import State

VERDICT_WITHIN_S = 120.0
JUDGE = "from ops.drills.crash.judge import main; raise SystemExit(main())"
"""Not as a main module: the children that walk would load it anew."""
_DECODE = msgspec.json.Decoder(Verdict).decode

Found = Callable[[State, Verdict], None]


class JudgeProcess:
    """One judge. `ask` starts it, if it doesn't run."""

    def __init__(self, brief: Brief) -> None:
        self._brief = msgspec.json.encode(brief) + b"\n"
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, case: Case) -> Verdict:
        """Its verdict; that it died, if it did."""
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        watch = threading.Timer(VERDICT_WITHIN_S, process.kill)
        watch.start()
        try:
            process.stdin.write(msgspec.json.encode(case) + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            watch.cancel()
        return _DECODE(line) if line.endswith(b"\n") else self._died(process)

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            [sys.executable, "-c", JUDGE], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(self._brief)
        return self._process

    def _died(self, process: subprocess.Popen[bytes]) -> Verdict:
        self.close()
        code = process.returncode
        verdict = Verdict()
        verdict.note("died", signal.Signals(-code).name if code < 0 else f"exit {code}")
        return verdict

    def close(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.wait()
        process.stdout.close()


class Court:
    """Several judges at work. States are put in `directory`, one subdirectory each, and removed when judged.

    `found` is called for each state, by one thread at a time.
    """

    def __init__(self, brief: Brief, directory: Path, judges: int, found: Found) -> None:
        self._brief = brief
        self._directory = directory
        self._found = found
        self._lock = threading.Lock()
        self._waiting: queue.Queue[tuple[State, Case, Path] | None] = queue.Queue(judges)
        self._threads = [threading.Thread(target=self._run) for _ in range(judges)]
        self._error: BaseException | None = None
        self._count = 0
        for thread in self._threads:
            thread.start()

    def place(self) -> Path:
        """Where the next state is to be made."""
        self._count += 1
        return self._directory / str(self._count)

    def submit(self, state: State, case: Case, place: Path) -> None:
        """Have the state in `place` judged. Waits while all judges are busy."""
        if self._error is not None:
            raise self._error
        self._waiting.put((state, case, place))

    def close(self) -> None:
        """Wait for the last verdict. Raises what a judge's thread raised."""
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        judge = JudgeProcess(self._brief)
        try:
            while (item := self._waiting.get()) is not None:
                if self._error is None:
                    self._judge(judge, *item)
        finally:
            judge.close()

    def _judge(self, judge: JudgeProcess, state: State, case: Case, place: Path) -> None:
        try:
            verdict = judge.ask(case)
            with self._lock:
                self._found(state, verdict)
            shutil.rmtree(place)
        except BaseException as error:
            self._error = error
