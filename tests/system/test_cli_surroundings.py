"""The command line where it is started oddly: locales, closed files, readers that leave, terminals, spaces in paths."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from daemon.cli.render_text import columns
from tests.system.process import ENTRY, ROOT, DaemonProcess
from tests.system.terminal import environment, on_terminal

WITHIN_S = 60.0
TEXT = "Grüße aus 東京 👍🏽 — שלום"
HOSTILE = "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J bell\x07 a\u202eevil\u202c"
LOCALES: dict[str, dict[str, str]] = {
    "C": {"LC_ALL": "C"},
    "POSIX": {"LC_ALL": "POSIX"},
    "none": {"LANG": "", "LC_ALL": ""},
    "one that isn't there": {"LC_ALL": "xx_YY.ISO-8859-1"},
    "C, and Python leaves it at that": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "ascii streams": {"PYTHONIOENCODING": "ascii:strict"},
    "wide streams": {"PYTHONIOENCODING": "utf-16"},
    "latin streams": {"PYTHONIOENCODING": "latin-1"},
}


def run(
    daemon: DaemonProcess, words: Sequence[str], environ: Mapping[str, str] = {}, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*ENTRY, *words], cwd=ROOT, env=around(daemon, **environ), input=given, capture_output=True, timeout=WITHIN_S,
        check=False,
    )  # fmt: skip


def around(daemon: DaemonProcess, **more: str) -> dict[str, str]:
    return environment(daemon.state.parent, **{"NOCTUARY_SOCKET": str(daemon.socket), **more})


def written(daemon: DaemonProcess) -> list[str]:
    return [row["text"] for row in daemon.call("list")["memories"]]


@pytest.mark.parametrize("locale", LOCALES)
def test_text_goes_in_and_out_exactly_in_every_locale(locale: str, daemon: DaemonProcess, tmp_path: Path) -> None:
    path = tmp_path / "Grüße 東京"
    path.write_text(TEXT + " 3", "utf-8")
    remember = ["remember", "--kind", "raw", "--origin", "stated"]
    for words, given in (([TEXT + " 1"], b""), (["-"], f"{TEXT} 2".encode()), (["--file", str(path)], b"")):
        done = run(daemon, [*remember, *words], LOCALES[locale], given)
        assert done.returncode == 0, done.stderr
    assert written(daemon) == [f"{TEXT} {number}" for number in (1, 2, 3)]
    done = run(daemon, ["list"], LOCALES[locale])
    assert done.returncode == 0 and all(f"{TEXT} {number}" in done.stdout.decode("utf-8") for number in (1, 2, 3))
    done = run(daemon, ["remember", TEXT, "--kind", "raw", "--origin", "nein–"], LOCALES[locale])
    assert done.returncode == 4 and b"Traceback" not in done.stderr


@pytest.mark.parametrize("closed", (">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"))
def test_a_write_is_done_whatever_is_closed(closed: str, daemon: DaemonProcess) -> None:
    script = f'exec "$@" {closed}'
    words = [*ENTRY, "remember", "x", "--kind", "raw", "--origin", "stated"]
    done = subprocess.run(
        ["sh", "-c", script, "sh", *words], cwd=ROOT, env=around(daemon), capture_output=True, timeout=WITHIN_S
    )
    assert done.returncode == 0 and done.stderr == b"" and written(daemon) == ["x"]


FIRST_OPENED = """
import os
from daemon.cli import entry
entry.prepare_streams()
os._exit(os.open(os.devnull, os.O_RDONLY))
"""


@pytest.mark.parametrize("closed", ("<&-", ">&-", "<&- >&- 2>&-"))
def test_no_file_takes_the_place_of_a_closed_one(closed: str, daemon: DaemonProcess) -> None:
    """The socket would else be written to by whatever writes to the number 2."""
    script = f'exec "$@" {closed}'
    command = ["sh", "-c", script, "sh", sys.executable, "-c", FIRST_OPENED]
    assert subprocess.run(command, cwd=ROOT, env=around(daemon), timeout=WITHIN_S).returncode >= 3


def test_an_error_does_not_go_where_the_answer_would(daemon: DaemonProcess) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *ENTRY, "nope", "--json"], cwd=ROOT, env=around(daemon),
        capture_output=True, timeout=WITHIN_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"")


def test_a_closed_standard_input_is_said(daemon: DaemonProcess) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *ENTRY, "remember", "-", "--kind", "raw"], cwd=ROOT, env=around(daemon),
        capture_output=True, timeout=WITHIN_S,
    )  # fmt: skip
    assert done.returncode == 2 and b"standard input is closed" in done.stderr and written(daemon) == []


def test_a_reader_that_leaves_costs_no_exit_code_of_the_answer(daemon: DaemonProcess) -> None:
    for words, code in ((["head"], 0), (["get", "raw:0000000000000"], 1), (["schema"], 0)):
        process = subprocess.Popen(
            [*ENTRY, *words], cwd=ROOT, env=around(daemon), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        process.stderr.close()
        assert (process.wait(WITHIN_S), said) == (code, b""), words


def test_the_environment_says_which_daemon_and_whose_memories(daemon: DaemonProcess) -> None:
    spaced = daemon.state.parent / "a b.sock"
    spaced.symlink_to(daemon.socket)
    words = ["remember", "x", "--kind", "raw", "--origin", "stated"]
    assert run(daemon, words, {"NOCTUARY_SOCKET": str(spaced), "NOCTUARY_TENANT": "t"}).returncode == 0
    assert written(daemon) == [] and daemon.call("list", tenant="t")["total"] == 1
    for place in (["--tenant", "u"], ["--tenant=u"]):
        assert (
            run(daemon, [*place, *words], {"NOCTUARY_TENANT": "t"}).returncode == 0
        )  # what is said beats what is around
        assert run(daemon, [*words, *place, "--socket", str(spaced)], {"NOCTUARY_SOCKET": "/none"}).returncode == 0
    assert daemon.call("list", tenant="u")["total"] == 4
    done = run(daemon, ["status", "--json"], {"NOCTUARY_TENANT": ""})
    assert json.loads(done.stdout)["tenant"] == "default"
    assert run(daemon, ["head", "--tenant", ""]).returncode == 2


# --- terminals -----------------------------------------------------------------------------------


def filled(daemon: DaemonProcess) -> dict[str, Any]:
    session = {"agent": "a", "key": f"k {HOSTILE}"}
    texts = [TEXT * 12, HOSTILE * 6, "x" * 300, "漢字" * 150, "שלום עולם " * 30, "short"]
    made: list[str] = []
    for number, text in enumerate(texts):
        made.append(daemon.call(
            "remember", kind="raw", text=text, role="user" if number % 2 else "assistant", session=session,
            subtype="turn", speaker=texts[-number][:60] or "x", tags=[HOSTILE[:40]],
        )["id"])  # fmt: skip
    note = daemon.call("remember", kind="note", text="n", origin="derived", derived_from=made, topic=HOSTILE)["id"]
    daemon.call("forget", id=made[0], note=HOSTILE)
    return {"raw": made[0], "note": note, "session": daemon.call("sessions")["sessions"][0]["session"]}


@pytest.mark.parametrize("wide", [40, 80, 200])
def test_nothing_is_wider_than_the_terminal_or_moves_its_cursor(wide: int, daemon: DaemonProcess) -> None:
    ids = filled(daemon)
    for words in (
        ["list"], ["get", ids["raw"], ids["note"]], ["history", ids["raw"]], ["session", ids["session"]],
        ["records", "--level", "content"], ["status"], ["audit"], ["records", "--help"],
    ):  # fmt: skip
        code, shown = on_terminal(words, wide, 24, around(daemon, TERM="dumb", NO_COLOR="1"))
        assert code == 0, (words, shown)
        segments = [
            piece for line in shown.split("\n") for piece in line.split("\r")
        ]  # a progress line is written over
        wider = [piece for piece in segments if columns(piece) > wide and not piece.startswith("more: --cursor ")]
        assert wider == [], words
        assert not re.search(r"[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown), words


@pytest.mark.parametrize(("told", "wide"), [("", 80), ("x", 80), ("120", 120)])
def test_what_is_no_terminal_has_80_columns_unless_somebody_says_otherwise(
    told: str, wide: int, daemon: DaemonProcess
) -> None:
    filled(daemon)
    lines = run(daemon, ["list"], {"COLUMNS": told}).stdout.decode("utf-8").split("\n")
    assert wide - 10 < max(columns(line) for line in lines if not line.startswith("more: --cursor ")) <= wide
