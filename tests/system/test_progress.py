"""How far long work is, as a client hears it and as a person sees it on a terminal; and that it can be ended."""

from __future__ import annotations

import os
import pty
import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

import noctuary
from daemon.cli.progressing import COLUMNS, line_of
from tests.system.process import ENTRY, ROOT, DaemonProcess
from tests.system.raw_client import RawClient, request

MEMORIES = 3000


@pytest.fixture
def filled(daemon: DaemonProcess) -> DaemonProcess:
    for start in range(0, MEMORIES, 1000):
        items = [{"kind": "raw", "role": "user", "text": f"{start} {number}"} for number in range(1000)]
        daemon.call("remember_many", items=items)
    return daemon


def told(daemon: DaemonProcess, verb: str, **params: object) -> list[noctuary.Progress]:
    notes: list[noctuary.Progress] = []
    with daemon.client() as client:
        client.call(verb, params, dict, notes.append)
    return notes


def test_an_audit_says_how_far_it_is_phase_after_phase(filled: DaemonProcess) -> None:
    notes = told(filled, "audit", rebuild=True)
    phases = [note.phase for note in notes]
    assert list(dict.fromkeys(phases)) == ["walk", "keys", "digests", "fold"]
    assert all(0 <= note.done <= note.of for note in notes)
    assert all(a.done <= b.done for a, b in pairwise(notes) if a.phase == b.phase and b.done)
    walked = [note for note in notes if note.phase == "walk"][-1]
    assert walked.done == walked.of == filled.call("head")["seq"]


def test_a_list_that_opens_what_is_sealed_says_so_and_one_that_does_not_is_silent(filled: DaemonProcess) -> None:
    notes = told(filled, "list", sel={"text": "nowhere"})
    assert {(note.phase, note.of) for note in notes} == {("select", MEMORIES)}
    assert told(filled, "list") == []


def test_a_real_audit_ends_when_it_is_cancelled(filled: DaemonProcess) -> None:
    for _ in range(20):  # it may be done before the cancelling reaches it
        with RawClient(filled.socket) as client:
            client.send(request("audit", 1, rebuild=True, progress=True))
            assert client.answer()["method"] == "progress"
            client.send(request("cancel", 2, request=1))
            answers: dict[int, Any] = {}
            while len(answers) < 2:
                line = client.answer()
                answers |= {line["id"]: line} if "id" in line else {}
        if answers[2]["result"]["cancelled"]:
            break
    else:
        pytest.fail("it was always done already")
    assert answers[1]["error"]["data"]["reason"] == "unavailable"
    assert answers[1]["error"]["data"]["cancelled"] is True
    assert filled.audit()["findings"] == []


def on_a_terminal(daemon: DaemonProcess, locale: str, *words: str) -> list[str]:
    """What a command shows on a terminal, each writing over the line apart. Its output goes elsewhere."""
    ours, theirs = pty.openpty()
    environment = {**daemon.environment, "LC_ALL": locale, "PYTHONUTF8": "0"}
    with ThreadPoolExecutor(1) as beside:
        shown = beside.submit(_all_of, ours)
        try:
            command = [*ENTRY, *words]
            done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=theirs, check=True)
        finally:
            os.close(theirs)
    assert b"walk" not in done.stdout
    lines = shown.result().decode("ascii").split("\r")
    assert all(len(line) <= COLUMNS and "\n" not in line for line in lines)
    assert lines[-1] == "" and lines[-2].strip() == ""  # it is gone at the end
    return lines


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_terminal_shows_one_line_that_is_gone_at_the_end(filled: DaemonProcess, locale: str) -> None:
    lines = on_a_terminal(filled, locale, "--socket", str(filled.socket), "audit", "--rebuild")
    assert any(line.startswith("walk ") for line in lines) and any(line.startswith("fold ") for line in lines)


def test_an_audit_without_a_daemon_shows_it_too(filled: DaemonProcess) -> None:
    assert filled.stop() == 0
    lines = on_a_terminal(filled, "C", "audit", "--rebuild", "--state", str(filled.state))
    assert any(line.startswith("walk ") for line in lines) and any(line.startswith("fold ") for line in lines)


def test_what_is_no_terminal_is_shown_nothing(filled: DaemonProcess) -> None:
    assert filled.command("audit", "--rebuild").stderr == ""


def test_a_line_fits_whatever_is_told() -> None:
    assert len(line_of("a phase with a very long name", 10**18, 10**18)) <= COLUMNS
    assert line_of("fold", 0, 0) == line_of("fold", 0, 0).encode("ascii").decode()
    assert "100 %" in line_of("fold", 12, 10) and " 38 %" in line_of("fold", 38, 100)


def _all_of(terminal: int) -> bytes:
    """What was written to a terminal whose other end is closed."""
    found = bytearray()
    try:
        while piece := os.read(terminal, 65_536):
            found += piece
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(terminal)
    return bytes(found)
