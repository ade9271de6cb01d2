"""The environment: modes, gate, growth, readers, failures."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from journal.environment import Environment
from journal.errors import DamagedStore, StoreIO

SMALL_MAP = 1 << 20


@pytest.fixture
def env(tmp_path: Path) -> Iterator[Environment]:
    env = Environment.open(tmp_path / "env", ("rows",), durable=False, map_bytes=SMALL_MAP)
    yield env
    env.close()


def put(env: Environment, key: bytes, value: bytes) -> None:
    with env.write() as txn:
        txn.put(key, value, db=env.db("rows"))


def get(env: Environment, key: bytes) -> object:
    with env.read() as txn:
        return txn.get(key, db=env.db("rows"))


def test_files_are_for_the_owner_only(env: Environment) -> None:
    assert stat.S_IMODE(env.path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in env.path.iterdir()} == {0o600}


def test_a_block_that_raises_writes_nothing(env: Environment) -> None:
    with pytest.raises(ZeroDivisionError), env.write() as txn:
        txn.put(b"a", b"1", db=env.db("rows"))
        raise ZeroDivisionError
    assert get(env, b"a") is None
    put(env, b"a", b"2")
    assert get(env, b"a") == b"2"


def test_a_full_map_is_a_store_fault_and_not_the_end(env: Environment) -> None:
    with pytest.raises(StoreIO), env.write() as txn:
        for number in range(1000):
            txn.put(b"%d" % number, bytes(4000), db=env.db("rows"))
    assert not env.failed
    put(env, b"a", b"1")


def fill_beyond_the_mark(env: Environment) -> None:
    number = 0
    while env.used_bytes() < 0.85 * env.map_bytes:
        put(env, b"%d" % number, bytes(8000))
        number += 1


def test_growth_doubles_the_map_and_keeps_the_rows(env: Environment) -> None:
    put(env, b"a", b"1")
    assert env.grow_if_needed()
    assert env.map_bytes == SMALL_MAP
    fill_beyond_the_mark(env)
    assert env.grow_if_needed()
    assert env.map_bytes == 2 * SMALL_MAP
    assert get(env, b"a") == b"1"


def test_growth_gives_up_while_a_reader_stays(env: Environment) -> None:
    fill_beyond_the_mark(env)
    with env.read() as txn:
        assert not env.grow_if_needed(wait_s=0.01)
        assert txn.get(b"0", db=env.db("rows")) == bytes(8000)
    assert env.grow_if_needed(wait_s=0.01)


def test_readers_in_threads_survive_growth(env: Environment) -> None:
    put(env, b"a", b"1")
    fill_beyond_the_mark(env)
    stop = threading.Event()
    started = threading.Barrier(5)
    wrong: list[object] = []

    def read_on() -> None:
        started.wait()
        while not stop.is_set():
            try:
                if get(env, b"a") != b"1":
                    wrong.append("lost")
            except lmdb.Error as error:
                wrong.append(error)

    threads = [threading.Thread(target=read_on) for _ in range(4)]
    for thread in threads:
        thread.start()
    started.wait()
    for _ in range(4):
        assert env.grow_if_needed()
        fill_beyond_the_mark(env)
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert not env.readers


def test_the_oldest_reader_is_known(env: Environment) -> None:
    assert env.oldest_reader_ms() == 0
    with env.read():
        (reader,) = env.readers
        env.readers[reader] -= 5_000_000_000
        assert env.oldest_reader_ms() >= 5000
    assert env.oldest_reader_ms() == 0


def test_a_slot_of_a_killed_reader_is_freed(env: Environment) -> None:
    script = (
        "import os, sys, lmdb\n"
        "txn = lmdb.open(sys.argv[1], max_dbs=1, readonly=True).begin()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(env.path)], check=False)
    assert env.check_readers() == 1
    assert env.check_readers() == 0


def test_a_copy_has_the_rows_and_none_that_were_deleted(env: Environment, tmp_path: Path) -> None:
    put(env, b"secret", b"once-said" * 100)
    put(env, b"kept", b"yes")
    with env.write() as txn:
        txn.delete(b"secret", db=env.db("rows"))
    env.copy(tmp_path / "copy")
    data = tmp_path / "copy" / "data.mdb"
    assert b"once-said" not in data.read_bytes()
    assert stat.S_IMODE(data.stat().st_mode) == 0o600
    copy = Environment.open(tmp_path / "copy", ("rows",), durable=False, readonly=True)
    assert get(copy, b"kept") == b"yes"
    copy.close()


def test_a_database_that_is_missing_is_damage_for_a_reader(env: Environment, tmp_path: Path) -> None:
    path = env.path
    env.close()
    with pytest.raises(DamagedStore):
        Environment.open(path, ("rows", "more"), durable=True, readonly=True)


def test_garbage_is_damage_and_stays(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    data = tmp_path / "env" / "data.mdb"
    data.write_bytes(b"\xff" * 8192)
    with pytest.raises(DamagedStore):
        Environment.open(tmp_path / "env", ("rows",), durable=True)
    assert data.read_bytes() == b"\xff" * 8192


def test_a_small_address_space_gets_a_smaller_map(tmp_path: Path) -> None:
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from journal.environment import Environment\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "print(Environment.open(Path(sys.argv[1]), ('rows',), durable=True).map_bytes)\n"
    )
    root = Path(__file__).parents[2]
    child = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "env")], cwd=root, capture_output=True, check=True
    )
    assert 1 << 26 <= int(child.stdout) < 1 << 32


def test_after_a_failed_commit_nothing_is_written(tmp_path: Path) -> None:
    """The file size limit makes the write of the pages fail, as a full disk does."""
    script = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from journal.environment import Environment\n"
        "from journal.errors import StoreIO\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "env = Environment.open(Path(sys.argv[1]), ('rows',), durable=True)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))\n"
        "for size in (1 << 20, 1):\n"
        "    try:\n"
        "        with env.write() as txn:\n"
        "            txn.put(b'a', bytes(size), db=env.db('rows'))\n"
        "    except StoreIO as error:\n"
        "        print(env.failed)\n"
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", script, str(tmp_path / "env")]
    child = subprocess.run(command, cwd=root, capture_output=True, check=True, text=True)
    assert child.stdout.split() == ["True", "True"]
    env = Environment.open(tmp_path / "env", ("rows",), durable=True)
    assert get(env, b"a") is None
    env.close()
    assert os.path.getsize(tmp_path / "env" / "data.mdb") <= 1 << 16


def test_a_disk_that_takes_no_more_while_opening_is_no_damage(tmp_path: Path) -> None:
    """The file is there with its two first pages; the commit that makes the databases would add to it."""
    Environment.open(tmp_path / "full", (), durable=True).close()
    script = (
        "import resource, signal, sys; from pathlib import Path; from journal.environment import Environment\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))\n"
        "try: Environment.open(Path(sys.argv[1]), ('rows',), durable=True)\n"
        "except Exception as error: print(type(error).__name__)\n"
    )
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", script, str(tmp_path / "full")]
    child = subprocess.run(command, cwd=root, capture_output=True, check=True, text=True)
    assert child.stdout == "StoreIO\n"
