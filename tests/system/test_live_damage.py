"""Damage that a serving daemon meets: it costs the question that met it, is reported, and heals or is named.

The values are damaged through LMDB itself, so that pages and trees stay sound and only our checks can notice.
"""

from __future__ import annotations

import time
from typing import Any

import lmdb
import pytest

import noctuary
from journal.vault import SLOT_BYTES, SLOTS_OFFSET
from projections import tables
from tests.system.damaging import damage_values
from tests.system.process import DaemonProcess

TURN = {"kind": "raw", "role": "user"}
HEALED_WITHIN_S = 60.0


@pytest.fixture
def written(daemon: DaemonProcess) -> DaemonProcess:
    """A daemon that was stopped after three turns."""
    for number in range(3):
        daemon.call("remember", **TURN, text=f"turn {number}", session={"agent": "a", "key": "k"})
    assert daemon.stop() == 0
    return daemon


def digests(daemon: DaemonProcess) -> dict[str, str]:
    found = daemon.audit()
    assert found["findings"] == []
    return dict(found["digests"])


def answered(daemon: DaemonProcess, verb: str, **params: Any) -> dict[str, Any]:
    """Ask until it is no longer refused as damaged."""
    deadline = time.monotonic() + HEALED_WITHIN_S
    while True:
        try:
            return daemon.call(verb, **params)
        except noctuary.NoctuaryError as error:
            assert error.reason == "damaged" and time.monotonic() < deadline, error
            time.sleep(error.data["retry_after_ms"] / 10_000)


def await_no_findings(daemon: DaemonProcess) -> None:
    """What read the damaged rows beside the healing may tell of them a little later: then it is healed once more."""
    deadline = time.monotonic() + HEALED_WITHIN_S
    while found := daemon.call("status")["findings"]:
        assert time.monotonic() < deadline, found


def test_a_damaged_row_refuses_the_question_and_is_healed_while_it_serves(written: DaemonProcess) -> None:
    written.start()
    before = digests(written)
    listed = written.call("list")["memories"]
    assert damage_values(written.state / "projections", tables.MEMORIES) == 3
    with pytest.raises(noctuary.NoctuaryError) as refused:
        written.call("get", ids=[listed[0]["id"]])
    assert refused.value.reason == "damaged"
    assert answered(written, "get", ids=[listed[0]["id"]])["memories"][0]["id"] == listed[0]["id"]
    assert digests(written) == before
    await_no_findings(written)
    assert '"healing"' in written.logged() and '"healed"' in written.logged()
    kept = written.call("remember", **TURN, text="written beside damage")["id"]
    written.restart()
    again = {memory["id"]: memory for memory in written.call("list")["memories"]}
    assert again.pop(kept) and again == {memory["id"]: memory for memory in listed}
    assert written.call("status")["health"] == "ok"
    after = digests(written)
    assert after.keys() == before.keys()


@pytest.mark.parametrize("database", [tables.SESSIONS, tables.MEMORIES, tables.TURNS, tables.BLOCKS])
def test_damage_at_rest_is_folded_anew_before_anything_is_served(written: DaemonProcess, database: str) -> None:
    assert damage_values(written.state / "projections", database) > 0
    written.start()
    (session,) = written.call("sessions")["sessions"]
    assert (session["key"], session["turns"]) == ("k", 3)
    assert len(written.call("list")["memories"]) == 3
    digests(written)


def test_a_damaged_key_does_not_hide_a_memory(written: DaemonProcess) -> None:
    data = written.state / "projections" / "data.mdb"
    with lmdb.open(str(data.parent), max_dbs=32, map_size=1 << 40) as env:
        handle = env.open_db(tables.MEMORIES.encode(), create=False)
        with env.begin(db=handle) as txn:
            key = next(iter(txn.cursor()))[0]
    content = data.read_bytes()
    assert content.count(key) > 1
    data.write_bytes(content.replace(key, bytes((*key[:-1], key[-1] ^ 1))))
    written.start()
    assert len(written.call("list")["memories"]) == 3
    digests(written)


def test_a_flipped_key_costs_one_memory_and_audit_names_it(written: DaemonProcess) -> None:
    with (written.state / "vault").open("r+b") as vault:
        vault.seek(SLOTS_OFFSET + 2 * SLOT_BYTES + 20)
        (byte,) = vault.read(1)
        vault.seek(-1, 1)
        vault.write(bytes((byte ^ 4,)))
    written.start()
    memories = written.call("list", full=True)["memories"]
    damaged = [memory for memory in memories if memory.get("damaged")]
    assert len(memories) == 3 and len(damaged) == 1
    assert damaged[0]["address"]["seq"] > 0
    (finding,) = written.call("audit")["findings"]
    assert finding["code"] == "key_damaged" and finding["seq"] == damaged[0]["address"]["seq"]
    assert written.stop() == 0
    offline = written.command("audit", "--state", str(written.state))
    assert offline.returncode == 65 and "key_damaged" in offline.stdout
