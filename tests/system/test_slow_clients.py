"""Clients that don't read, don't finish what they began, or take their time: bounded, dropped, and no one's burden."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from daemon.limits import LINE_BYTES
from tests.system.process import DaemonProcess
from tests.system.raw_client import RAW, RawClient, Witness, anonymous_bytes, eventually, reason_of, request, unharmed

MIB = 1024 * 1024
MAY_GROW_BYTES = 96 * MIB
"""For a client that asks for 1,000 answers of 0.9 MiB and takes none: far less than it asked for, far more than
the few answers that a connection may have under way."""
PATIENCE_S = 1.0
HALF_LINE_S = 2.0
PAGE = request("list", 1, limit=100, full=True)
STOP_WITHIN_S = 3.0


class ImpatientDaemon(DaemonProcess):
    """One that drops who is stuck after a second, so that the tests needn't wait half a minute."""

    @property
    def environment(self) -> dict[str, str]:
        limits = {"NOCTUARY_HALF_LINE_S": str(HALF_LINE_S), "NOCTUARY_STUCK_CLIENT_S": str(PATIENCE_S)}
        return {**super().environment, **limits}


def has_acked_more(witness: Witness, seen: int) -> bool:
    return len(witness.acked) > seen


@pytest.fixture
def impatient(stopped: DaemonProcess) -> Iterator[DaemonProcess]:
    daemon = ImpatientDaemon(stopped.socket.parent)
    daemon.start()
    yield daemon
    daemon.close()


def fill(daemon: DaemonProcess) -> None:
    """One page of memories of 9 KiB: an answer of 0.9 MiB."""
    items = [{**RAW, "text": f"{number} " + "x" * 9000} for number in range(100)]
    daemon.call("remember_many", items=items)


def dropped(daemon: DaemonProcess, why: str) -> bool:
    return f'"why":"{why}"' in daemon.logged().replace(" ", "")


def test_answers_that_nobody_takes_are_bounded_and_their_client_is_dropped(impatient: DaemonProcess) -> None:
    fill(impatient)
    with unharmed(impatient) as witness, RawClient(impatient.socket) as stuck:
        with RawClient(impatient.socket) as other:  # what one page costs is there before it is measured
            other.send(PAGE)
            other.answer()
        before = most = anonymous_bytes(impatient.pid)
        stuck.send_what_fits(PAGE * 1000)
        while not dropped(impatient, "not_reading"):
            seen = len(witness.acked)
            eventually(partial(has_acked_more, witness, seen))
            most = max(most, anonymous_bytes(impatient.pid))
        assert most - before < MAY_GROW_BYTES
        assert eventually(stuck.is_closed)


def test_half_closed_and_not_reading_is_dropped_too(impatient: DaemonProcess) -> None:
    fill(impatient)
    with unharmed(impatient), RawClient(impatient.socket) as stuck:
        stuck.send(PAGE * 20)
        stuck.end_input()
        eventually(lambda: dropped(impatient, "not_reading"))
        assert eventually(stuck.is_closed)


def test_a_slow_reader_gets_every_answer(impatient: DaemonProcess) -> None:
    """It takes a little at a time, for longer than a stuck one is suffered."""
    fill(impatient)
    with unharmed(impatient), RawClient(impatient.socket) as slow:
        slow.send(PAGE * 4)
        slow.end_input()
        found, started = bytearray(), time.monotonic()
        while piece := slow.socket.recv(32_768):
            found += piece
            due = started + 2.5 * PATIENCE_S * len(found) / (4 * 0.95 * MIB)
            time.sleep(max(0.0, due - time.monotonic()))  # its pace; nothing is waited for
        assert time.monotonic() - started > 2 * PATIENCE_S
    assert found.count(b"\n") == 4 and found.endswith(b"\n")
    assert "client_dropped" not in impatient.logged()


def test_half_a_line_is_not_waited_for(impatient: DaemonProcess) -> None:
    """Neither when nothing follows nor when a byte follows now and then."""
    with unharmed(impatient), RawClient(impatient.socket) as silent, RawClient(impatient.socket) as dripping:
        silent.send(b'{"jsonrpc"')
        started = time.monotonic()

        def drip() -> bool:
            try:
                dripping.socket.send(b" ")
            except ConnectionError:
                return True
            return False

        eventually(drip, 10 * HALF_LINE_S)
        assert time.monotonic() - started >= HALF_LINE_S / 2
        assert eventually(silent.is_closed)
        assert dropped(impatient, "half_line")


def test_whoever_stays_after_a_line_that_was_too_long_is_dropped(impatient: DaemonProcess) -> None:
    """Also when answers had piled up before: their leaving gives it no new time."""
    fill(impatient)
    with unharmed(impatient), RawClient(impatient.socket) as client:
        sender = threading.Thread(target=client.send, args=(PAGE * 8, b"x" * (LINE_BYTES + 1)))
        sender.start()
        reasons = [reason_of(answer) for answer in client.rest()]
        sender.join()
        assert reasons.count(None) == 8 and reasons.count("too_large") == 1
        assert eventually(client.is_gone, 10 * HALF_LINE_S)


def test_many_expensive_questions_of_one_are_not_in_the_way_of_others(daemon: DaemonProcess) -> None:
    """They wait at their own connection, not before everybody else's."""
    fill(daemon)
    with unharmed(daemon) as witness, RawClient(daemon.socket) as greedy:
        greedy.send(PAGE * 80)
        greedy.end_input()
        before = len(witness.acked)
        assert len(greedy.rest()) == 80
        assert len(witness.acked) - before >= 20


def read_a_little(client: RawClient, until: float) -> None:
    """A few bytes now and then, until the other end is gone."""
    with suppress(ConnectionError):
        while time.monotonic() < until and client.socket.recv(5000):
            time.sleep(0.01)  # its pace; nothing is waited for


@pytest.mark.parametrize("kind", ["not reading", "reading a little", "half a line", "idle", "too long"])
def test_a_slow_client_does_not_hold_up_the_end(daemon: DaemonProcess, kind: str) -> None:
    """With the settings as they come: the end is there within three seconds, in order, with what was acked."""
    fill(daemon)
    kept = daemon.call("remember", **RAW)["id"]
    with RawClient(daemon.socket) as client:
        if kind in ("not reading", "reading a little"):
            client.send_what_fits(PAGE * 50)
            eventually(lambda: client.socket.recv(1))
        elif kind == "half a line":
            client.send(b'{"jsonrpc"')
        elif kind == "too long":
            client.send(b"x" * (LINE_BYTES + 1))
            assert reason_of(client.answer()) == "too_large"
        with daemon.client() as other:
            other.hello()
            started = time.monotonic()
            os.kill(daemon.pid, signal.SIGTERM)
            if kind == "reading a little":
                read_a_little(client, started + 2 * STOP_WITHIN_S)
            assert daemon.wait() == 0, daemon.logged()[-2000:]
            assert time.monotonic() - started < STOP_WITHIN_S
    daemon.start()
    assert daemon.call("status")["recovery"]["clean"] is True
    assert daemon.call("get", ids=[kept])["not_found"] == []
    assert daemon.audit()["findings"] == []


class LastingDaemon(DaemonProcess):
    """One that may take its time for what is under way at the end."""

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "NOCTUARY_STOP_WITHIN_S": "30"}


def test_time_for_what_is_under_way_is_none_for_a_client_that_takes_nothing(short_dir: Path) -> None:
    daemon = LastingDaemon(short_dir)
    try:
        daemon.start()
        fill(daemon)
        with RawClient(daemon.socket) as client:
            client.send_what_fits(PAGE * 50)
            eventually(lambda: client.socket.recv(1))
            started = time.monotonic()
            assert daemon.stop() == 0, daemon.logged()[-2000:]
            assert time.monotonic() - started < 3 * STOP_WITHIN_S
    finally:
        daemon.close()


def test_brief_answers_that_nobody_takes_hold_up_nobody(impatient: DaemonProcess) -> None:
    """They are given on the loop itself, so nothing but their own bounds keeps them from piling up there."""
    ref = impatient.call("remember", kind="raw", role="user", text="x" * 900_000)["id"]
    with unharmed(impatient) as witness, RawClient(impatient.socket) as stuck:
        before = most = anonymous_bytes(impatient.pid)
        stuck.send_what_fits(request("get", 1, ids=[ref]) * 400)
        while not dropped(impatient, "not_reading"):
            seen = len(witness.acked)
            eventually(partial(has_acked_more, witness, seen))
            most = max(most, anonymous_bytes(impatient.pid))
        assert most - before < MAY_GROW_BYTES


def test_many_brief_questions_of_one_client_leave_turns_to_the_others(impatient: DaemonProcess) -> None:
    refs = [impatient.call("remember", kind="raw", role="user", text=f"t{number}")["id"] for number in range(20)]
    with RawClient(impatient.socket) as busy, impatient.client() as other:
        busy.send_what_fits(request("get", 1, ids=refs) * 1000)
        longest_s = 0.0
        for _ in range(50):
            asked = time.monotonic()
            other.hello()
            longest_s = max(longest_s, time.monotonic() - asked)
    assert longest_s < 1.0
