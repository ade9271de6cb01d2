"""Subscriptions beside a daemon that is killed, restarted, reloaded and loaded; and the command that prints them."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

import noctuary
from tests.system.process import ENTRY, ROOT, DaemonProcess
from tests.system.raw_client import RawClient, eventually, request, unharmed
from tests.system.test_slow_clients import ImpatientDaemon

MEMORY = ["memory_created"]
STOP_WITHIN_S = 3.0


class Follower(threading.Thread):
    """Keeps what a subscription gives, until it is told to stop."""

    def __init__(self, subscription: noctuary.Subscription) -> None:
        super().__init__(daemon=True)
        self.subscription = subscription
        self.frames: list[noctuary.Frame] = []
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            for item in self.subscription:
                if isinstance(item, noctuary.Frame):
                    self.frames.append(item)
        except noctuary.NoctuaryError as error:
            self.failure = error

    def seqs(self) -> list[int]:
        return [frame.seq for frame in self.frames]

    def has(self, seq: int) -> Callable[[], bool]:
        return lambda: bool(self.failure or (self.frames and self.frames[-1].seq >= seq))

    def stop(self) -> None:
        self.subscription.close()
        self.join(10)
        assert not self.is_alive() and self.failure is None, self.failure


def beginning(daemon: DaemonProcess) -> dict[str, Any]:
    return {"epoch": 1, "seq": 0, "chain": daemon.call("head")["store"]}


def write_some(daemon: DaemonProcess, count: int, prefix: str = "") -> int:
    """The number of the newest record behind them."""
    items = [{"kind": "raw", "role": "user", "text": f"{prefix}{number}"} for number in range(count)]
    daemon.call("remember_many", items=items)
    seq: int = daemon.call("head")["seq"]
    return seq


def test_over_kills_and_restarts_nothing_is_lost_or_doubled(daemon: DaemonProcess) -> None:
    follower = Follower(daemon.client().subscription(beginning(daemon), store_wide=True))
    follower.start()
    for turn in range(4):
        seq = write_some(daemon, 50, f"{turn} ")
        if turn % 2:
            assert eventually(follower.has(seq))  # else it is killed or stopped while there is more to come
        if turn < 2:
            daemon.kill()
            daemon.start()
        else:
            daemon.restart()
    last = write_some(daemon, 1)
    assert eventually(follower.has(last))
    follower.stop()
    assert follower.seqs() == list(range(1, last + 1))
    assert [frame.prev for frame in follower.frames[1:]] == [frame.chain for frame in follower.frames[:-1]]
    assert sum(frame.type == "opened" for frame in follower.frames) == 5


def test_a_kept_place_is_gone_on_from_by_another_process(daemon: DaemonProcess) -> None:
    with daemon.client().subscription(beginning(daemon), types=MEMORY) as first:
        write_some(daemon, 3)
        seqs = [next(first).seq for _ in range(2)]
        kept = json.loads(json.dumps(first.place))
    daemon.restart()
    last = write_some(daemon, 1)
    with daemon.client().subscription(kept, types=MEMORY) as second:
        seqs += [next(second).seq for _ in range(2)]
    assert seqs == sorted(set(seqs)) and seqs[-1] <= last


def test_under_load_each_of_several_gets_every_record_in_order(daemon: DaemonProcess) -> None:
    followers = [Follower(daemon.client().subscription(beginning(daemon), store_wide=True)) for _ in range(4)]
    for follower in followers:
        follower.start()
    with unharmed(daemon):
        writers = [threading.Thread(target=write_some, args=(daemon, 200, f"{each} ")) for each in range(4)]
        for writer in writers:
            writer.start()
        for follower in followers[:2]:  # its connection breaks in the midst of it
            eventually(follower.has(50))
            stream = follower.subscription._stream
            if stream is not None:
                stream.shutdown(2)
        for writer in writers:
            writer.join()
    last = write_some(daemon, 1)
    for follower in followers:
        assert eventually(follower.has(last))
        follower.stop()
        assert follower.seqs() == list(range(1, last + 1))


def test_nobody_waits_for_one_that_takes_nothing(daemon: DaemonProcess) -> None:
    with RawClient(daemon.socket) as stuck, unharmed(daemon):
        stuck.send(request("subscribe", 1, after=beginning(daemon), level="content"))
        for number in range(20):
            write_some(daemon, 20, f"{number} " + "x" * 20_000)


def test_one_that_is_dropped_for_taking_too_long_goes_on_without_a_gap(stopped: DaemonProcess) -> None:
    """Its socket and the daemon's buffer are full, and it works on what it has for longer than is suffered."""
    daemon = ImpatientDaemon(stopped.socket.parent)
    daemon.start()
    try:
        with daemon.client().subscription(beginning(daemon), level="content", types=MEMORY) as subscription:
            for number in range(20):
                write_some(daemon, 20, f"{number} " + "x" * 20_000)
            seqs = [next(subscription).seq]
            eventually(lambda: "not_reading" in daemon.logged())
            seqs += [next(subscription).seq for _ in range(399)]
        frames = daemon.call("records", types=MEMORY, limit=1000)["frames"]
        assert seqs == [frame["seq"] for frame in frames]
    finally:
        daemon.close()


def test_a_subscriber_that_takes_nothing_does_not_hold_up_the_end(daemon: DaemonProcess) -> None:
    with RawClient(daemon.socket) as stuck, RawClient(daemon.socket) as idle:
        stuck.send(request("subscribe", 1, after=beginning(daemon), level="content"))
        idle.send(request("subscribe", 1, types=["session_opened"]))
        for number in range(20):
            write_some(daemon, 20, f"{number} " + "x" * 20_000)
        started = time.monotonic()
        assert daemon.stop() == 0, daemon.logged()[-2000:]
        assert time.monotonic() - started < STOP_WITHIN_S
        assert idle.rest()[-1]["params"]["error"]["data"]["reason"] == "unavailable"


def test_a_place_that_is_gone_is_a_conflict_and_not_waited_out(daemon: DaemonProcess) -> None:
    place = {**beginning(daemon), "epoch": 7}
    with pytest.raises(noctuary.Conflict) as caught, daemon.client().subscription(place) as subscription:
        next(subscription)
    assert caught.value.data["current"]["store"] == place["chain"]


def test_a_rolled_back_journal_is_noticed_on_the_way(daemon: DaemonProcess, tmp_path: Path) -> None:
    """The daemon comes up again over an older copy of its state: the subscriber isn't given another history."""
    write_some(daemon, 5)
    assert daemon.stop() == 0
    subprocess.run(["cp", "-a", str(daemon.state), str(tmp_path / "older")], check=True)
    daemon.start()
    follower = Follower(daemon.client().subscription(beginning(daemon), store_wide=True))
    follower.start()
    assert eventually(follower.has(write_some(daemon, 5)))
    assert daemon.stop() == 0
    subprocess.run(["rm", "-r", str(daemon.state)], check=True)
    subprocess.run(["cp", "-a", str(tmp_path / "older"), str(daemon.state)], check=True)
    daemon.start()
    follower.join(20)
    assert isinstance(follower.failure, noctuary.Conflict)
    assert follower.failure.data["current"]["seq"] < follower.frames[-1].seq


def test_a_restored_store_names_both_histories_to_who_followed_the_lost_one(
    daemon: DaemonProcess, short_dir: Path
) -> None:
    """Up to the backup the place holds under the new epoch; what came behind it is a conflict, and says from where."""
    write_some(daemon, 3)
    shared = daemon.call("head")
    daemon.call("backup", dir=str(short_dir / "backup"))
    write_some(daemon, 3)
    lost = noctuary.place_of(daemon.call("head"))
    assert daemon.stop() == 0
    restored = DaemonProcess(short_dir, "restored")
    restored.state = short_dir / "restored"
    words = ["restore", str(short_dir / "backup"), "--state", str(restored.state), "--without-purges"]
    subprocess.run([*ENTRY, *words], cwd=ROOT, env=daemon.environment, capture_output=True, check=True)
    try:
        restored.start()
        with pytest.raises(noctuary.Conflict) as caught, restored.client().subscription(lost) as subscription:
            next(subscription)
        data = caught.value.data
        assert data["asked"] == lost and data["current"] == noctuary.place_of(restored.call("head"))
        assert data["forked_from"] == noctuary.place_of(shared)
        place = {**data["forked_from"], "epoch": data["current"]["epoch"]}
        with restored.client().subscription(place, store_wide=True) as subscription:
            assert isinstance(frame := next(subscription), noctuary.Frame)
            assert (frame.type, frame.prev, frame.epoch) == ("restored", shared["chain"], 2)
    finally:
        restored.close()


def test_the_asynchronous_one_goes_on_over_a_restart_too(daemon: DaemonProcess) -> None:
    async def next_five(subscription: noctuary.AsyncSubscription) -> list[int]:
        seqs: list[int] = []
        async for item in subscription:
            seqs += [item.seq] if isinstance(item, noctuary.Frame) else []
            if len(seqs) == 5:
                break
        return seqs

    async def follow() -> list[int]:
        client = noctuary.AsyncClient(str(daemon.socket))
        async with client.subscription(beginning(daemon), types=MEMORY) as subscription:
            await asyncio.to_thread(write_some, daemon, 5)
            seqs = await next_five(subscription)
            await asyncio.to_thread(daemon.restart)
            await asyncio.to_thread(write_some, daemon, 5)
            return seqs + await next_five(subscription)

    seqs = asyncio.run(follow())
    assert len(seqs) == 10 and seqs == sorted(set(seqs))


def test_reloaded_peers_end_a_subscription(daemon: DaemonProcess, tmp_path: Path) -> None:
    config = tmp_path / "noctuary.toml"
    config.write_text("")
    assert daemon.stop() == 0
    daemon.start("--config", str(config))
    with RawClient(daemon.socket) as client:
        client.send(request("subscribe", 1, level="content"))
        assert "result" in client.answer()
        config.write_text(f'[[peer]]\nuid = {os.getuid()}\nrole = "auditor"\ntenant = "default"\n')
        os.kill(daemon.pid, signal.SIGHUP)
        end = client.answer()
    assert end["method"] == "end" and end["params"]["error"]["data"]["reason"] == "denied"


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def commands(daemon: DaemonProcess) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    begun: list[subprocess.Popen[bytes]] = []

    def begin(*words: str, **more: Any) -> subprocess.Popen[bytes]:
        command = [*ENTRY, "--socket", str(daemon.socket), "subscribe", *words]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **more}
        begun.append(subprocess.Popen(command, cwd=ROOT, env=daemon.environment, **streams))
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def after(daemon: DaemonProcess) -> str:
    return json.dumps(beginning(daemon))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_frames_until_a_signal(
    daemon: DaemonProcess, commands: Callable[..., subprocess.Popen[bytes]], number: signal.Signals
) -> None:
    write_some(daemon, 2)
    command = commands("--json", "--after", after(daemon), "--types", "memory_created", "--level", "content")
    assert command.stdout is not None and command.stderr is not None
    frames = [json.loads(command.stdout.readline()) for _ in range(2)]
    assert [frame["parts"][0]["content"] for frame in frames] == ["0", "1"]
    command.send_signal(number)
    assert command.wait(20) == 0 and command.stdout.read() == b"" and command.stderr.read() == b""


def test_a_printed_frame_is_a_place_to_go_on_from(
    daemon: DaemonProcess, commands: Callable[..., subprocess.Popen[bytes]]
) -> None:
    write_some(daemon, 3)
    command = commands("--json", "--after", after(daemon), "--types", "memory_created")
    assert command.stdout is not None
    printed = command.stdout.readline()
    later = commands("--json", "--after", "-", "--types", "memory_created", stdin=subprocess.PIPE)
    assert later.stdin is not None and later.stdout is not None
    later.stdin.write(printed)
    later.stdin.close()
    assert json.loads(later.stdout.readline()) == json.loads(command.stdout.readline())
    later.stdin = None  # for `communicate`, which would flush it


def test_nobody_reading_is_an_ordinary_end(
    daemon: DaemonProcess, commands: Callable[..., subprocess.Popen[bytes]]
) -> None:
    write_some(daemon, 1)
    command = commands("--after", after(daemon))
    assert command.stdout is not None and command.stderr is not None
    assert b"tenant_began" in command.stdout.readline()
    command.stdout.close()
    write_some(daemon, 1)
    assert command.wait(20) == 0 and command.stderr.read() == b""
    command.stdout = None


def test_the_command_ends_also_when_its_output_is_stuck(
    daemon: DaemonProcess, commands: Callable[..., subprocess.Popen[bytes]]
) -> None:
    for _ in range(4):
        write_some(daemon, 10, "x" * 20_000)
    command = commands("--json", "--after", after(daemon), "--level", "content")
    assert command.stdout is not None
    pipe = command.stdout
    assert pipe.readline()  # from here on nobody reads, and the pipe fills
    eventually(lambda: _is_full(pipe))
    command.terminate()
    assert command.wait(20) == 0


def _is_full(pipe: IO[bytes]) -> bool:
    """Whether next to nothing more goes in."""
    waiting = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]
    return bool(waiting > fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) - 8192)


def test_what_is_refused_has_its_exit_code(
    daemon: DaemonProcess, commands: Callable[..., subprocess.Popen[bytes]]
) -> None:
    command = commands("--after", json.dumps({**beginning(daemon), "epoch": 9}))
    assert command.wait(20) == 4 and command.stderr is not None
    assert b"conflict" in command.stderr.read()
    assert commands("--after", "7").wait(20) == 2
