"""Nothing that a caller wrote gets into the log, whoever tries."""

from __future__ import annotations

import io
import json

import structlog

from daemon.failures import refusal_of
from daemon.logs import configure_logs

CANARY = "my secret canary, in words"


def test_content_has_no_way_through() -> None:
    stream = io.StringIO()
    configure_logs("debug", stream)
    log = structlog.get_logger("test")
    log.info("ready", seq=3, reason=CANARY, text="canary", frames=[CANARY], verb={"canary": 1})
    log.info(CANARY)
    try:
        raise ValueError(CANARY)
    except ValueError as error:
        log.exception("failed", exc_info=True)
        refused = refusal_of("remember", error)
    assert CANARY not in refused.message
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(lines) == 4 and "canary" not in stream.getvalue()
    assert lines[0]["event"] == "ready" and lines[0]["seq"] == 3 and lines[0]["dropped"] == 4
    assert lines[3]["error_id"] == refused.data["error_id"]


class Full(io.StringIO):
    """A log whose reader has gone, for a while."""

    broken = True

    def write(self, text: str) -> int:
        if self.broken:
            raise BrokenPipeError
        return super().write(text)


def test_a_log_that_can_not_be_written_stops_nothing_and_tells_what_was_lost() -> None:
    stream = Full()
    configure_logs("info", stream)
    log = structlog.get_logger("test")
    log.info("one")
    log.error("two")
    stream.broken = False
    log.info("three")
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in told] == ["lines_lost", "three"] and told[0]["count"] == 2
