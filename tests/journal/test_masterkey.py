"""AES-KW as RFC 3394 has it, one and many; and the file that a master key is read from."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.masterkey import KEY_BYTES, WRAPPED_BYTES, MasterKey, MasterKeyFault, read_master_key
from tests.journal.mastered import KEYS, key, key_file

KEK = "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F"
DATA = "00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F"
WRAPPED = "28C9F404C4B810F4CBCCB35CFB87F8263F5786E2D80ED326CBC7F0E71A99F43BFB988B9B7A02DD21"
"""RFC 3394, 4.6: 256 bits of key data with a 256-bit KEK."""
KEY = st.binary(min_size=32, max_size=32)


def test_the_vector_of_the_rfc() -> None:
    master = MasterKey(bytearray.fromhex(KEK))
    assert master.wrap(bytes.fromhex(DATA)).hex().upper() == WRAPPED
    assert master.wrap_all(bytes.fromhex(DATA)).tobytes().hex().upper() == WRAPPED
    assert master.unwrap(bytes.fromhex(WRAPPED)) == bytes.fromhex(DATA)
    holds, keys = master.unwrap_all(np.frombuffer(bytes.fromhex(WRAPPED), np.uint8).reshape(1, WRAPPED_BYTES))
    assert holds.tolist() == [True] and keys.tobytes() == bytes.fromhex(DATA)


@given(KEY, st.lists(KEY, max_size=120))
def test_many_at_once_are_what_each_is(master_bytes: bytes, keys: list[bytes]) -> None:
    master = MasterKey(bytearray(master_bytes))
    wrapped = master.wrap_all(b"".join(keys))
    each = [master.wrap(one) for one in keys]
    assert [row.tobytes() for row in wrapped] == each
    holds, back = master.unwrap_all(wrapped)
    assert holds.all() and back.tobytes() == b"".join(keys)
    assert master.unwrap_each(each) == keys


@given(KEY, st.lists(KEY, min_size=1, max_size=80), st.data())
def test_a_changed_one_opens_nothing_and_hurts_no_other(
    master_bytes: bytes, keys: list[bytes], data: st.DataObject
) -> None:
    master = MasterKey(bytearray(master_bytes))
    which = data.draw(st.integers(0, len(keys) - 1))
    bit = data.draw(st.integers(0, WRAPPED_BYTES * 8 - 1))
    rows = master.wrap_all(b"".join(keys))
    rows[which, bit // 8] ^= 1 << bit % 8
    expected = [b"" if at == which else one for at, one in enumerate(keys)]
    assert master.unwrap(rows[which].tobytes()) is None
    holds, back = master.unwrap_all(rows)
    assert [one.tobytes() if whole else b"" for one, whole in zip(back, holds, strict=True)] == expected
    assert master.unwrap_each([row.tobytes() for row in rows]) == expected


def test_an_empty_field_stays_empty_among_many() -> None:
    master, keys = key("old"), [os.urandom(KEY_BYTES) for _ in range(60)]
    fields = [master.wrap(each) for each in keys]
    assert master.unwrap_each([*fields, b""]) == [*keys, b""]
    assert master.unwrap_each([b"", fields[0]]) == [b"", keys[0]]


def test_the_check_says_which_key_and_which_store() -> None:
    check = key("old").check(bytes(16))
    assert key("old").fits(bytes(16), check)
    assert not key("new").fits(bytes(16), check)
    assert not key("old").fits(bytes(15) + b"1", check)
    assert KEYS["old"] not in check and any(check)


def test_what_is_wiped_is_gone_and_wraps_nothing() -> None:
    buffer = bytearray(KEYS["old"])
    with MasterKey(buffer) as master:
        assert master.wrap(bytes(32))
    assert not any(buffer)
    with pytest.raises(ValueError):
        master.wrap(bytes(32))


def test_it_shows_and_gives_nothing_of_itself() -> None:
    master = key("old")
    assert repr(master) == str(master) == "MasterKey()"
    with pytest.raises(TypeError):
        pickle.dumps(master)


# --- the file --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        KEYS["old"],
        *(KEYS["old"].hex().encode() + end for end in (b"", b"\n", b"\r\n")),
        KEYS["old"].hex().upper().encode(),
    ],
)
def test_32_bytes_or_64_digits(tmp_path: Path, data: bytes) -> None:
    read = read_master_key(key_file(tmp_path, "old", data))
    assert read.wrap(bytes(32)) == key("old").wrap(bytes(32))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        KEYS["old"][:31],
        KEYS["old"] + b"\n",
        KEYS["old"].hex().encode()[:-1],
        KEYS["old"].hex().encode()[:-1] + b"g",
        KEYS["old"].hex().encode() + b"00",
        b" " + KEYS["old"].hex().encode(),
        KEYS["old"].hex().encode() * 40,
        bytes(32),
        b"0" * 64,
    ],
)
def test_a_file_that_is_no_key_is_refused_and_not_quoted(tmp_path: Path, data: bytes) -> None:
    path = key_file(tmp_path, "old", data)
    with pytest.raises(MasterKeyFault) as caught:
        read_master_key(path)
    assert caught.value.exit_code == 78
    told = str(caught.value)
    assert str(path) in told
    assert KEYS["old"].hex()[:8] not in told and repr(KEYS["old"][:8])[2:-1] not in told


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o602, 0o610, 0o644, 0o444])
def test_a_file_that_others_may_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = key_file(tmp_path, "old")
    path.chmod(mode)
    with pytest.raises(MasterKeyFault, match=f"{mode:04o}"):
        read_master_key(path)
    path.chmod(0o400)
    read_master_key(path)


def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a file away")
    path = key_file(tmp_path, "old")
    os.chown(path, 1234, -1)
    with pytest.raises(MasterKeyFault, match="uid 1234"):
        read_master_key(path)


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "absent"):
        with pytest.raises(MasterKeyFault):
            read_master_key(path)
    link = tmp_path / "link"
    link.symlink_to(key_file(tmp_path, "old"))
    assert read_master_key(link).wrap(bytes(32)) == key("old").wrap(bytes(32))
