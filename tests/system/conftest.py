"""Fixtures of the system tests: each test that asks gets a daemon of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.process import DaemonProcess


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A directory with a short path: that of a socket has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="noctuary-") as name:
        yield Path(name)


@pytest.fixture
def stopped(short_dir: Path) -> Iterator[DaemonProcess]:
    """A daemon that isn't started yet."""
    process = DaemonProcess(short_dir)
    yield process
    process.close()


@pytest.fixture
def daemon(stopped: DaemonProcess) -> DaemonProcess:
    stopped.start()
    return stopped
