"""Messages to whoever started the daemon: ready, how far it is, that it lives (the sd_notify protocol).

One datagram each to `NOTIFY_SOCKET`, a path or (`@` in front) an abstract name: `VARIABLE=value` lines, UTF-8.

| sent | when |
|---|---|
| READY=1 | requests are answered; again behind every reload |
| STATUS= | one sentence for people, when it changes |
| EXTEND_TIMEOUT_USEC= | while the journal is checked, while the fold gets on, and while it stops |
| WATCHDOG=1 | every half `WATCHDOG_USEC`, when the writer has taken work since the last one (`watchdog.py`) |
| RELOADING=1, MONOTONIC_USEC= | SIGHUP came |
| STOPPING=1 | the end has begun |

Invariant: nothing here waits or raises. Without `NOTIFY_SOCKET` nothing is sent; where nobody takes the messages that
is logged once. No content: the sentences have counts, sizes, codes, and what is wrong with a configuration.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping

import structlog

STATUS_EVERY_S = 10.0
"""How often a sentence is told in which nothing but a count is new."""
EXTEND_S = 30.0
WATCHDOG_MIN_S, WATCHDOG_MAX_S = 0.01, 365 * 86_400.0
"""More often would be all that is done; and a number without end is no time."""
WATCHDOG_DIGITS = 20

log = structlog.get_logger("notifying")


class Notifier:
    """The other end of `NOTIFY_SOCKET`, for one thread. `watchdog_s`: how often it wants WATCHDOG=1, or None."""

    def __init__(self, environ: Mapping[str, str] = os.environ, clock: Callable[[], float] = time.monotonic) -> None:
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self._clock = clock
        self._socket: socket.socket | None = None
        self._complained = False
        self._told = ("", "")
        self._told_at_s = 0.0
        self.watchdog_s = _watchdog_s(environ) if self._address else None
        if self._address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)

    def ready(self) -> None:
        self._send("READY=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def reloading(self) -> None:
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def extend(self, seconds: float = EXTEND_S) -> None:
        """Whatever is under way may take that much longer from now on."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1_000_000)}")

    def status(self, kind: str, sentence: str) -> None:
        """Tell the sentence when it is of another kind than the last, or when another has been told for long enough."""
        now_s = self._clock()
        if (kind, sentence) == self._told:
            return
        if kind == self._told[0] and now_s - self._told_at_s < STATUS_EVERY_S:
            return
        self._told, self._told_at_s = (kind, sentence), now_s
        self._send("STATUS=" + sentence.replace("\n", " "))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, *lines: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            if not self._complained:
                log.warning("cannot_notify", errno=error.errno)
            self._complained = True
        else:
            self._complained = False


def _address(given: str) -> str:
    """What `sendto` takes; "" for nothing, or what is no address of a Unix socket."""
    if given.startswith("@") and len(given) > 1:
        return "\0" + given[1:]
    return given if given.startswith("/") else ""


def _watchdog_s(environ: Mapping[str, str]) -> float | None:
    """The interval of the watchdog, when there is one and it is meant for this process."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    given = environ.get("WATCHDOG_USEC", "")
    if not given:
        return None
    usec = int(given) if given.isascii() and given.isdecimal() and len(given) <= WATCHDOG_DIGITS else 0
    if not WATCHDOG_MIN_S <= usec / 1_000_000 <= WATCHDOG_MAX_S:
        log.warning("watchdog_ignored", what="WATCHDOG_USEC", why="not_between_10_ms_and_1_year")
        return None
    return usec / 1_000_000
