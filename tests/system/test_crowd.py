"""A crowd of subscribers that read nothing and leave: what they made the daemon hold goes back to the system."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.process import DaemonProcess
from tests.system.raw_client import RawClient, anonymous_bytes, eventually, request

CROWD = 300
MIB = 1 << 20


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_what_a_crowd_held_goes_back_to_the_system(daemon: DaemonProcess) -> None:
    for number in range(5):
        items = [{"kind": "raw", "text": f"{number}-{each} " + "x" * 2000, "role": "user"} for each in range(200)]
        daemon.call("remember_many", items=items)
    beginning = {"epoch": 1, "seq": 0, "chain": daemon.call("head")["store"]}

    def held() -> int:
        return anonymous_bytes(daemon.pid)

    before = held()
    for _ in range(2):  # the second crowd doesn't find what the first one left
        crowd = [RawClient(daemon.socket) for _ in range(CROWD)]
        for client in crowd:
            client.send(request("subscribe", 1, after=beginning, level="content"))
        assert eventually(lambda: held() > before + 60 * MIB)
        for client in crowd:
            client.close()
        assert eventually(lambda: held() < before + 20 * MIB, 15.0)
