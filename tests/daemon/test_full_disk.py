"""What the writer refuses when space is short, with the thresholds moved. A disk that fills: tests/system."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.call import Call
from daemon.caller import Caller
from daemon.moment import Moment, system_clock_ms
from daemon.opening import open_all
from daemon.refusal import Reason, Refused
from daemon.service import Service
from daemon.wire.verbs import VERBS
from journal.codes import CallerRole
from journal.space import SpaceGuard

OPERATOR = Caller(0, CallerRole.OPERATOR, tenants_read=None, tenants_write=None)
MORE_THAN_THERE_IS = 1 << 60


class Served:
    """A service on a real store whose threshold can be moved."""

    def __init__(self, root: Path) -> None:
        self.answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.store, self.projections, _ = open_all(root, "drill", system_clock_ms())
        self.space = SpaceGuard(
            root, self.store.dir.reserve_file, read_only_below=0, writable_from=0, reserve_bytes=4096
        )
        self.service = Service(
            self.store, self.projections, Moment(), self._deliver, space=self.space,
        )  # fmt: skip
        self.service.start()

    def _deliver(self, answers: list[Any]) -> None:
        for answer in answers:
            self.answers.put(answer)

    def call(self, verb: str, line_bytes: int = 200, **params: Any) -> Any:
        typed = msgspec.convert(params, VERBS[verb].params)
        self.service.submit(Call(verb, typed, OPERATOR, lambda _: None, line_bytes))
        return self.answers.get(timeout=20)[1]

    def fill(self, full: bool) -> None:
        self.space._read_only_below = self.space._writable_from = MORE_THAN_THERE_IS if full else 0

    def close(self) -> None:
        self.service.stop()
        self.projections.close(True)
        self.store.close(True)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    running = Served(tmp_path / "state")
    yield running
    running.close()


def _turn(served: Served) -> Any:
    return served.call("remember", kind="raw", text="a plain sentence", origin="told")


def test_a_full_disk_refuses_writes_with_free_and_needed_bytes(served: Served) -> None:
    served.fill(True)
    refused = _turn(served)
    assert isinstance(refused, Refused) and refused.reason is Reason.READ_ONLY
    assert refused.data["needed_bytes"] >= MORE_THAN_THERE_IS > refused.data["free_bytes"] > 0
    assert served.service.writer.read_only


def test_forgetting_goes_on_while_the_disk_is_full(served: Served) -> None:
    made = _turn(served)
    served.fill(True)
    forgotten = served.call("forget", id=made.id)
    assert forgotten.found is True


def test_writing_comes_back_without_a_write(served: Served) -> None:
    served.fill(True)
    assert isinstance(_turn(served), Refused)
    served.fill(False)
    served.space.watch()
    assert not served.service.writer.read_only
    assert _turn(served).duplicate is False
    assert served.store.dir.reserve_file.stat().st_size == 4096


def test_a_write_that_would_not_surely_fit_is_refused_alone(served: Served) -> None:
    """It says what it needs, and the store goes on for smaller ones."""
    huge = served.call("remember", line_bytes=MORE_THAN_THERE_IS, kind="raw", text="a", origin="told")
    assert isinstance(huge, Refused) and huge.reason is Reason.READ_ONLY
    assert huge.data["needed_bytes"] > MORE_THAN_THERE_IS > huge.data["free_bytes"]
    assert not served.service.writer.read_only
    assert _turn(served).duplicate is False


def test_a_forget_that_has_no_room_is_refused_and_not_tried(served: Served) -> None:
    made = _turn(served)
    served.fill(True)
    refused = served.call("forget", line_bytes=MORE_THAN_THERE_IS, id=made.id)
    assert isinstance(refused, Refused) and refused.reason is Reason.READ_ONLY
    assert served.store.dir.reserve_file.stat().st_size == 0, "it was given up for it"
    assert served.call("forget", id=made.id).found is True
