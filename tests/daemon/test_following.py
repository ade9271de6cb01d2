"""`noctuary subscribe` against a scripted daemon: what is printed of what comes, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.test_client import ROOT, Scripted, begun, end, mark, record


def run(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "daemon.cli.entry", "--socket", str(path), "subscribe", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


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


def test_without_a_daemon_it_is_unreachable(tmp_path: Path) -> None:
    assert run(tmp_path / "no").returncode == 3
