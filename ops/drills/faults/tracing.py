"""System calls of a daemon, watched or made to fail, with strace.

A fault is one call of one name on one file, counted from the moment the tracer is there. strace counts per
thread, so a tracer is put on those threads only whose calls are meant. strace's `--seccomp-bpf` is not used:
with it, calls on other files are counted too. Whether a fault struck is read from what strace noted, never
assumed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum, unique
from pathlib import Path

import noctuary
from tests.system.process import ENTRY, ROOT, DaemonProcess

ATTACH_WITHIN_S = 10.0
POLL_S = 0.002
WRITING = (
    "pwrite64", "pwritev", "pwritev2", "write", "writev", "fdatasync", "fsync", "msync", "ftruncate", "fallocate",
    "rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat",
)  # fmt: skip
READING = ("openat", "read", "pread64", "mmap", "flock")
LOADING = ("write", "writev", "pwrite64", "pwritev", "pwritev2")
_CALL = re.compile(r"(?:\d+ +)?(?P<call>\w+)\((?P<rest>.*)")
_CUT_OFF = re.compile(r"(= \?|<unfinished \.\.\.>)\s*$")


@unique
class Fault(StrEnum):
    """What happens to the call instead of itself."""

    EIO = "EIO"
    ENOSPC = "ENOSPC"
    SHORT = "short"  # it says that it wrote 0 bytes, and wrote none
    LASTING = "EIO+"  # it fails with EIO, and so do all behind it
    KILL = "kill"  # the process is gone before the call is made

    @property
    def injection(self) -> str:
        match self:
            case Fault.EIO | Fault.ENOSPC:
                return f"error={self.value}"
            case Fault.LASTING:
                return "error=EIO"
            case Fault.SHORT:
                return "retval=0"
            case Fault.KILL:
                return "signal=KILL"


@dataclass(frozen=True)
class Injection:
    """The `number`th (from 1) `call` on `file` (a path under the state directory, "" for itself) fails."""

    call: str
    file: str
    number: int
    fault: Fault

    def options(self, state: Path) -> list[str]:
        """Of strace."""
        when = f"{self.number}+" if self.fault is Fault.LASTING else f"{self.number}"
        inject = f"inject={self.call}:{self.fault.injection}:when={when}"
        return ["-P", str(state / self.file), "-e", f"trace={self.call}", "-e", inject]

    def hits(self, noted: str) -> int:
        """How often it struck, by what strace noted."""
        if self.fault is Fault.KILL:
            cut_off = [line for line in noted.splitlines() if _CALL.match(line) and _CUT_OFF.search(line)]
            # Another thread may be within a traced call too when it strikes: then two are cut off.
            return int("killed by SIGKILL" in noted and bool(cut_off))
        return noted.count("(INJECTED)")


def recording(calls: tuple[str, ...]) -> list[str]:
    """Options that let everything happen and note it with the files."""
    return ["-y", "-e", f"trace={','.join(calls)}"]


def recorded(noted: str, state: Path) -> Counter[tuple[str, str]]:
    """(file, call) -> how often, of the calls on what is under the state directory."""
    found: Counter[tuple[str, str]] = Counter()
    path = re.compile(re.escape(str(state)) + r"(/[^\">]*)?[\">]")
    for line in noted.splitlines():
        call = _CALL.match(line)
        if call is None or (on := path.search(call["rest"])) is None:
            continue
        found[(on[1] or "").removeprefix("/"), call["call"]] += 1
    return found


def why_not() -> str | None:
    """Why nothing can be traced here; None when it can: tried on a process that is as closed as the daemon."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    program = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print('closed', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tried:
        assert tried.stdin is not None and tried.stdout is not None
        tried.stdout.readline()
        try:
            with subprocess.Popen(
                ["strace", "-qq", "-o", os.devnull, "-p", str(tried.pid)], stderr=subprocess.PIPE
            ) as tracer:
                reached = _traced(tracer, [tried.pid])
                tracer.terminate()
        finally:
            tried.kill()
    return None if reached else "strace may not trace here (needs root or CAP_SYS_PTRACE)"


def _traced(tracer: subprocess.Popen[bytes], threads: list[int]) -> bool:
    """Whether the tracer got hold of all the threads before it ended or the time was up."""
    deadline = time.monotonic() + ATTACH_WITHIN_S
    while time.monotonic() < deadline and tracer.poll() is None:
        if all(_tracer_of(thread) for thread in threads):
            return True
        time.sleep(POLL_S)  # between two looks
    return False


def _tracer_of(thread: int) -> int:
    try:
        status = Path(f"/proc/{thread}/status").read_text("ascii", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(status.partition("TracerPid:")[2].split(None, 1)[0])


class TracedDaemon(DaemonProcess):
    """A daemon that runs under a tracer from its first call on, or gets one while it serves."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, "d")
        self._notes = directory / "calls"
        self._tracer: subprocess.Popen[bytes] | None = None

    def spawn_traced(self, options: list[str]) -> None:
        """Start it under strace; the tracer is a grandchild, so pid and exit code are those of the daemon."""
        assert self._process is None
        tracer = ["strace", "-D", "-f", "-qq", "-o", str(self._notes), *options, "--"]
        command = [*tracer, *ENTRY, "daemon", "--state", str(self.state), "--socket", str(self.socket)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def attach(self, threads: list[int], options: list[str]) -> None:
        """Put strace on threads of the running daemon; it has them when this returns."""
        on = [word for thread in threads for word in ("-p", str(thread))]
        self._tracer = subprocess.Popen(
            ["strace", "-qq", "-o", str(self._notes), *options, *on],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert _traced(self._tracer, threads), "strace didn't attach"

    def detach(self) -> None:
        """Take an attached tracer off, if there is one; what it noted is complete after this."""
        if self._tracer is None:
            return
        if self._process is not None and self._tracer.poll() is None:
            self._tracer.terminate()
        try:
            self._tracer.wait(ATTACH_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._tracer.kill()
            self._tracer.wait()
        self._tracer = None

    def main_threads(self) -> list[int]:
        return [self.pid]

    def other_threads(self) -> list[int]:
        return [int(name) for name in os.listdir(f"/proc/{self.pid}/task") if int(name) != self.pid]

    def noted(self) -> str:
        """What the tracer noted."""
        return self._notes.read_text("utf-8", "replace") if self._notes.exists() else ""

    def close(self) -> None:
        super().close()
        self.detach()

    def answers(self) -> bool:
        """Whether it serves now, if only for reading."""
        try:
            with self.client() as client:
                return bool(client.hello().state in ("ready", "read_only"))
        except (noctuary.Unreachable, noctuary.Unavailable):
            return False

    def ended(self, within_s: float) -> int | None:
        """Its exit code after SIGTERM; None when it had to be killed."""
        assert self._process is not None
        process = self._process
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None
        finally:
            self._ended()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None
