"""What the socket sees: the daemon's own answers from the start, the service's once it is there.

Every request passes through here once, so this is where questions are counted and timed.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from daemon.asking import Asking, Tell
from daemon.call import Call
from daemon.caller import Caller
from daemon.counting import Counts
from daemon.reads.operator import Operator
from daemon.reads.reading import NotBrief
from daemon.refusal import Reason, Refused
from daemon.service import Service
from daemon.wire.results import RecoveryOut

FOLDING_RETRY_MS = 500


class Front:
    """The service, or what stands for it while the projections are folded."""

    def __init__(self, operator: Operator, counts: Counts | None = None) -> None:
        self._operator = operator
        self._counts = counts or Counts()
        self._service: Service | None = None

    def begin(self, service: Service, recovery: RecoveryOut) -> None:
        """From now on everything is answered."""
        self._operator.begin(service, recovery)
        self._service = service

    def submit(self, call: Call) -> None:
        """Raises Refused for what is refused before it is queued."""
        try:
            self._serving().submit(call)
        except Refused as refused:
            self._counts.refuse(call.method, refused.reason)
            raise
        except Exception:
            self._counts.refuse(call.method, Reason.INTERNAL)
            raise

    def asking(self, tell: Tell | None = None) -> Asking:
        return Asking(tell=tell) if self._service is None else self._service.asking(tell)

    def read(
        self, method: str, params: Any, caller: Caller, budget: int | None = None, asking: Asking | None = None
    ) -> Any:
        """Raises Refused; NotBrief, which counts for nothing: the question comes again."""
        began_s = perf_counter()
        try:
            answer = self._read(method, params, caller, budget, asking)
        except NotBrief:
            raise
        except Exception as error:
            reason = error.reason if isinstance(error, Refused) else Reason.INTERNAL
            self._counts.read(method, perf_counter() - began_s, reason)
            raise
        self._counts.read(method, perf_counter() - began_s)
        return answer

    def _read(self, method: str, params: Any, caller: Caller, budget: int | None, asking: Asking | None) -> Any:
        if method in Operator.METHODS:
            return self._operator.read(method, params, caller)
        return self._serving().read(method, params, caller, budget, asking)

    def folding(self, seq: int, to_seq: int) -> None:
        """How far the fold is."""
        self._operator.folding(seq, to_seq)

    def _serving(self) -> Service:
        if self._service is None:
            raise Refused(
                Reason.UNAVAILABLE, "the projections are being folded from the journal",
                retry_after_ms=FOLDING_RETRY_MS,
            )  # fmt: skip
        return self._service
