"""What the service manager hears: real datagrams, a real writer that hangs, a clock that is moved by hand."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from daemon import notifying, sentences
from daemon.config import load_config
from daemon.notifying import STATUS_EVERY_S, Notifier
from daemon.reads.operator import Operator
from daemon.reloading import Reloading
from daemon.supervising import Supervision
from daemon.watchdog import Watchdog
from tests.model.opened import OpenedService

INTERVAL_S = 8.0


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Heard:
    """A NOTIFY_SOCKET that is listened to."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.setblocking(False)

    def messages(self) -> list[str]:
        """All that has come since."""
        found: list[str] = []
        while True:
            try:
                found.append(self._socket.recv(65_536).decode())
            except BlockingIOError:
                return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def heard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Heard]:
    listening = Heard(str(tmp_path / "n") if request.param == "path" else f"@noctuary-test-{os.getpid()}")
    yield listening
    listening.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenedService]:
    service = OpenedService(tmp_path / "state", lambda: 1_767_225_600_000)
    yield service
    service.close(True)


def environ(heard: Heard, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": heard.address, "WATCHDOG_USEC": str(int(INTERVAL_S * 1_000_000)), **more}


def test_each_message_is_one_datagram(heard: Heard) -> None:
    notifier = Notifier(environ(heard))
    notifier.ready()
    notifier.extend(2.5)
    notifier.reloading()
    notifier.status("a", "two\nlines")
    ready, extend, reloading, status = heard.messages()
    assert (ready, extend, status) == ("READY=1", "EXTEND_TIMEOUT_USEC=2500000", "STATUS=two lines")
    first, second = reloading.split("\n")
    assert first == "RELOADING=1" and int(second.removeprefix("MONOTONIC_USEC=")) > 0


def test_a_sentence_is_told_when_it_changes_and_counts_only_now_and_then(heard: Heard, clock: Clock) -> None:
    notifier = Notifier(environ(heard), clock)
    notifier.status("serving", "at 1")
    notifier.status("serving", "at 1")
    notifier.status("serving", "at 2")
    assert heard.messages() == ["STATUS=at 1"]
    notifier.status("full", "at 2")
    assert heard.messages() == ["STATUS=at 2"], "another kind doesn't wait"
    clock.now_s += STATUS_EVERY_S
    notifier.status("full", "at 3")
    assert heard.messages() == ["STATUS=at 3"]


@pytest.mark.parametrize("address", ["", "vsock:2:1234", "@", "/nobody/listens/here"])
def test_nobody_to_tell_is_no_failure(address: str) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier.ready()
    notifier.status("a", "b")
    notifier.close()
    notifier.ready()


YEAR_USEC = 365 * 86_400 * 1_000_000
NONSENSE = ["0", "-1", "1e6", "soon", "²", "1", "2", "9999", str(YEAR_USEC + 1), "9" * 309, "9" * 5000]


@pytest.mark.parametrize("usec", NONSENSE, ids=range(len(NONSENSE)))
def test_a_watchdog_that_makes_no_sense_is_none_and_that_is_logged(
    heard: Heard, usec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with capture_logs() as logged:
        monkeypatch.setattr(notifying, "log", structlog.get_logger("notifying"))
        notifier = Notifier(environ(heard, WATCHDOG_USEC=usec))
    assert notifier.watchdog_s is None and Watchdog(notifier).tick_s is None
    assert [line["event"] for line in logged] == ["watchdog_ignored"]


@pytest.mark.parametrize(("usec", "seconds"), [("10000", 0.01), (str(YEAR_USEC), 365 * 86_400.0), ("", None)])
def test_a_watchdog_between_the_bounds_is_one(heard: Heard, usec: str, seconds: float | None) -> None:
    with capture_logs() as logged:
        assert Notifier(environ(heard, WATCHDOG_USEC=usec)).watchdog_s == seconds
    assert logged == []


def test_a_watchdog_for_another_process_is_none_of_ours(heard: Heard) -> None:
    assert Notifier(environ(heard, WATCHDOG_PID="1")).watchdog_s is None
    assert Notifier(environ(heard, WATCHDOG_PID=str(os.getpid()))).watchdog_s == INTERVAL_S


def beaten(opened: OpenedService) -> None:
    """Wait until the writer has answered what it was asked before."""
    opened.service.writer.between(lambda: None)


def test_an_idle_writer_is_alive(heard: Heard, clock: Clock, opened: OpenedService) -> None:
    watchdog = Watchdog(Notifier(environ(heard)), clock)
    watchdog.tick()
    assert heard.messages() == [], "there is no writer yet"
    watchdog.watch(opened.service.writer)
    for _ in range(3):
        watchdog.tick()
        watchdog.tick()
        assert heard.messages() == ["WATCHDOG=1"], "once each half interval"
        beaten(opened)
        clock.now_s += INTERVAL_S / 2


def test_a_writer_that_hangs_is_not_told_alive_until_it_goes_on(
    heard: Heard, clock: Clock, opened: OpenedService
) -> None:
    watchdog = Watchdog(Notifier(environ(heard)), clock)
    hangs, goes_on = threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        goes_on.wait(30)

    hanging = threading.Thread(target=opened.service.writer.between, args=(hang,))
    hanging.start()
    assert hangs.wait(10)
    watchdog.watch(opened.service.writer)
    watchdog.tick()  # the first is owed to the start itself
    assert heard.messages() == ["WATCHDOG=1"]
    for _ in range(10):
        clock.now_s += INTERVAL_S / 2
        watchdog.tick()
    assert heard.messages() == []
    goes_on.set()
    hanging.join(10)
    beaten(opened)
    watchdog.tick()
    assert heard.messages() == ["WATCHDOG=1"]


def test_a_writer_that_has_ended_is_not_alive(heard: Heard, clock: Clock, opened: OpenedService) -> None:
    watchdog = Watchdog(Notifier(environ(heard)), clock)
    watchdog.watch(opened.service.writer)
    watchdog.tick()
    beaten(opened)
    clock.now_s += INTERVAL_S
    watchdog.tick()
    assert heard.messages() == ["WATCHDOG=1", "WATCHDOG=1"]
    opened.service.writer.stop()
    clock.now_s += INTERVAL_S
    watchdog.tick()  # it answered the beat before it ended, or it didn't
    clock.now_s += INTERVAL_S
    heard.messages()
    watchdog.tick()
    assert heard.messages() == []
    opened.reopen(False)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (sentences.folding(0, 0), "Opening the projections."),
        (sentences.folding(1200, 34000), "Folding the projections: record 1,200 of 34,000."),
        (sentences.folding(34000, 34000), "The projections are folded; names are being read."),
        (sentences.serving(7, "ok", [], 0, None), "Serving. The head is record 7."),
        (
            sentences.serving(7, "degraded", ["disk_full"], 5 << 20, None),
            "Read-only: the disk is full, 5 MiB are free beyond the reserve. The head is record 7.",
        ),
        (
            sentences.serving(7, "degraded", ["read_damaged", "read_damaged", "a"], 0, None),
            "Degraded: a, read_damaged; see `noctuary status`. The head is record 7.",
        ),
        (
            sentences.serving(7, "failed", ["write_failed"], 0, None),
            "Failed: the journal could not be written; a restart is needed. The head is record 7.",
        ),
        (
            sentences.serving(7, "ok", [], 0, "configuration: there is no key nod"),
            "The old configuration stays: configuration: there is no key nod. The head is record 7.",
        ),
    ],
)
def test_the_sentence_says_what_is_so(told: sentences.Sentence, expected: str) -> None:
    assert told.text == expected


def test_a_new_head_alone_is_no_other_kind_of_sentence() -> None:
    assert sentences.serving(7, "ok", [], 0, None).kind == sentences.serving(8, "ok", [], 9, None).kind
    assert sentences.serving(7, "ok", [], 0, None).kind != sentences.serving(7, "ok", [], 0, "x").kind


EXTEND = "EXTEND_TIMEOUT_USEC=30000000"


@pytest.fixture
def stop() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
def supervision(heard: Heard, stop: asyncio.Event) -> Supervision:
    load = partial(load_config, environ={"XDG_CONFIG_HOME": "/nowhere"})
    return Supervision(Notifier(environ(heard)), Reloading(load(), load), stop)


def test_more_time_for_the_fold_is_asked_for_only_while_it_gets_on(
    heard: Heard, supervision: Supervision, opened: OpenedService
) -> None:
    supervision.tick()
    supervision.tick()
    assert heard.messages().count(EXTEND) == 2, "a check of the journal has no count to tell by"
    operator = Operator(opened.store, "test", None)
    supervision.folding(operator)
    heard.messages()
    for seq, asked in ((4096, 1), (4096, 0), (4096, 0), (8192, 1), (8192, 0)):
        operator.folding(seq, 100_000)
        supervision.tick()
        assert heard.messages().count(EXTEND) == asked, seq
    operator.folding(100_000, 100_000)
    supervision.tick()
    supervision.tick()
    assert heard.messages().count(EXTEND) == 2, "what comes behind the fold has no count either"


def test_whoever_serves_asks_for_no_more_time_until_it_stops(
    heard: Heard, supervision: Supervision, stop: asyncio.Event, opened: OpenedService
) -> None:
    supervision.folding(Operator(opened.store, "test", None))
    supervision.serving(opened.service)
    messages = heard.messages()
    assert messages[messages.index("READY=1") :] == ["READY=1", "STATUS=Serving. The head is record 1.", "WATCHDOG=1"]
    supervision.tick()
    assert heard.messages() == []
    stop.set()
    supervision.tick()
    supervision.tick()
    stopping = "STATUS=Stopping: what was read is still answered."
    assert heard.messages() == ["STOPPING=1", stopping, EXTEND, EXTEND]


def test_a_reload_before_it_serves_is_not_announced(
    heard: Heard, supervision: Supervision, opened: OpenedService
) -> None:
    supervision.reload()
    assert [each for each in heard.messages() if each.startswith(("RELOADING", "READY"))] == []
    supervision.folding(Operator(opened.store, "test", None))
    supervision.serving(opened.service)
    heard.messages()
    supervision.reload()
    first, second = heard.messages()[:2]
    assert first.startswith("RELOADING=1\n") and second == "READY=1"
