"""An audit of a daemon that is written to finds nothing; an opening that walks can be ended."""

from __future__ import annotations

from functools import partial

from tests.system.process import DaemonProcess
from tests.system.raw_client import RAW, Witness, eventually, unharmed

AUDITS = 12


def test_audits_while_a_client_writes_find_nothing(daemon: DaemonProcess) -> None:
    """Each walk, and each fold beside the live one, has the journal growing under it."""
    with unharmed(daemon) as witness:
        for number in range(AUDITS):
            before = len(witness.acked)
            found = daemon.call("audit", rebuild=number % 2 == 0)
            assert found["findings"] == []
            assert found["digests"]
            eventually(partial(grown, witness, before))


def grown(witness: Witness, before: int) -> bool:
    """Whether something more was answered, or nothing will be."""
    return len(witness.acked) > before or witness.failure is not None


def test_audits_while_batches_come_find_nothing(daemon: DaemonProcess) -> None:
    """The journal grows by many records at a time: a head that is taken twice is two different ones."""
    items = [{**RAW, "text": f"item {number}"} for number in range(40)]
    with unharmed(daemon):
        for number in range(AUDITS):
            with daemon.client() as client:
                client.call("remember_many", {"items": items}, dict)
            assert daemon.call("audit", rebuild=number % 3 == 0)["findings"] == []


def test_nothing_of_an_audit_is_left(daemon: DaemonProcess) -> None:
    daemon.audit()
    assert [path.name for path in daemon.state.iterdir() if "audit" in path.name] == []
