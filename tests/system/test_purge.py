"""purge against a real daemon: the order of what reaches the disk, kills in its middle, failures, the command line."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import noctuary
from journal.errors import PartUnreadable
from journal.events import MemoryCreated, Purged
from journal.store import open_store
from journal.unsealing import unseal
from ops.drills.crash.recording import strace_problem
from tests.system.process import ENTRY, ROOT, DaemonProcess
from tests.system.raw_client import RawClient, request

WHY_NOT = strace_problem()
traced = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
CANARY = "canary-7d1f"


def write(daemon: DaemonProcess, count: int, **more: Any) -> list[str]:
    items = [
        {"kind": "raw", "origin": "stated", "text": f"{CANARY} {number}", "topic": f"{CANARY} topic", **more}
        for number in range(count)
    ]
    return [str(result["id"]) for result in daemon.call("remember_many", items=items)["results"]]


def readable(state: Path) -> set[int]:
    """The memories of which any part can still be opened, in a store that nobody has open."""
    found: set[int] = set()
    store = open_store(state, version="test", now_ms=1, readonly=True)
    try:
        with store.env.read() as txn:
            for chunk in store.log.chunks():
                for record in chunk:
                    if not isinstance(record.event, MemoryCreated):
                        continue
                    for part in record.event.parts:
                        try:
                            unseal(store.log, store.sealer, txn, part)
                            found.add(record.event.id)
                        except PartUnreadable:
                            continue
    finally:
        store.close(clean=False)
    return found


def purged_by_record(state: Path) -> set[int]:
    store = open_store(state, version="test", now_ms=1, readonly=True)
    try:
        return {
            target.id for chunk in store.log.chunks() for record in chunk
            if isinstance(record.event, Purged) for target in record.event.targets
        }  # fmt: skip
    finally:
        store.close(clean=False)


def tsid(ref: str) -> int:
    from journal.tsid import parse_memory_ref

    return parse_memory_ref(ref)[1]


@pytest.mark.parametrize("after_ms", [0, 1, 3, 6, 10, 15, 25, 40])
def test_killed_while_purging_each_memory_is_whole_or_gone_and_what_was_acked_is_gone(
    daemon: DaemonProcess, after_ms: int
) -> None:
    refs = write(daemon, 60)
    acked: list[str] = []
    begun = threading.Event()

    def purge_one_by_one() -> None:
        with daemon.client() as client:
            for ref in refs:
                begun.set()
                try:
                    client.call("purge", {"ids": [ref]}, dict)
                except noctuary.NoctuaryError:
                    return
                acked.append(ref)

    thread = threading.Thread(target=purge_one_by_one)
    thread.start()
    begun.wait(10)
    time.sleep(after_ms / 1000)  # where in a purge it is hit, no more is meant by this
    daemon.kill()
    thread.join(30)
    before = purged_by_record(daemon.state)
    daemon.start()
    found = {
        row["id"]: row for ref in range(0, 60, 20) for row in daemon.call("get", ids=refs[ref : ref + 20])["memories"]
    }
    gone = {ref for ref, row in found.items() if row["status"] == "purged"}
    assert set(acked) <= gone and len(gone) <= len(acked) + 1
    assert all(found[ref]["text"].startswith(CANARY) for ref in refs if ref not in gone)
    assert {tsid(ref) for ref in gone} == before
    assert not daemon.audit()["findings"]
    assert daemon.stop() == 0
    assert readable(daemon.state) == {tsid(ref) for ref in refs if ref not in gone}


@traced
def test_it_reaches_the_disk_in_the_order_of_the_contract(stopped: DaemonProcess, short_dir: Path) -> None:
    """Records, then the line in `purges`, then the slots, then the projections, then `head`, then the answer."""
    trace = short_dir / "trace"
    calls = "trace=pwrite64,pwritev,writev,write,fdatasync,fsync,msync,rename,renameat,renameat2,sendto"
    stopped.spawn(through=("strace", "-f", "-yy", "-o", str(trace), "-e", calls, "-s", "64"))
    stopped.await_ready()
    (ref,) = write(stopped, 1)
    begins = trace.stat().st_size
    stopped.call("purge", ids=[ref])
    lines = trace.read_bytes()[begins:].decode("utf-8", "replace").splitlines()
    stopped.kill()
    named = [(place, name) for place, line in enumerate(lines) if (name := _what(line))]
    firsts: dict[str, int] = {}
    for place, name in named:
        firsts.setdefault(name, place)
    order = ["journal", "purges", "purges_sync", "vault", "vault_sync", "projections", "head", "answer"]
    assert [name for name in sorted(firsts, key=firsts.__getitem__) if name in order] == order, named


def _what(line: str) -> str | None:
    for pattern, name in (
        (r"(pwrite64|pwritev|writev|write)\(\d+<[^>]*/journal/data\.mdb", "journal"),
        (r"write\(\d+<[^>]*/purges>", "purges"), (r"f(data)?sync\(\d+<[^>]*/purges>", "purges_sync"),
        (r"pwrite64\(\d+<[^>]*/vault>", "vault"), (r"f(data)?sync\(\d+<[^>]*/vault>", "vault_sync"),
        (r"(pwrite64|pwritev|writev|write)\(\d+<[^>]*/projections/data\.mdb", "projections"),
        (r"rename\w*\(.*head", "head"), (r"send(to|msg)?\(\d+<UNIX.*jsonrpc", "answer"),
    ):  # fmt: skip
        if re.search(pattern, line):
            return name
    return None


@traced
@pytest.mark.parametrize("file", ["purges", "vault", "head.new"])
def test_what_fails_behind_the_record_is_an_unknown_outcome_and_finished_at_the_next_start(
    stopped: DaemonProcess, short_dir: Path, file: str
) -> None:
    stopped.start()
    ref, other = write(stopped, 2)
    fail = ("-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:error=EIO", "-P", str(stopped.state / file))
    with subprocess.Popen(
        ["strace", "-f", "-p", str(stopped.pid), "-o", "/dev/null", *fail], stderr=subprocess.PIPE, text=True
    ) as strace:
        assert strace.stderr is not None
        while "attached" not in strace.stderr.readline():
            assert strace.poll() is None, "strace ended"
        _fails_unknown(stopped, ref)
    stopped.start()
    rows = stopped.call("get", ids=[ref, other])["memories"]
    assert [row["status"] for row in rows] == ["purged", "active"]
    assert stopped.call("purge", ids=[ref])["results"][0]["found"] is True
    assert stopped.stop() == 0
    assert readable(stopped.state) == {tsid(other)}


def _fails_unknown(stopped: DaemonProcess, ref: str) -> None:
    with pytest.raises((noctuary.UnknownOutcome, noctuary.Unreachable)):
        stopped.call("purge", ids=[ref])
    assert stopped.wait() == 74


def test_a_purge_has_a_batch_of_its_own_in_the_order_of_its_connection(daemon: DaemonProcess) -> None:
    """Sent in one go: what derives from a memory before its purge is there, what would behind it is refused."""
    (ref,) = write(daemon, 1)
    note = {"kind": "note", "origin": "inferred", "text": "n", "derived_from": [ref]}
    with RawClient(daemon.socket) as client:
        client.send(
            request("remember", 1, **note), request("purge", 2, ids=[ref]), request("remember", 3, **note),
            request("remember", 4, kind="raw", origin="stated", text=f"{CANARY} 0"),
        )  # fmt: skip
        found = {answer["id"]: answer for answer in (client.answer() for _ in range(4))}
    assert "result" in found[1] and found[2]["result"]["count"] == 1
    assert found[2]["result"]["results"][0]["derived_surviving"] == [found[1]["result"]["id"]]
    assert found[3]["error"]["data"]["reason"] == "provenance"
    again = daemon.call("get", ids=[found[4]["result"]["id"]])["memories"][0]
    assert again["text"] == f"{CANARY} 0", "it was sealed anew"


def test_no_file_has_the_text_and_no_key_opens_it(daemon: DaemonProcess) -> None:
    refs = write(daemon, 3, session={"agent": "a", "key": CANARY})
    daemon.call("purge", sel={"session": (session := daemon.call("sessions")["sessions"][0]["session"])})
    token = daemon.call("purge", sel={"session": session})["token"]
    daemon.call("purge", sel={"session": session}, token=token)
    assert daemon.call("sessions")["sessions"][0]["key"] is None
    assert all(CANARY.encode() not in content for content in daemon.files().values())
    assert CANARY not in daemon.logged()
    assert not daemon.audit()["findings"] and daemon.stop() == 0
    assert readable(daemon.state) == set() and len(refs) == 3


def run(daemon: DaemonProcess, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ENTRY, "--socket", str(daemon.socket), *words], cwd=ROOT, env=daemon.environment, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_command_line_purges_tells_and_makes_a_page(daemon: DaemonProcess) -> None:
    first, second = write(daemon, 2)
    told = run(daemon, "purge", "--kinds", "raw")
    assert told.returncode == 0 and "2 memories would be purged" in told.stdout and "--token " in told.stdout
    kind, _, rest = first.partition(":")
    done = run(daemon, "purge", kind, rest, "--reason", "privacy")
    assert done.returncode == 0 and "1 memory purged" in done.stdout and "Not reached by this" in done.stdout
    address = re.search(r"receipt (\d+/\d+)", done.stdout)
    assert address is not None
    listed = run(daemon, "purges")
    assert address[1] in listed.stdout and "privacy" in listed.stdout
    assert address[1] in run(daemon, "purges", "--receipt", address[1]).stdout
    page = run(daemon, "purges", "--receipt", address[1], "--html")
    assert page.returncode == 0 and page.stdout.startswith("<!DOCTYPE html>")
    assert first in page.stdout and "privacy" in page.stdout and "dr_exports" in page.stdout
    for never in (CANARY, "<script", "http:", "https:", "src=", "href=", "url("):
        assert never not in page.stdout
    assert run(daemon, "hold", "--ids", second, "--note", "case 1").returncode == 0
    assert "case 1" in run(daemon, "holds").stdout
    refused = run(daemon, "purge", second)
    assert refused.returncode == 4 and "legal_hold" in refused.stderr
    assert run(daemon, "purge", "raw:0000000000001").returncode == 1
    assert run(daemon, "purge").returncode == 2 and run(daemon, "purges", "--receipt", "x").returncode == 2
    as_json = daemon.command("purges", "--receipt", address[1])
    assert json.loads(as_json.stdout)["purges"][0]["results"][0]["memory"] == first


def test_purge_and_hold_go_on_in_a_copy_that_was_restored(daemon: DaemonProcess, short_dir: Path) -> None:
    """A backup from before, with the purge list from after: what was purged is, and what was blocked stays out."""
    ref, other = write(daemon, 2)
    daemon.call("backup", dir=str(short_dir / "b"))
    receipt = daemon.call("purge", ids=[ref], block_reingest=True)["receipt"]
    assert daemon.stop() == 0
    restored = short_dir / "r"
    restored.mkdir(mode=0o700)
    shutil.copy(daemon.state / "purges", restored / "purges")
    done = subprocess.run(
        [*ENTRY, "restore", str(short_dir / "b"), "--state", str(restored)], cwd=ROOT, env=daemon.environment,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    daemon.state = restored
    daemon.start()
    assert [row["status"] for row in daemon.call("get", ids=[ref, other])["memories"]] == ["purged", "active"]
    with pytest.raises(noctuary.Conflict):
        daemon.call("remember", kind="raw", origin="stated", text=f"{CANARY} 0")
    told = daemon.call("purges", receipt=receipt)["purges"][0]
    assert told["applied_again"] is True and told["memories"] == [ref]
    assert daemon.stop() == 0 and readable(restored) == {tsid(other)}


def test_a_signal_between_purges_ends_in_order(daemon: DaemonProcess) -> None:
    ref = write(daemon, 1)[0]
    daemon.call("purge", ids=[ref])
    assert signal.SIGTERM and daemon.stop() == 0
    daemon.start()
    assert daemon.call("get", ids=[ref])["memories"][0]["status"] == "purged"
    assert daemon.call("status")["recovery"]["clean"] is True
