"""A child that works on projections ends with its parent, and by nobody else's signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from projections import child

ROOT = Path(__file__).resolve().parents[2]
WITHIN_S = 30.0
WAITS = "import threading; from projections import child; child.begin(); print(1, flush=True); threading.Event().wait()"


@pytest.fixture
def waiting() -> Iterator[subprocess.Popen[bytes]]:
    """A child that has begun, and would never end."""
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        assert process.stdout is not None and process.stdout.readline() == b"1\n"
        yield process
        process.kill()


def test_it_ends_when_nobody_holds_its_input_any_more(waiting: subprocess.Popen[bytes]) -> None:
    assert waiting.stdin is not None
    waiting.stdin.close()
    assert waiting.wait(WITHIN_S) == os.EX_TEMPFAIL


def test_it_is_not_ended_by_what_a_terminal_or_a_service_manager_tells_all(waiting: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        waiting.send_signal(number)
    assert waiting.stdin is not None
    waiting.stdin.close()
    assert waiting.wait(WITHIN_S) == os.EX_TEMPFAIL, "it was still there to see that"


def test_it_is_nice_to_who_it_works_for(waiting: subprocess.Popen[bytes]) -> None:
    nice = os.getpriority(os.PRIO_PROCESS, waiting.pid)
    assert nice == min(19, os.getpriority(os.PRIO_PROCESS, 0) + child.NICE)
