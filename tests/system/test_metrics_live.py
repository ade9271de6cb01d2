"""Metrics of a real daemon: what only the socket knows."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.system.process import DaemonProcess
from tests.system.raw_client import RawClient, ask, eventually, request

TURN = {"kind": "raw", "text": "the kettle is on", "role": "user"}


def value(daemon: DaemonProcess, name: str, **labels: str) -> float:
    """Of one sample; 0 when there is none with these labels."""
    text = daemon.call("metrics")["text"]
    found = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == f"noctuary_{name}" and sample.labels == labels
    ]
    return found[0] if found else 0.0


def test_lines_that_ask_nothing_that_exists_are_counted_under_one_name(daemon: DaemonProcess) -> None:
    ask(daemon.socket, b"no json\n", request("nosuchverb"), request("nosuchverb2", text="the kettle is on"))
    assert value(daemon, "refusals_total", verb="unknown", reason="parse_error") == 1
    assert value(daemon, "refusals_total", verb="unknown", reason="unknown_method") == 2
    assert value(daemon, "requests_total", verb="unknown") == 3
    assert "nosuchverb" not in daemon.call("metrics")["text"]


def test_who_is_connected_is_counted(daemon: DaemonProcess) -> None:
    assert value(daemon, "connections") == 1, "the one that asks"
    with RawClient(daemon.socket) as one, RawClient(daemon.socket) as two:
        for client in (one, two):
            client.send(request("hello"))
            client.answer()
        assert value(daemon, "connections") == 3
    eventually(lambda: value(daemon, "connections") == 1)
    assert value(daemon, "requests_total", verb="hello") >= 2


def test_subscriptions_are_counted_while_they_go_on(daemon: DaemonProcess) -> None:
    with RawClient(daemon.socket) as client:
        client.send(request("subscribe", 1))
        assert "result" in client.answer()
        eventually(lambda: value(daemon, "subscriptions") == 1)
    eventually(lambda: value(daemon, "subscriptions") == 0)


def test_a_client_that_is_dropped_is_counted_with_the_reason(stopped: DaemonProcess) -> None:
    stopped.variables["NOCTUARY_HALF_LINE_S"] = "0.1"
    stopped.start()
    with RawClient(stopped.socket) as client:
        client.send(b'{"half')
        eventually(client.is_closed)
    assert value(stopped, "clients_dropped_total", why="half_line") == 1


def test_what_a_start_had_to_fold_is_told(daemon: DaemonProcess) -> None:
    written: list[dict[str, Any]] = [daemon.call("remember", **TURN) for _ in range(3)]
    daemon.kill()
    for path in (daemon.state / "projections").iterdir():
        path.unlink()
    (daemon.state / "projections").rmdir()
    daemon.start()
    head = daemon.call("head")["seq"]
    assert value(daemon, "folded_records_total") == head > len(written)
    assert value(daemon, "records_written_total") == 0
    assert value(daemon, "head_seq") == head
    assert value(daemon, "lag_records") == 0


def test_the_command_line_prints_it(daemon: DaemonProcess) -> None:
    done = daemon.command("metrics")
    assert done.returncode == 0 and "noctuary_head_seq" in done.stdout
