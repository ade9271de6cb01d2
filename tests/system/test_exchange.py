"""Stores that leave as frames and come back: by the command line, with a daemon and without, and what can go wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import noctuary
from ops.drills.full_disk import CannotMount, small_disk
from tests.system.process import ENTRY, ROOT, DaemonProcess
from tests.system.test_locomo import DATA, imported

RAW = {"kind": "raw", "role": "user"}


def command(
    daemon: DaemonProcess, *words: str | Path, socket: bool = False, **more: Any
) -> subprocess.CompletedProcess[bytes]:
    """The command line, without a socket of its own unless asked for; what it prints as bytes."""
    where = ["--socket", str(daemon.socket)] if socket else []
    return subprocess.run(
        [*ENTRY, "--json", *where, *map(str, words)], cwd=ROOT, env=daemon.environment, capture_output=True, timeout=90,
        check=False, **more,
    )  # fmt: skip


def exported(daemon: DaemonProcess, target: Path, *words: str, socket: bool = False) -> list[bytes]:
    done = command(daemon, "export", "--out", target, *words, socket=socket)
    assert done.returncode == 0, done.stderr
    return target.read_bytes().splitlines(keepends=True)


def import_of(daemon: DaemonProcess, source: Path, state: Path) -> dict[str, Any]:
    done = command(daemon, "import", "--format", "frames", source, "--state", state)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def reason(done: subprocess.CompletedProcess[bytes]) -> str:
    told: str = json.loads(done.stderr.splitlines()[-1])["error"]["message"]
    return told


def fill(daemon: DaemonProcess, count: int = 30) -> list[dict[str, Any]]:
    items = [{**RAW, "text": f"text {number % 20} ✓", "idempotency_key": f"k{number}"} for number in range(count)]
    found: list[dict[str, Any]] = []
    with daemon.client() as client:
        for first in range(0, count, 1000):
            batch = {"items": items[first : first + 1000], "atomic": False}
            found += client.call("remember_many", batch, dict)["results"]
    return found


# --- there and back ------------------------------------------------------------------------------


@pytest.mark.skipif(not DATA.exists(), reason=f"the LoCoMo set isn't at {DATA}: its licence keeps it out")
def test_locomo_leaves_and_comes_back(daemon: DaemonProcess, tmp_path: Path) -> None:
    report = imported(daemon)
    before = daemon.audit()
    assert daemon.stop() == 0
    exported(daemon, tmp_path / "frames", "--state", str(daemon.state))
    shutil.move(daemon.state, tmp_path / "old")
    import_of(daemon, tmp_path / "frames", daemon.state)
    daemon.start()
    after = daemon.audit()
    assert after["digests"] == before["digests"] and before["findings"] == after["findings"] == []
    again = imported(daemon)
    assert again["written"] == 0 and again["duplicates"] == report["written"]


def test_a_daemon_and_its_stopped_store_export_the_same(daemon: DaemonProcess, tmp_path: Path) -> None:
    fill(daemon, 2500)
    for level in ("skeleton", "sealed", "content"):
        live = exported(daemon, tmp_path / f"live-{level}", "--level", level, socket=True)
        held = exported(daemon, tmp_path / f"held-{level}", "--level", level, "--state", str(daemon.state), socket=True)
        assert live == held and len(live) > 2500
    assert daemon.stop() == 0
    for level in ("skeleton", "sealed", "content"):
        offline = exported(daemon, tmp_path / f"off-{level}", "--level", level, "--state", str(daemon.state))
        assert offline == (tmp_path / f"live-{level}").read_bytes().splitlines(keepends=True), level
        assert (b"hash_key" in offline[0]) == (level == "content")
    assert b"text 1 " not in (tmp_path / "off-sealed").read_bytes() + (tmp_path / "off-skeleton").read_bytes()
    assert stat.S_IMODE((tmp_path / "off-content").stat().st_mode) == 0o600


def test_an_export_under_load_is_whole_up_to_its_head(daemon: DaemonProcess, tmp_path: Path) -> None:
    fill(daemon, 1500)
    ending = threading.Event()

    def write() -> None:
        with daemon.client() as client:
            while not ending.is_set():
                client.call("remember", {**RAW, "text": "meanwhile"}, dict)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        lines = exported(daemon, tmp_path / "frames", socket=True)
    finally:
        ending.set()
        writer.join()
    head = json.loads(lines[0])["head"]
    assert len(lines) == head["seq"] + 1 and json.loads(lines[-1])["chain"] == head["chain"]
    told = import_of(daemon, tmp_path / "frames", tmp_path / "new")
    assert told["records"] == head["seq"] and told["source"]["chain"] == head["chain"]


def test_standard_output_and_input_carry_a_store(daemon: DaemonProcess, tmp_path: Path) -> None:
    fill(daemon)
    done = command(daemon, "export", socket=True)
    assert done.returncode == 0 and done.stderr == b""
    came = command(daemon, "import", "--format", "frames", "-", "--state", tmp_path / "new", input=done.stdout)
    assert came.returncode == 0, came.stderr
    assert json.loads(came.stdout)["records"] == len(done.stdout.splitlines()) - 1


def test_what_was_imported_serves_and_is_exported_again(daemon: DaemonProcess, tmp_path: Path) -> None:
    results = fill(daemon)
    before = daemon.call("get", ids=[each["id"] for each in results[:20]])
    exported(daemon, tmp_path / "frames", socket=True)
    assert daemon.stop() == 0
    shutil.rmtree(daemon.state)
    import_of(daemon, tmp_path / "frames", daemon.state)
    daemon.start()
    assert daemon.call("get", ids=[each["id"] for each in results[:20]]) == before
    audit = daemon.audit()
    assert audit["findings"] == [] and daemon.call("hello")["epoch"] == 1
    again = fill(daemon)
    assert all(each["duplicate"] for each in again) and [e["id"] for e in again] == [e["id"] for e in results]
    assert len(exported(daemon, tmp_path / "again", socket=True)) == audit["records"] + 1
    assert daemon.stop() == 0
    assert command(daemon, "audit", "--rebuild", "--state", daemon.state).returncode == 0


# --- wrong words, wrong places ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("export", "--level", "all"), "no level 'all'"),
        (("export", "--level"), "--level needs a value"),
        (("export", "more"), "'more' is too much"),
        (("import", "--format", "frames"), "import --format frames FILE"),
        (("import", "--format", "frames", "a", "b"), "import --format frames FILE"),
        (("import", "--format", "frames", "no-such-file", "--state", "x"), "can't read no-such-file"),
        (("import", "--format", "frames", "a", "--socket", "x"), "no --socket"),
        (("import", "--format", "tapes", "a"), "frames"),
    ],
)
def test_wrong_words_are_said_to_be(stopped: DaemonProcess, words: tuple[str, ...], message: str) -> None:
    done = command(stopped, *words)
    assert done.returncode == 2 and message in reason(done), done.stderr


def test_a_file_that_exists_stays(daemon: DaemonProcess, tmp_path: Path) -> None:
    (tmp_path / "frames").write_text("mine")
    done = command(daemon, "export", "--out", tmp_path / "frames", socket=True)
    assert done.returncode == 73 and "--force" in reason(done)
    assert (tmp_path / "frames").read_text() == "mine"
    assert exported(daemon, tmp_path / "frames", "--force", socket=True)[0].startswith(b'{"export":1')


def test_no_export_comes_to_lie_among_the_files_of_the_store(daemon: DaemonProcess, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(daemon.state)
    for target in (daemon.state / "frames", tmp_path / "link" / "frames", daemon.state / "journal" / "frames"):
        for words in (("--state", str(daemon.state)), ()):
            done = command(daemon, "export", *words, "--out", target, socket=True)
            assert done.returncode == 73 and "state directory" in reason(done), (target, words)
    assert not (daemon.state / "frames").exists()


def test_there_must_be_a_store_to_export(stopped: DaemonProcess, tmp_path: Path) -> None:
    done = command(stopped, "export", "--state", tmp_path / "none", "--out", tmp_path / "frames")
    assert done.returncode == 1 and os.listdir(tmp_path) == []
    done = command(stopped, "export", "--out", tmp_path / "frames", socket=True)
    assert done.returncode == 3 and os.listdir(tmp_path) == []


def test_the_daemon_that_is_asked_must_serve_the_store(daemon: DaemonProcess, short_dir: Path, tmp_path: Path) -> None:
    (short_dir / "b").mkdir()
    other = DaemonProcess(short_dir / "b", "other")
    other.start()
    try:
        done = command(other, "export", "--state", daemon.state, "--out", tmp_path / "frames", socket=True)
    finally:
        other.close()
    assert done.returncode == 75 and "another store" in reason(done)
    assert os.listdir(tmp_path) == []


def test_a_store_that_is_open_is_no_place_for_an_import(daemon: DaemonProcess, tmp_path: Path) -> None:
    exported(daemon, tmp_path / "frames", socket=True)
    done = command(daemon, "import", "--format", "frames", tmp_path / "frames", "--state", daemon.state)
    assert done.returncode == 75
    assert daemon.stop() == 0
    done = command(daemon, "import", "--format", "frames", tmp_path / "frames", "--state", daemon.state)
    assert done.returncode == 73 and "not empty" in reason(done)
    daemon.start()


def test_a_damaged_journal_is_not_exported(daemon: DaemonProcess, tmp_path: Path) -> None:
    fill(daemon)
    assert daemon.stop() == 0
    data = daemon.state / "journal" / "data.mdb"
    content = data.read_bytes()
    place = content.index(b"remember_many")
    data.write_bytes(content[:place] + b"X" + content[place + 1 :])
    done = command(daemon, "export", "--state", daemon.state, "--out", tmp_path / "frames")
    assert done.returncode == 65 and os.listdir(tmp_path) == []


HARMS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "cut": lambda lines: [*lines[:20], lines[20][:99]],
    "swapped": lambda lines: [*lines[:20], lines[21], lines[20], *lines[22:]],
    "changed": lambda lines: [line.replace("text 7 ✓".encode(), "text 8 ✓".encode()) for line in lines],
    "empty": lambda lines: [],
    "nested": lambda lines: [*lines[:20], b'{"more":' + b"[" * 100_000 + b"\n", *lines[20:]],
    "another file": lambda lines: [b'{"kind": "raw"}\n'],
}


@pytest.mark.parametrize("harm", [*HARMS, "skeleton"])
def test_a_bad_export_is_refused_with_what_is_wrong(daemon: DaemonProcess, tmp_path: Path, harm: str) -> None:
    fill(daemon)
    lines = exported(daemon, tmp_path / "frames", socket=True)
    if harm == "skeleton":
        bad = exported(daemon, tmp_path / "bones", "--level", "skeleton", socket=True)
    else:
        bad = HARMS[harm](lines)
    (tmp_path / "bad").write_bytes(b"".join(bad))
    done = command(daemon, "import", "--format", "frames", tmp_path / "bad", "--state", tmp_path / "new")
    assert done.returncode == 65 and "text 8" not in done.stderr.decode(), done.stderr
    assert json.loads(done.stderr)["error"]["data"] == {"reason": "damaged"}
    import_of(daemon, tmp_path / "frames", tmp_path / "new")


# --- what ends in the midst --------------------------------------------------------------------------


def test_an_import_that_was_killed_is_begun_anew(daemon: DaemonProcess, tmp_path: Path) -> None:
    fill(daemon, 1500)
    lines = exported(daemon, tmp_path / "frames", socket=True)
    assert daemon.stop() == 0
    shutil.rmtree(daemon.state)
    words = [*ENTRY, "import", "--format", "frames", "-", "--state", str(daemon.state)]
    with subprocess.Popen(words, cwd=ROOT, env=daemon.environment, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"".join(lines[:1200]))  # more than a pipe holds: all but its end is taken
        process.stdin.flush()
        process.send_signal(signal.SIGKILL)
    assert (daemon.state / "unfinished").exists() and not (daemon.state / "FORMAT").exists()
    daemon.spawn()
    assert daemon.wait() == 73 and "interrupted" in daemon.logged()
    assert command(daemon, "export", "--state", daemon.state).returncode != 0
    told = import_of(daemon, tmp_path / "frames", daemon.state)
    assert told["records"] == len(lines) - 1
    daemon.start()
    assert daemon.audit()["findings"] == []


def test_an_export_whose_daemon_is_killed_leaves_no_file(daemon: DaemonProcess, tmp_path: Path) -> None:
    fill(daemon, 2000)
    words = [*ENTRY, "--socket", str(daemon.socket), "export"]
    with subprocess.Popen(words, cwd=ROOT, env=daemon.environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1000)  # it waits for its reader from here on
        daemon.kill()
        process.stdout.read()
    assert process.returncode == 3
    done = command(daemon, "export", "--out", tmp_path / "frames", socket=True)
    assert done.returncode == 3 and os.listdir(tmp_path) == []


def test_an_export_that_nobody_reads_to_its_end_has_failed(daemon: DaemonProcess) -> None:
    fill(daemon, 2000)
    words = [*ENTRY, "--socket", str(daemon.socket), "export"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=ROOT, env=daemon.environment, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(1000)
        process.stdout.close()
        complaint = process.stderr.read()
    assert process.returncode == 74 and b"before its end" in complaint


def test_disks_that_fill_cost_nothing_but_the_try(daemon: DaemonProcess, tmp_path: Path) -> None:
    items = [{**RAW, "text": f"{number} " + "x" * 4000} for number in range(3000)]
    with daemon.client() as client:
        for first in range(0, len(items), 500):
            client.call("remember_many", {"items": items[first : first + 500]}, dict)
    lines = exported(daemon, tmp_path / "frames", socket=True)
    try:
        with small_disk(8) as small:
            done = command(daemon, "export", "--out", small / "frames", socket=True)
            assert done.returncode == 74 and "No space left" in reason(done)
            assert os.listdir(small) == []
            done = command(daemon, "import", "--format", "frames", tmp_path / "frames", "--state", small / "new")
            assert done.returncode == 74 and "the disk is full" in reason(done)
            assert not (small / "new" / "FORMAT").exists() and (small / "new" / "unfinished").exists()
            subprocess.run(["mount", "-o", "remount,size=200m", str(small)], check=True)
            told = import_of(daemon, tmp_path / "frames", small / "new")
            assert told["records"] == len(lines) - 1
            assert command(daemon, "audit", "--state", small / "new").returncode == 0
    except CannotMount as refusal:
        pytest.skip(f"no small file system can be mounted here: {refusal}")


def test_who_may_not_export_gets_nothing(stopped: DaemonProcess, tmp_path: Path) -> None:
    config = stopped.state.parent / "noctuary.toml"
    config.write_text(f'[[peer]]\nuid = {os.getuid()}\ntenant = "default"\nrole = "agent"\n')
    stopped.start("--config", str(config))
    done = command(stopped, "export", "--out", tmp_path / "frames", socket=True)
    assert done.returncode == 77 and os.listdir(tmp_path) == []
    with stopped.client() as client, pytest.raises(noctuary.Denied):
        client.call("records", {"level": "content"}, dict)
