"""Opens state directories as the daemon does, each in a process of its own, and tells what it was like.

    python ops/drills/damage_opening.py < paths

Reads a path a line, forks, and answers with the child's wait status. The child leaves `<path>.told`, JSON:
the exit code a daemon would have ended with and its message, or all answers. A child that died left none.
Forking spares each case the start of Python; nothing is open in the parent.
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import resource
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import msgspec

from daemon.call import Call
from daemon.caller import Caller
from daemon.exits import Exit
from daemon.moment import Moment, system_clock_ms
from daemon.opening import open_all
from daemon.refusal import Refused
from daemon.service import Service
from daemon.wire.verbs import VERBS
from journal.codes import CallerRole
from journal.errors import NoctuaryFault
from journal.space import SpaceGuard
from projections.rows import DamagedRow

WITHIN_S = 60
RESERVE_BYTES = 1 << 16
OPERATOR = Caller(uid=os.getuid(), role=CallerRole.OPERATOR, tenants_read=None, tenants_write=None)


class Questions:
    """The service of one opened store, asked in this process."""

    def __init__(self, service: Service, answered: queue.SimpleQueue[Any], now_ms: int) -> None:
        self._service = service
        self._answered = answered
        self._now_ms = now_ms

    def read(self, verb: str, **params: Any) -> Any:
        """The answer as JSON; `{"error": class}` when there is none."""
        try:
            answer = self._service.read(verb, msgspec.convert(params, VERBS[verb].params), OPERATOR)
        except Exception as error:
            return {"error": type(error).__name__, "what": str(error), "frames": traceback.format_exc()}
        return json.loads(msgspec.json.encode(answer))

    def remember(self, text: str) -> Any:
        params = {"kind": "raw", "subtype": "capture", "origin": "stated", "text": text}
        typed = msgspec.convert(params, VERBS["remember"].params)
        self._service.submit(Call("remember", typed, OPERATOR, lambda outcome: None))
        _, outcome = self._answered.get(timeout=WITHIN_S)
        if isinstance(outcome, Refused):
            return {"error": outcome.reason.wire}
        return {"id": outcome.id}

    def everything(self, ids: dict[str, list[str]]) -> dict[str, Any]:
        """What is asked of every store: each memory alone, and the lists."""
        told: dict[str, Any] = {"memories": {}, "lists": {}, "sessions": {}, "traces": {}}
        for tenant, refs in ids.items():
            for ref in refs:
                told["memories"][ref] = self.read("get", ids=[ref], tenant=tenant)
                told["traces"][ref] = self.read("trace", id=ref, tenant=tenant, direction="dependents")
            told["lists"][tenant] = self.read("list", limit=1000, tenant=tenant)
            told["sessions"][tenant] = self.read("sessions", limit=100, tenant=tenant)
        return told


def refused(told: dict[str, Any]) -> bool:
    """Whether a question got no answer; the store is then asked again, with nothing new in it."""
    groups = ("memories", "lists", "sessions", "traces")
    return "error" in told["audit"] or any("error" in each for name in groups for each in told[name].values())


def examine(root: Path, ids: dict[str, list[str]], now_ms: int) -> dict[str, Any]:
    """As `Daemon.run`: what is folded wrongly at rest is folded anew, once."""
    try:
        return examine_once(root, ids, now_ms)
    except DamagedRow:
        return examine_once(root, ids, now_ms)


def examine_once(root: Path, ids: dict[str, list[str]], now_ms: int) -> dict[str, Any]:
    """Open, ask for everything, audit, write one more, close. Raises what the opening raises."""
    store, projections, _recovery = open_all(root, "drill", system_clock_ms())
    clean = False
    try:
        answered: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def deliver(answers: list[Any]) -> None:
            for answer in answers:
                answered.put(answer)

        space = SpaceGuard(store.dir.root, store.dir.reserve_file, reserve_bytes=RESERVE_BYTES)
        service = Service(store, projections, Moment(lambda: now_ms), deliver, space=space)
        questions = Questions(service, answered, now_ms)
        service.start()  # first: a question to another tenant leaves a record
        try:
            told = questions.everything(ids)
            told["audit"] = questions.read("audit", rebuild=True)
            told["findings"] = [finding.code for finding in store.findings]
            told["new"] = questions.remember("one more") if not refused(told) else {}
        finally:
            service.stop()
        clean = service.writer.failed is None
        told["exit"] = Exit.OK
        return told
    except DamagedRow:
        projections.distrust()
        raise
    finally:
        projections.close(clean)
        store.close(clean)


def tell(root: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """What the daemon would have ended with, or the answers."""
    try:
        return examine(root, wanted["ids"], wanted["now_ms"])
    except NoctuaryFault as fault:
        return {
            "exit": fault.exit_code,
            "message": str(fault),
            "error": type(fault).__name__,
            "frames": traceback.format_exc(),
        }
    except OSError as error:
        return {
            "exit": Exit.IO_ERROR,
            "message": str(error.strerror),
            "error": type(error).__name__,
            "frames": traceback.format_exc(),
        }
    except Exception as error:
        return {
            "exit": Exit.INTERNAL,
            "message": str(error),
            "error": type(error).__name__,
            "frames": traceback.format_exc(),
        }


def child(root: Path, wanted: dict[str, Any]) -> None:
    """Never returns."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no case outlives the drill
    signal.alarm(WITHIN_S)
    told = tell(root, wanted)
    root.with_suffix(".told").write_text(json.dumps(told))
    os._exit(0)


def main() -> int:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    told_to = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the daemon's log is not asked for
    wanted = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        root = Path(line.rstrip("\n"))
        pid = os.fork()
        if pid == 0:
            child(root, wanted)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), file=told_to, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
