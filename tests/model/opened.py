"""One opened store with its service, driven in this process: each command is answered before the next."""

from __future__ import annotations

import os
import queue
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from daemon.call import Call, Outcome
from daemon.caller import Caller
from daemon.moment import Moment
from daemon.refusal import Refused
from daemon.service import Service
from daemon.wire.verbs import VERBS
from journal.codes import CallerRole
from journal.creating import create_store
from journal.store import open_store
from projections.store import ProjectionStore

OPERATOR = Caller(uid=os.getuid(), role=CallerRole.OPERATOR, tenants_read=None, tenants_write=None)


class OpenedService:
    """`clock_ms` is all the time the service knows."""

    def __init__(self, root: Path, clock_ms: Callable[[], int]) -> None:
        self.root = root
        self._clock_ms = clock_ms
        self._answers: queue.SimpleQueue[tuple[Call, Outcome]] = queue.SimpleQueue()
        self._is_open = False
        if not root.exists():
            create_store(root)
        self._open()

    def _open(self) -> None:
        self.store = open_store(self.root, version="model", now_ms=self._clock_ms())
        self.projections = ProjectionStore.open(self.store.dir.projections_dir, self.store.boot_id)
        self.folded = self.projections.catch_up(self.store.log)
        self.service = Service(self.store, self.projections, Moment(clock_ms=self._clock_ms), self._deliver)
        self._is_open = True  # from here on there are threads: one that nobody stops keeps the process
        self.service.start()

    def _deliver(self, answers: list[tuple[Call, Outcome]]) -> None:
        for answer in answers:
            self._answers.put(answer)

    def write(self, verb: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer as the wire would show it. Raises Refused."""
        typed = msgspec.convert(params, VERBS[verb].params)
        self.service.submit(Call(verb, typed, OPERATOR, lambda outcome: None))
        _, outcome = self._answers.get(timeout=30)
        if isinstance(outcome, Refused):
            raise outcome
        built: dict[str, Any] = msgspec.to_builtins(outcome)
        return built

    def read(self, verb: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer as the wire would show it. Raises Refused."""
        answer = self.service.read(verb, msgspec.convert(params, VERBS[verb].params), OPERATOR)
        built: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(answer))
        return built

    def digests(self) -> dict[str, str]:
        return self.projections.digests()

    def close(self, clean: bool) -> None:
        """Close as a stop does, or (not clean) leave what a killed process leaves. Nothing when it is closed: whoever
        cleans up behind a test that failed need not know how far it came."""
        if not self._is_open:
            return
        self._is_open = False
        self.service.stop()
        self.projections.close(clean)
        self.store.close(clean)

    def reopen(self, clean: bool) -> None:
        self.close(clean)
        self._open()

    def rebuild(self) -> None:
        """Throw the projections away and fold them from the journal."""
        self.close(True)
        shutil.rmtree(self.root / "projections")
        self._open()
