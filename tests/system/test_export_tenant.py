"""One tenant leaves as a whole: its frames and nothing else, with a daemon and without, held against the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from journal.frames import decode_frame, verify_frame
from tests.system.process import DaemonProcess
from tests.system.test_exchange import command, exported, reason

TENANTS = ("default", "ada", "bob")


def furnish(daemon: DaemonProcess, tenant: str) -> None:
    """A session with turns and an entity, a note, a proposal, a cohort, a purge."""
    with daemon.client(tenant) as client:

        def write(verb: str, **params: Any) -> dict[str, Any]:
            return dict(client.call(verb, params, dict))

        session = write("session_open", agent="a", key=f"key of {tenant}")["session"]
        turn = {"kind": "raw", "role": "user", "session": session}
        kept = write("remember", **turn, text=f"kept by {tenant}", entities=[{"name": f"n {tenant}", "type": "t"}])
        gone = write("remember", **turn, text=f"gone of {tenant}")["id"]
        note = write("remember", kind="note", origin="inferred", text=f"note of {tenant}", derived_from=[kept["id"]])
        write("propose", proposal_kind="retention", memory=note["id"], action="archive")
        sel = {"kinds": ["note"]}
        token = write("cohort", action="demote", sel=sel)["token"]
        write("cohort", action="demote", sel=sel, token=token)
        write("purge", ids=[gone])


@pytest.fixture
def furnished(daemon: DaemonProcess) -> Iterator[DaemonProcess]:
    for tenant in TENANTS:
        furnish(daemon, tenant)
    yield daemon


def test_its_frames_and_nothing_else_leave_alike_with_a_daemon_and_without(
    furnished: DaemonProcess, tmp_path: Path
) -> None:
    words = ("--tenant", "ada", "--level")
    once = exported(furnished, tmp_path / "once", *words, "content", socket=True)
    live = {
        level: exported(furnished, tmp_path / level, *words, level, socket=True)
        for level in ("skeleton", "sealed", "content")
    }
    assert len(live["content"]) == len(once) + 1, "that somebody asked for its records, behind the head of the first"
    assert furnished.stop() == 0
    for level, lines in live.items():
        offline = exported(furnished, tmp_path / f"off-{level}", *words, level, "--state", str(furnished.state))
        assert [decode_frame(line) for line in lines[1:]] == [
            frame for frame in map(decode_frame, offline[1:]) if frame.seq <= json.loads(lines[0])["head"]["seq"]
        ]
        first = json.loads(offline[0])
        assert (first["tenant"], first["level"], first["export"]) == ("ada", level, 1) and "hash_key" not in first
        frames = [decode_frame(line) for line in offline[1:]]
        assert {frame.tenant for frame in frames} == {"ada"} and len(frames) > 12
        assert [frame.seq for frame in frames] == sorted({frame.seq for frame in frames})
        for frame in frames:
            verify_frame(frame)
    told = (tmp_path / "off-content").read_bytes()
    assert b"kept by ada" in told and b"note of ada" in told
    for absent in (b"gone of ada", b"of bob", b"by bob", b"by default"):
        assert absent not in told


def test_all_tenants_together_and_the_store_are_the_whole(furnished: DaemonProcess, tmp_path: Path) -> None:
    assert furnished.stop() == 0
    whole = exported(furnished, tmp_path / "whole", "--state", str(furnished.state))[1:]
    apart = [
        line
        for tenant in TENANTS
        for line in exported(furnished, tmp_path / tenant, "--tenant", tenant, "--state", str(furnished.state))[1:]
    ]
    of_nobody = [line for line in whole if decode_frame(line).tenant is None]
    assert sorted(whole) == sorted(apart + of_nobody) and of_nobody


def test_a_name_that_no_tenant_has_is_refused_and_leaves_no_file(furnished: DaemonProcess, tmp_path: Path) -> None:
    for socket in (True, False):
        where = () if socket else ("--state", str(furnished.state))
        done = command(furnished, "export", "--tenant", "adda", "--out", tmp_path / "f", *where, socket=socket)
        assert done.returncode == 2 and "there is no tenant adda" in reason(done)
        if socket:
            assert furnished.stop() == 0
    assert list(tmp_path.glob("f*")) == []


def test_no_store_is_made_of_it(furnished: DaemonProcess, tmp_path: Path) -> None:
    exported(furnished, tmp_path / "ada", "--tenant", "ada", socket=True)
    done = command(furnished, "import", "--format", "frames", tmp_path / "ada", "--state", tmp_path / "new")
    assert done.returncode == 65 and "one tenant, ada" in reason(done)


def test_what_is_left_of_a_tenant_is_told(furnished: DaemonProcess, tmp_path: Path) -> None:
    def held(*where: str) -> dict[str, Any]:
        done = command(furnished, "audit", "--tenant", "ada", *where, socket=not where)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout)["holdings"])

    before = held()
    assert (before["things"]["memories"]["count"], before["things"]["sessions"]["count"]) == (3, 1)
    assert before["readable"]["text"] == 2
    with furnished.client("ada") as client:
        sel = {"until": "2100-01-01T00:00:00Z"}
        token = client.call("purge", {"sel": sel}, dict)["token"]
        client.call("purge", {"sel": sel, "token": token}, dict)
    after = held()
    assert after["things"]["memories"] == before["things"]["memories"], "that there was something is retained"
    assert "text" not in after["readable"] and after["destroyed"] > before["destroyed"]
    with furnished.client("bob") as client:
        sound = client.call("audit", {"tenant": "bob"}, dict)["holdings"]
    assert sound["readable"]["text"] == 2
    assert furnished.stop() == 0
    offline = held("--state", str(furnished.state))
    assert {**offline, "head": None, "records": None} == {**after, "head": None, "records": None}
