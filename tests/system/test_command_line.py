"""The command line against a real daemon: which store is audited, exit codes, what people are shown."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.system.process import ENTRY, ROOT, DaemonProcess

READY_MARK = "Serving on"


def run(daemon: DaemonProcess, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The command line in people's form; no socket is given but by `words` or `environ`."""
    zone = {"TZ": "UTC", "STATE_DIRECTORY": str(daemon.state.parent / "no-default")}
    return subprocess.run(
        [*ENTRY, *words], cwd=ROOT, env={**daemon.environment, **zone, **environ},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def at_socket(daemon: DaemonProcess, *words: str) -> subprocess.CompletedProcess[str]:
    return run(daemon, "--socket", str(daemon.socket), *words)


def content(state: Path) -> dict[Path, tuple[int, bytes]]:
    return {
        path: (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"") for path in sorted(state.rglob("*"))
    }


def raw(daemon: DaemonProcess, text: str, **more: Any) -> str:
    return str(daemon.call("remember", kind="raw", text=text, origin="stated", **more)["id"])


# --- audit ---------------------------------------------------------------------------------------


@pytest.fixture
def other(short_dir: Path) -> Any:
    """A second daemon, with a store of its own."""
    (short_dir / "b").mkdir()
    second = DaemonProcess(short_dir / "b")
    second.start()
    yield second
    second.close()


def test_a_daemon_of_another_store_is_not_asked(daemon: DaemonProcess, other: DaemonProcess) -> None:
    stores = [each.call("head")["store"] for each in (daemon, other)]
    done = run(daemon, "audit", "--state", str(daemon.state), "--socket", str(other.socket))
    assert done.returncode == 75 and done.stdout == ""
    assert all(store in done.stderr for store in stores) and "--socket" in done.stderr
    done = run(daemon, "audit", "--json", NOCTUARY_STATE=str(daemon.state), NOCTUARY_SOCKET=str(other.socket))
    assert done.returncode == 75 and json.loads(done.stderr)["error"]["data"]["reason"] == "unavailable"


def test_the_daemon_that_has_the_store_open_is_asked(daemon: DaemonProcess) -> None:
    head = json.dumps(daemon.call("head"))
    for words in (["--state", str(daemon.state)], []):
        done = run(
            daemon, "audit", "--json", "--against", head, *words,
            NOCTUARY_STATE=str(daemon.state), NOCTUARY_SOCKET=str(daemon.socket),
        )  # fmt: skip
        assert done.returncode == 0 and json.loads(done.stdout)["against"] == ["same"], done.stderr


def test_an_audit_after_a_kill_writes_nothing(daemon: DaemonProcess) -> None:
    for number in range(30):
        raw(daemon, f"text {number}", session={"agent": "a", "key": "k"})
    daemon.kill()
    before = content(daemon.state)
    for more in ([], ["--rebuild"], ["--from_seq", "3"]):
        done = run(daemon, "audit", "--json", "--state", str(daemon.state), *more)
        assert done.returncode == 0, done.stdout + done.stderr
        assert content(daemon.state) == before
    done = run(daemon, "audit", "--json", "--rebuild", "--state", str(daemon.state))
    told = json.loads(done.stdout)
    assert "were compared at record" in told["notes"][0]
    daemon.start()
    assert daemon.call("audit", rebuild=True)["findings"] == []


def test_projections_behind_the_journal_are_compared_where_they_stand(daemon: DaemonProcess) -> None:
    raw(daemon, "one")
    assert daemon.stop() == 0
    kept = daemon.state.parent / "kept"
    shutil.copytree(daemon.state / "projections", kept)
    daemon.start()
    raw(daemon, "two")
    raw(daemon, "three", session={"agent": "a", "key": "k"})
    assert daemon.stop() == 0
    shutil.rmtree(daemon.state / "projections")
    shutil.copytree(kept, daemon.state / "projections")
    done = run(daemon, "audit", "--json", "--rebuild", "--state", str(daemon.state))
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told["findings"] == []
    assert told["notes"] != [f"the projections were compared at record {told['head']['seq']}"]
    assert "were compared at record" in told["notes"][0]


# --- exit codes and refusals ---------------------------------------------------------------------


def test_a_refusal_is_told_with_its_limit_and_words(daemon: DaemonProcess) -> None:
    done = at_socket(daemon, "remember", "x", "--kind", "raw", "--origin", "stated", "--importance", "11")
    assert (done.returncode, done.stderr) == (
        4, "noctuary: invalid_input: importance: the value is over its limit (limit 10)\n",
    )  # fmt: skip
    done = at_socket(daemon, "remember", "x", "--kind", "raw", "--origin", "guessed")
    assert done.returncode == 4 and done.stderr.startswith("noctuary: invalid_input: origin: ")
    assert "(allowed: recorded, stated, " in done.stderr
    done = at_socket(daemon, "call", "remember", '{"kind": "raw"}')
    assert (done.returncode, done.stderr) == (4, "noctuary: invalid_input: text: the parameter is missing\n")


def test_forgetting_what_is_not_there_exits_1(daemon: DaemonProcess) -> None:
    assert at_socket(daemon, "forget", raw(daemon, "x")).returncode == 0
    assert at_socket(daemon, "forget", "raw:0000000000000").returncode == 1
    assert at_socket(daemon, "get", "raw", "0000000000000").returncode == 1


def test_refused_items_exit_4(daemon: DaemonProcess) -> None:
    good, bad = {"kind": "raw", "text": "x", "origin": "stated"}, {"kind": "raw", "text": "y", "origin": "guessed"}
    done = at_socket(daemon, "remember-many", json.dumps([good, bad]), "--atomic", "false")
    assert done.returncode == 4 and "@1 refused: invalid_input: origin" in done.stdout
    assert at_socket(daemon, "remember-many", json.dumps([good]), "--no-atomic").returncode == 0


def test_an_import_refuses_with_where_and_what(daemon: DaemonProcess, short_dir: Path) -> None:
    turn = {"session": "s", "agent": "a", "role": "user", "text": "one", "ref": "t1"}
    note = {"kind": "note", "text": "n", "origin": "derived", "derived_from": ["t1"], "ref": "n1"}
    path = short_dir / "turns"
    path.write_text(json.dumps(turn) + "\n", "utf-8")
    assert at_socket(daemon, "import", "--format", "turns", str(path)).returncode == 0
    before = daemon.call("list")["total"]
    path.write_text(json.dumps({**turn, "text": "two"}) + "\n" + json.dumps(note) + "\n", "utf-8")
    done = at_socket(daemon, "import", "--format", "turns", str(path), "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 4 and [row["reason"] for row in told["refused"]] == ["conflict", "provenance"]
    assert daemon.call("list")["total"] == before and told["dangling"] == []
    path.write_text("{}\n", "utf-8")
    done = at_socket(daemon, "import", "--format", "turns", str(path))
    assert done.returncode == 4 and done.stderr.startswith("noctuary: invalid_input: FILE: ")


# --- people's form -------------------------------------------------------------------------------


def test_a_session_shows_who_spoke_and_when(daemon: DaemonProcess) -> None:
    session = {"agent": "a", "key": "k"}
    when = "2001-06-02T09:00:00.000Z"
    raw(daemon, "hello", role="user", speaker="Mira", session=session, occurred_at=when, subtype="turn")
    raw(daemon, "hello back", role="assistant", session=session, subtype="turn")
    ref = daemon.call("sessions")["sessions"][0]["session"]
    for words in (["session", ref, "--include", "turns"], ["list", "--kinds", "raw"]):
        lines = at_socket(daemon, *words).stdout.split("\n")
        first, second = (line for line in lines if " raw:" in line)
        assert "2001-06-02 09:00" in first and "Mira" in first
        assert "assistant" in second
        assert lines[0 if words[0] == "list" else lines.index("") + 1].startswith(("AT ", "OCCURRED "))


def test_what_was_made_from_a_memory_points_to_it(daemon: DaemonProcess) -> None:
    source = raw(daemon, "x")
    made = daemon.call("remember", kind="note", text="n", origin="derived", derived_from=[source])["id"]
    done = at_socket(daemon, "meta", "reverse", *source.split(":"))
    assert f"  <- derived_from {made}" in done.stdout
    assert f"  -> derived_from {source}" in at_socket(daemon, "trace", made).stdout


def test_a_history_is_told_with_what_its_records_say(daemon: DaemonProcess) -> None:
    source = raw(daemon, "x")
    made = daemon.call("remember", kind="note", text="n", origin="derived", derived_from=[source])["id"]
    daemon.call("mark", id=made, mark="protected", note="because")
    daemon.call("relate", **{"from": made, "to": source, "type": "contradicts"})
    daemon.call("forget", id=source)
    told = at_socket(daemon, "history", made).stdout
    for said in ("marked: protected on; with a note", f"related: contradicts {source}", f"source {source} forgotten"):
        assert said in " ".join(told.split()), told
    wire = json.loads(at_socket(daemon, "--json", "history", made).stdout)
    assert all("event" not in row for row in wire["events"]), "JSON is as it came"


def test_what_is_not_there_is_named_with_what_is(daemon: DaemonProcess) -> None:
    gone = at_socket(daemon, "forget", "raw:0000000000000")
    assert (gone.returncode, gone.stdout) == (1, "not found: raw:0000000000000\n")
    verb = at_socket(daemon, "describe", "trac")
    assert verb.returncode == 1 and "allowed: hello, describe, " in verb.stderr and "trace" in verb.stderr


# --- ops/run -------------------------------------------------------------------------------------


@pytest.fixture
def tour(short_dir: Path) -> Path:
    """`ops/run` in a tree of its own, whose environment is set up already: this interpreter's."""
    tree = short_dir / "t"
    (tree / ".venv" / "bin").mkdir(parents=True)
    shutil.copytree(ROOT / "ops" / "samples", tree / "ops" / "samples")
    shutil.copy(ROOT / "ops" / "run", tree / "ops" / "run")
    (tree / "ops" / "setup.sh").write_text("set_up() { :; }\n", "utf-8")
    (tree / ".venv" / "bin" / "python").symlink_to(sys.executable)
    command = tree / ".venv" / "bin" / "noctuary"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m daemon.cli.entry "$@"\n', "utf-8")
    command.chmod(0o755)
    return tree


def environ_of(tour: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NOCTUARY_", "XDG_"))}
    return {**kept, "XDG_CONFIG_HOME": str(tour / "no-config"), "PYTHONDONTWRITEBYTECODE": "1", **more}


def test_a_second_tour_beside_the_first_gives_up_and_leaves_its_log(tour: Path) -> None:
    if shutil.which("flock") is None or shutil.which("setsid") is None:
        pytest.skip("flock and setsid of util-linux are missing")
    first = subprocess.Popen(["ops/run"], cwd=tour, env=environ_of(tour), stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout is not None
        assert any(line.startswith(READY_MARK) for line in first.stdout)
        log = tour / ".noctuary" / "daemon.log"
        before = log.read_bytes()
        assert b"ready" in before
        store = tour / ".noctuary" / "store"
        for more, reason in (
            ({}, f"the store {store} is open"),
            ({"NOCTUARY_STATE": str(tour / "s2")}, "a daemon already answers"),
            ({"NOCTUARY_SOCKET": str(tour / "s2.sock")}, f"the store {store} is open"),
        ):
            second = subprocess.run(
                ["ops/run", "--once"],
                cwd=tour,
                env=environ_of(tour, **more),
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert second.returncode == 75 and reason in second.stderr, second.stderr
            assert log.read_bytes().startswith(before)
        first.send_signal(signal.SIGINT)
        assert first.wait(30) == 0
    finally:
        if first.poll() is None:
            first.send_signal(signal.SIGTERM)
            first.wait(30)
        if first.stdout is not None:
            first.stdout.close()
    again = subprocess.run(["ops/run", "--once"], cwd=tour, env=environ_of(tour), capture_output=True, timeout=60)
    assert again.returncode == 0, again.stderr
    assert log.read_bytes().startswith(before) and log.read_bytes().count(b'"ready"') == 2
