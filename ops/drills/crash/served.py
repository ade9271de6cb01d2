"""A store opened as the daemon opens it, with its service, in this process and without a socket.

The judge asks it whether keys are answered; the traced purge writes through it. The reserve is small here:
32 MiB for each of a thousand states would be what the drill measures.
"""

from __future__ import annotations

import os
import queue
from pathlib import Path
from typing import Any

import msgspec

from daemon.call import Call, Outcome
from daemon.caller import DEFAULT_TENANT, Caller
from daemon.commands.passes import PassParams
from daemon.moment import Moment, system_clock_ms
from daemon.opening import open_all
from daemon.refusal import Refused
from daemon.service import Service
from daemon.wire.verbs import VERBS
from journal.codes import CallerRole
from journal.space import SpaceGuard
from ops.drills.crash.load import Request

OPERATOR = Caller(uid=os.getuid(), role=CallerRole.OPERATOR, tenants_read=None, tenants_write=None)
COMMIT_PASS = "commit_pass"
ANSWER_WITHIN_S = 30.0
RESERVE_BYTES = 4096


class Served:
    """Open from the start to `close`. Raises NoctuaryFault when the store can't be opened."""

    def __init__(self, root: Path) -> None:
        self.store, self.projections, self.recovery = open_all(root, "drill", system_clock_ms())
        self._answers: queue.SimpleQueue[tuple[Call, Outcome]] = queue.SimpleQueue()
        self._service: Service | None = None

    def ask(self, requests: list[Request]) -> list[dict[str, Any] | Refused]:
        """All verbs at once, then commits of passes; the results as on the wire, or what they were refused with."""
        verbs = [request for request in requests if request.method != COMMIT_PASS]
        outcomes = dict(zip((request.id for request in verbs), self._ask_verbs(verbs), strict=True))
        for request in requests:
            if request.method == COMMIT_PASS:
                outcomes[request.id] = self._commit_pass(request)
        return [outcomes[request.id] for request in requests]

    def _commit_pass(self, request: Request) -> dict[str, Any] | Refused:
        try:
            return self._started().commit_pass(msgspec.convert(request.params, PassParams), DEFAULT_TENANT)
        except Refused as refused:
            return refused

    def _ask_verbs(self, requests: list[Request]) -> list[dict[str, Any] | Refused]:
        service = self._started()
        calls: list[Call] = []
        for request in requests:
            params = msgspec.convert(request.params, VERBS[request.method].params)
            calls.append(Call(request.method, params, OPERATOR, lambda outcome: None))
            service.submit(calls[-1])
        answered = dict((id(call), outcome) for call, outcome in (self._next() for _ in calls))
        outcomes = [answered[id(call)] for call in calls]
        return [each if isinstance(each, Refused) else msgspec.to_builtins(each) for each in outcomes]

    def _started(self) -> Service:
        if self._service is None:
            space = SpaceGuard(
                self.store.dir.root, self.store.dir.reserve_file,
                read_only_below=0, writable_from=0, reserve_bytes=RESERVE_BYTES,
            )  # fmt: skip
            self._service = Service(self.store, self.projections, Moment(), self._deliver, space=space)
            self._service.start()
        return self._service

    def _deliver(self, answers: list[tuple[Call, Outcome]]) -> None:
        for answer in answers:
            self._answers.put(answer)

    def _next(self) -> tuple[Call, Outcome]:
        return self._answers.get(timeout=ANSWER_WITHIN_S)

    def quiet(self) -> None:
        """End the writer; the store stays open."""
        if self._service is not None:
            self._service.stop()
            self._service = None

    def close(self, clean: bool) -> None:
        self.quiet()
        self.projections.close(clean)
        self.store.close(clean)
