"""kill -9 while a vacuum goes on: every memory answers as before, and the next vacuum ends what was begun."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import noctuary
from tests.system.process import DaemonProcess, everything

NOTES = 4000


def filled(daemon: DaemonProcess) -> list[str]:
    """The ids of notes, of which every fifth is forgotten."""
    with daemon.client() as client:
        client.call("lifecycle", {"enforce": False}, dict)
        made: list[str] = []
        for first in range(0, NOTES, 1000):
            items = [{"kind": "note", "origin": "seeded", "text": f"note {first + n}"} for n in range(1000)]
            made += [each["id"] for each in client.call("remember_many", {"items": items}, dict)["results"]]
        for ref in made[::5]:
            client.call("forget", {"id": ref}, dict)
    return made


def state_of(daemon: DaemonProcess, notes: list[str]) -> tuple[Any, ...]:
    """What it answers about all that lives, some of what died, and how many there are of each."""
    dead = daemon.call("get", ids=notes[::1000])["memories"]
    return everything(daemon), [(each["id"], each["status"], each["text"]) for each in dead]


@pytest.mark.parametrize("slices", [1, 3])
def test_killed_between_slices_nothing_is_lost_and_it_goes_on(tmp_path: Path, slices: int) -> None:
    daemon = DaemonProcess(tmp_path)
    daemon.start()
    try:
        notes = filled(daemon)
        before = state_of(daemon, notes)
        head = daemon.call("head")["seq"]
        vacuum = threading.Thread(target=_until_killed, args=(daemon,))
        vacuum.start()
        while daemon.call("head")["seq"] < head + slices and vacuum.is_alive():
            pass
        daemon.kill()
        vacuum.join()
        daemon.start()
        assert state_of(daemon, notes) == before
        assert daemon.audit()["findings"] == []
        (result,) = daemon.call("vacuum", partition="semantic", force=True)["results"]
        (row,) = daemon.call("partitions", tier="semantic")["results"]
        assert (row["rows"], row["dead"]) == (NOTES * 4 // 5, 0), result
        assert state_of(daemon, notes) == before
        assert daemon.audit()["findings"] == []
        daemon.restart()
        assert state_of(daemon, notes) == before
    finally:
        daemon.close()


def _until_killed(daemon: DaemonProcess) -> None:
    try:
        daemon.call("vacuum", partition="semantic")
    except noctuary.NoctuaryError:
        return
