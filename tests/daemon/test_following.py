"""`noctuary subscribe` against a scripted daemon: what is printed of what comes, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from tests.test_client import HEAD, ROOT, Scripted, Server, begun, end, mark, record


def run(path: Path, *words: str, stderr: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "daemon.cli.entry", "--socket", str(path), "subscribe", *words]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=60, check=False)


def test_frames_alone_are_printed_as_json_and_marks_when_they_are_asked_for(tmp_path: Path) -> None:
    script = [begun(3), record(4), mark(9), end("denied")]
    Scripted(str(tmp_path / "s"), script, script)
    done = run(tmp_path / "s", "--json")
    assert [json.loads(line)["seq"] for line in done.stdout.splitlines()] == [4]
    assert done.returncode == 77 and json.loads(done.stderr)["error"]["data"]["reason"] == "denied"
    lines = [json.loads(line) for line in run(tmp_path / "s", "--json", "--marks").stdout.splitlines()]
    assert lines[1] == {"mark": {"epoch": 1, "seq": 9, "chain": "09"}} and lines[0]["seq"] == 4


def test_a_printed_mark_and_a_printed_frame_are_places(tmp_path: Path) -> None:
    server = Scripted(str(tmp_path / "s"), [begun(3), end("denied")], [begun(3), end("denied")])
    run(tmp_path / "s", "--after", '{"mark": {"epoch": 1, "seq": 9, "chain": "09"}}')
    run(tmp_path / "s", "--after", json.dumps({**record(4)["params"]["frame"]}))
    assert [request["params"]["after"] for request in server.seen] == [
        {"epoch": 1, "seq": 9, "chain": "09"},
        {"store": "00", "epoch": 1, "seq": 4, "chain": "04"},
    ]


def test_people_get_lines_that_fit(tmp_path: Path) -> None:
    Scripted(str(tmp_path / "s"), [begun(3), record(4), mark(9), end("damaged", seq=10)])
    done = run(tmp_path / "s", "--marks")
    lines = done.stdout.splitlines()
    assert "opened" in lines[0] and lines[-1] == "up to record 9, epoch 1"
    assert all(len(line) <= 80 for line in lines)
    assert done.returncode == 65 and "seq 10" in done.stderr


def test_at_a_terminal_it_says_from_where_it_follows_and_that_it_waits(tmp_path: Path) -> None:
    script = [begun(3), record(4)], [begun(8), end("denied")]
    server = Scripted(str(tmp_path / "s"), *script, *script)
    ours, theirs = pty.openpty()
    done = run(tmp_path / "s", "--json", stderr=theirs)
    os.close(theirs)
    said = os.read(ours, 65_536).decode().splitlines()
    os.close(ours)
    assert said[:3] == [
        "noctuary: following what is behind record 3, epoch 1",
        "noctuary: the daemon is gone; waiting for it, up to 120 s",
        "noctuary: following what is behind record 4, epoch 1",
    ]
    assert [json.loads(line)["seq"] for line in done.stdout.splitlines()] == [4]
    assert [line for line in run(tmp_path / "s", "--json").stderr.splitlines() if "noctuary" in line] == []
    assert len(server.seen) == 4


def test_an_interrupt_is_an_ordinary_end(tmp_path: Path) -> None:
    Server(str(tmp_path / "s"), lambda _: {"result": {"head": HEAD}})
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "daemon.cli.entry", "--socket", str(tmp_path / "s"), "subscribe"]
    following = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    assert b"behind record 7" in os.read(ours, 65_536)
    following.send_signal(signal.SIGINT)
    assert following.communicate(timeout=20)[0] == b"" and following.returncode == 0
    os.close(ours)


def test_without_a_daemon_it_is_unreachable(tmp_path: Path) -> None:
    assert run(tmp_path / "no").returncode == 3
