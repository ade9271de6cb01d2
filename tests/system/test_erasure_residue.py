"""residue beside a daemon that serves and writes, through the command line, and without a daemon: the same answer."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from typing import Any

from tests.system.process import ENTRY, ROOT, DaemonProcess

WORD = "zqneedle7"


def looked(daemon: DaemonProcess, *words: str, pattern: str = WORD, socket: bool = True) -> dict[str, Any]:
    """What the command tells; what is looked for goes through its standard input only."""
    place = ("--socket", str(daemon.socket)) if socket else ()
    done = subprocess.run(
        [*ENTRY, "--json", *place, "residue", *words], input=pattern + "\n", cwd=ROOT, env=daemon.environment,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert pattern not in done.stdout + done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def write(daemon: DaemonProcess, text: str) -> str:
    return str(daemon.call("remember", kind="raw", subtype="capture", origin="stated", text=text)["id"])


def test_with_and_without_a_daemon_the_same_is_found(daemon: DaemonProcess) -> None:
    kept, gone = write(daemon, f"{WORD} kept"), write(daemon, f"{WORD} gone")
    (daemon.state / "stray").write_bytes(b"..." + WORD.encode())
    before = looked(daemon)
    assert {each["memory"] for each in before["readable"]} == {kept, gone}
    assert before["bytes"] == [{"file": "stray", "offset": 3}]
    daemon.call("purge", ids=[gone])
    seq = daemon.call("head")["seq"]
    (daemon.state / "stray").unlink()
    served = looked(daemon, "--state", str(daemon.state))
    assert [(each["memory"], each["status"]) for each in served["readable"]] == [(kept, "active")]
    assert served["bytes"] == [] and served["unopenable"] >= 1
    assert daemon.call("head")["seq"] == seq, "a search leaves no record"
    assert daemon.stop() == 0
    alone = looked(daemon, "--state", str(daemon.state), socket=False)
    assert alone["readable"] == served["readable"] and alone["bytes"] == []
    assert WORD not in daemon.logged()
    for path, content in daemon.files().items():
        assert WORD.encode() not in content, path


def test_a_store_with_a_master_key_is_searched_with_it_and_refused_without(
    stopped: DaemonProcess, short_dir: Path
) -> None:
    """Without it no key opens anything: all would look erased."""
    key = short_dir / "key"
    key.write_bytes(bytes(range(32)))
    key.chmod(0o600)
    stopped.start("--master-key", str(key))
    kept, gone = write(stopped, f"{WORD} kept"), write(stopped, f"{WORD} gone")
    stopped.call("purge", ids=[gone])
    assert stopped.stop() == 0
    place = ("--state", str(stopped.state))
    told = looked(stopped, *place, "--master-key", str(key), socket=False)
    assert [each["memory"] for each in told["readable"]] == [kept]
    done = subprocess.run(
        [*ENTRY, "residue", *place], input=WORD, cwd=ROOT, env=stopped.environment, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 78 and "master key" in done.stderr and done.stdout == ""


def test_it_finds_what_is_there_while_others_write(daemon: DaemonProcess) -> None:
    ref = write(daemon, f"{WORD} {'x' * 5000}")
    stop = threading.Event()
    written: list[dict[str, Any]] = []

    def go_on() -> None:
        with daemon.client() as client:
            while not stop.is_set():
                items = [
                    {"kind": "raw", "subtype": "capture", "origin": "stated", "text": f"{len(written)} {'y' * 3000}"}
                ]
                written.append(client.call("remember_many", {"items": items}, dict))

    writing = threading.Thread(target=go_on)
    writing.start()
    try:
        for _ in range(5):
            found = daemon.call("residue", pattern=WORD)
            assert [each["memory"] for each in found["readable"]] == [ref] and found["bytes"] == []
    finally:
        stop.set()
        writing.join()
    assert len(written) > 5
    assert daemon.audit()["findings"] == []


def test_the_pattern_is_in_no_metric(daemon: DaemonProcess) -> None:
    daemon.call("residue", pattern=WORD)
    assert WORD not in daemon.call("metrics")["text"]
    done = daemon.command("residue", WORD)
    assert done.returncode == 2 and WORD not in done.stderr
