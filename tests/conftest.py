"""For every test that has a daemon or a service: what it sends is in no log line and no metric (`watching.py`)."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from daemon import metrics
from daemon.logs import configure_logs
from daemon.service import Service
from tests import watching

os.environ.pop("COLUMNS", None)  # what people are shown is as wide as the tests say
WATCHED = frozenset({"system", "daemon", "model"})


@pytest.fixture(autouse=True)
def no_content_is_said(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On for all tests of the rooms above; it fails the one that leaked."""
    if Path(request.node.path).parent.name not in WATCHED:
        yield
        return
    watch = watching.begin()
    stream = io.StringIO()
    configure_logs("debug", stream)
    _tap(monkeypatch, watch)
    yield
    structlog.reset_defaults()
    watch.logs.append(stream.getvalue())
    found = watch.findings()
    assert not found, "\n".join(found[:20])


def _tap(monkeypatch: pytest.MonkeyPatch, watch: watching.Watch) -> None:
    """Look at what passes; it passes unchanged."""
    send, sendall = socket.socket.send, socket.socket.sendall
    popen = subprocess.Popen.__init__
    submit, read, stop = Service.submit, Service.read, Service.stop

    def seen_send(self: socket.socket, data: Any, *rest: Any) -> int:
        watch.sent(data)
        return send(self, data, *rest)

    def seen_sendall(self: socket.socket, data: Any, *rest: Any) -> None:
        watch.sent(data)
        sendall(self, data, *rest)

    def seen_popen(self: Any, args: Any, *rest: Any, **more: Any) -> None:
        if isinstance(args, list | tuple):
            watch.typed([str(word) for word in args])
        popen(self, args, *rest, **more)

    def seen_submit(self: Service, call: Any) -> None:
        watch.asked(call.params)
        submit(self, call)

    def seen_read(self: Service, method: str, params: Any, *rest: Any, **more: Any) -> Any:
        watch.asked(params)
        return read(self, method, params, *rest, **more)

    def seen_stop(self: Service) -> None:
        stop(self)
        watch.metrics.append(metrics.text_of(self.store, self, self.counts, "ok", []))

    monkeypatch.setattr(socket.socket, "send", seen_send)
    monkeypatch.setattr(socket.socket, "sendall", seen_sendall)
    monkeypatch.setattr(subprocess.Popen, "__init__", seen_popen)
    monkeypatch.setattr(Service, "submit", seen_submit)
    monkeypatch.setattr(Service, "read", seen_read)
    monkeypatch.setattr(Service, "stop", seen_stop)


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what it runs in the background with SIGINT ignored, and every child of ours would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
