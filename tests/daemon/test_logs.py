"""Nothing that a caller wrote gets into the log, whoever tries."""

from __future__ import annotations

import io
import json

import structlog

from daemon.failures import refusal_of
from daemon.logs import Lines, configure_logs, set_log_level
from tests import watching

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
    stream, lost = Full(), Lines.lost_ever
    configure_logs("info", stream)
    log = structlog.get_logger("test")
    log.info("one")
    log.error("two")
    stream.broken = False
    log.info("three")
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in told] == ["lines_lost", "three"] and told[0]["count"] == 2
    assert Lines.lost_ever == lost + 2


def test_the_level_changes_and_the_lines_stay_where_they_are() -> None:
    stream = io.StringIO()
    configure_logs("info", stream)
    log = structlog.get_logger("test")
    set_log_level("error")
    log.info("one")
    log.error("two", text="canary")
    set_log_level("debug")
    log.debug("three")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["two", "three"]
    assert "canary" not in stream.getvalue()


WORD = "Pomegranate"
SENTENCE = "the orchard gate was painted green"


def leaks(*said: str, metrics: str = "", sent: bytes = b"") -> list[str]:
    """What the watch over all tests finds when these lines were said."""
    watch = watching.Watch()
    watch.sent(sent or request({"text": SENTENCE, "tags": [WORD], "metadata": {"colour": "vermilion"}}))
    watch.logs.append("\n".join(said))
    watch.metrics.append(metrics)
    return watch.findings()


def request(params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "remember", "params": params}).encode()


def logged(**fields: object) -> str:
    return json.dumps({"event": "ready", "level": "info", **fields})


def test_the_watch_over_all_tests_finds_what_leaks() -> None:
    assert leaks(logged(seq=1, store="ab" * 16)) == []
    for value in (WORD, WORD.lower(), f"x{WORD}x", ["a", WORD], SENTENCE[:20], SENTENCE[-15:], "vermilion"):
        assert leaks(logged(reason=value)), value
    assert leaks(f"Traceback: {SENTENCE}"), "nor in what is no log line"
    assert leaks(logged(text=1)) == ["fields that may not be logged: ['text']"]
    assert leaks("plainly not JSON") == ["no log line: 'plainly not JSON'"]
    assert leaks("noctuary: the disk is full") == []
    assert leaks(f"noctuary: {SENTENCE}"), "nor where the program says why it can't run"


def test_the_watch_finds_content_in_metrics() -> None:
    assert leaks(metrics='noctuary_requests_total{verb="remember"} 1.0') == []
    assert leaks(metrics=f'noctuary_requests_total{{tenant="{WORD}"}} 1.0')
    assert leaks(metrics="requests_total 1.0") == ["no metric of ours: 'requests_total 1.0'"]


def test_the_watch_sees_broken_lines_and_nested_words() -> None:
    broken = b'{"jsonrpc":"2.0","params":{"topic":"' + WORD.encode() + b'","tags":['
    assert leaks(logged(reason=WORD), sent=broken)
    facts = {"facts": [{"subject": "a", "predicate": "b", "value": WORD}], "session": {"agent": "a", "key": SENTENCE}}
    assert leaks(logged(reason=WORD), sent=request({"items": [facts]}))
    assert leaks(logged(reason=SENTENCE), sent=request({"items": [facts]}))


def test_the_watch_lets_the_project_s_own_words_pass() -> None:
    own = request({"text": "remember", "topic": "connection.py", "tags": ["123456", "deadbeef"]})
    assert leaks(logged(verb="remember", frames=["connection.py:12"], seq=123456, chain="deadbeef"), sent=own) == []
    stamps = request({"producer": {"agent": WORD, "model": WORD}, "kind": "raw"})
    assert leaks(logged(reason=WORD), sent=stamps) == [], "stamps are public"
