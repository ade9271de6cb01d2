"""Every exit code of the command line, each provoked for real; with `--json` the error is an object on stderr."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.system.process import ENTRY, ROOT, DaemonProcess
from tests.system.terminal import environment

WITHIN_S = 60.0
ITEM = ["remember", "a text", "--kind", "raw"]


class Place(NamedTuple):
    """A daemon, and a directory for what else is needed."""

    daemon: DaemonProcess
    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        default = {"STATE_DIRECTORY": str(self.directory / "no-default")}
        return environment(self.directory, **default, NOCTUARY_SOCKET=str(self.daemon.socket))


@pytest.fixture
def place(daemon: DaemonProcess, short_dir: Path) -> Place:
    return Place(daemon, short_dir)


@pytest.fixture
def quiet(short_dir: Path) -> Place:
    """One whose daemon is not started."""
    return Place(DaemonProcess(short_dir), short_dir)


def run(place: Place, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ENTRY, *words], cwd=ROOT, env=place.environment, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )


# --- a peer that answers what a daemon answers rarely ---------------------------------------------


@contextmanager
def peer(path: Path, answer: Callable[[dict[str, Any]], bytes]) -> Iterator[threading.Event]:
    """A socket that answers each line with `answer`; the event says that a request has come."""
    came = threading.Event()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection, connection.makefile("rb") as lines, suppress(OSError):  # whoever asked may be gone
                    for line in lines:
                        came.set()
                        connection.sendall(answer(json.loads(line)))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield came
        finally:
            listening.shutdown(socket.SHUT_RDWR)
    thread.join(WITHIN_S)


def refusing(reason: str) -> Callable[[dict[str, Any]], bytes]:
    def answer(request: dict[str, Any]) -> bytes:
        error = {"code": -1, "message": "no", "data": {"reason": reason, "retryable": False}}
        return json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode() + b"\n"

    return answer


# --- the ways to each code: what to do, and the words of the last command -------------------------


def _held(place: Place) -> list[str]:
    return ["daemon", "--state", str(place.daemon.state), "--socket", str(place.directory / "other.sock")]


def _damaged(place: Place) -> list[str]:
    for number in range(20):
        place.daemon.call("remember", kind="raw", text=f"text {number}", origin="stated")
    place.daemon.kill()
    data = place.daemon.state / "journal" / "data.mdb"
    data.write_bytes(data.read_bytes().replace(b"remember", b"rEmember"))  # the verb stands in each record
    return ["audit", "--state", str(place.daemon.state)]


def _no_directory(place: Place) -> list[str]:
    (place.directory / "file").write_text("x")
    return ["daemon", "--state", str(place.directory / "file"), "--socket", str(place.directory / "other.sock")]


def _denied(place: Place) -> list[str]:
    place.daemon.stop()
    config = place.directory / "c.toml"
    config.write_text(f'[[peer]]\nuid = {os.getuid()}\ntenant = "t"\nrole = "agent"\n')
    place.daemon.start("--config", str(config))
    return ["metrics"]


def _bad_configuration(place: Place) -> list[str]:
    (place.directory / "c.toml").write_text("nonsense = 1\n")
    return ["config", "--config", str(place.directory / "c.toml")]


def _export_again(place: Place) -> list[str]:
    (place.directory / "out").write_text("kept")
    return ["export", "--out", str(place.directory / "out")]


BESIDE_ONE_DAEMON: dict[str, tuple[int, list[str]]] = {
    "done": (0, ["head"]),
    "help": (0, ["remember", "--help"]),
    "an id that is not there": (1, ["get", "raw:0000000000000"]),
    "nothing to forget": (1, ["forget", "raw:0000000000000"]),
    "nothing to trace": (1, ["trace", "raw:0000000000000"]),
    "nothing with a history": (1, ["history", "raw:0000000000000"]),
    "no command": (2, ["nope"]),
    "no such option": (2, ["head", "--nope"]),
    "a missing place": (2, ["forget"]),
    "a missing option": (2, ["remember", "x"]),
    "no daemon": (3, ["head", "--socket", "/nonexistent/none"]),
    "a refused value": (4, [*ITEM, "--origin", "guessed"]),
    "an unknown verb": (4, ["call", "nope"]),
}
WAYS: dict[str, tuple[int, Callable[[Place], list[str]]]] = {
    "damage": (65, _damaged),
    "a directory that can't be": (73, _no_directory),
    "a file that is there": (73, _export_again),
    "a lock that is held": (75, _held),
    "a right that is missing": (77, _denied),
    "a key that is unknown": (78, _bad_configuration),
}
OF_A_PEER = {
    "not_found": 1, "conflict": 4, "provenance": 4, "lifecycle": 4, "legal_hold": 4, "too_large": 4, "quarantined": 4,
    "invalid_request": 4, "unknown_method": 4, "reason_of_later": 4, "damaged": 65, "internal": 70,
    "unknown_outcome": 74, "read_only": 75, "overloaded": 75, "unavailable": 75, "denied": 77,
}  # fmt: skip


def test_an_exit_code_says_what_happened(place: Place) -> None:
    for way, (code, words) in BESIDE_ONE_DAEMON.items():
        done = run(place, *words)
        assert done.returncode == code, (way, done)
        told_by_answer = code == 0 or (code == 1 and words[0] in ("get", "forget"))
        assert bool(done.stdout) is told_by_answer and bool(done.stderr) is not told_by_answer, (way, done)
        as_json = run(place, "--json", *words)
        assert as_json.returncode == code, (way, as_json)
        if not told_by_answer:
            _check_object(as_json)


@pytest.mark.parametrize("way", WAYS)
def test_what_stands_in_the_way_has_its_exit_code(way: str, place: Place) -> None:
    code, prepared = WAYS[way]
    words = prepared(place)
    done = run(place, *words)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    if words[0] not in ("daemon", "audit"):  # one speaks in log lines, and damage is the answer of the other
        assert done.stdout == "" and done.stderr.startswith("noctuary: ")
        _check_object(run(place, *words, "--json"))


def _check_object(done: subprocess.CompletedProcess[str]) -> None:
    """One line on stderr, and nothing on stdout."""
    told = json.loads(done.stderr)
    assert done.stdout == "" and done.stderr.count("\n") == 1
    assert set(told["error"]) == {"code", "message", "data"} and told["error"]["data"]["reason"]


@pytest.mark.parametrize("reason", OF_A_PEER)
def test_each_reason_has_its_exit_code(reason: str, quiet: Place) -> None:
    path = quiet.directory / "p.sock"
    with peer(path, refusing(reason)):
        done = run(quiet, "head", "--socket", str(path), "--json")
    assert done.returncode == OF_A_PEER[reason], done.stderr
    assert done.stdout == "" and json.loads(done.stderr)["error"]["message"] == "no"


def test_an_answer_that_is_none_is_no_success(quiet: Place) -> None:
    path = quiet.directory / "p.sock"
    with peer(path, lambda _: b"HTTP/1.1 200 OK\n"):
        done = run(quiet, "head", "--socket", str(path))
    assert done.returncode == 3 and "Traceback" not in done.stderr
    with peer(path := quiet.directory / "q.sock", lambda request: b'{"id":%d,"result":[1]}\n' % request["id"]):
        done = run(quiet, "head", "--socket", str(path))
    assert done.returncode == 70 and "Traceback" not in done.stderr


def test_output_that_can_not_be_written_exits_74(place: Place) -> None:
    for words in (["head"], ["list", "--json"], ["schema"], ["config"], ["--help"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [*ENTRY, *words], cwd=ROOT, env=place.environment, stdout=full, stderr=subprocess.PIPE, text=True,
                timeout=WITHIN_S, check=False,
            )  # fmt: skip
        assert done.returncode == 74 and "No space left on device" in done.stderr, (words, done)
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", (["head"], ["list"], ["audit"], [*ITEM, "--origin", "stated"]))
def test_an_interrupt_ends_it_with_130_and_no_traceback(words: list[str], quiet: Place) -> None:
    path = quiet.directory / "p.sock"
    with peer(path, lambda _: b"") as came:
        process = subprocess.Popen(
            [*ENTRY, *words, "--socket", str(path)], cwd=ROOT, env=quiet.environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert came.wait(WITHIN_S)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, out, err) == (130, "", "")
