"""The master key: it wraps the keys of a vault, so that the vault's file alone opens nothing.

Wrapped are each slot's key and the key for keyed hashes: AES-KW (RFC 3394) under the 256-bit master key, 32 bytes to
40. Method for many at once: the 24 rounds of RFC 3394 §2.2.1 run over a column of blocks, each round one call of AES
in ECB mode; for one key `cryptography` does it by itself, and a test holds the two against each other.

| key check in the vault's header | size | |
|---|---|---|
| BLAKE2b-128 | 16 | under the master key, personal `noctuary master`, over the store id |

So a wrong key is told from damage: the check says whether a key is the right one, AES-KW whether a slot is whole.

Invariants: a master key is never written, logged or shown; what the file of one said is in no message. It is held in
one buffer that `wipe` zeroes. What AES libraries hold meanwhile, and plain keys that Python has copied, can't be.
"""

from __future__ import annotations

import os
import stat
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, Self

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

from journal.errors import BadConfiguration

MASTER_BYTES = 32
KEY_BYTES = 32
WRAPPED_BYTES = 40
CHECK_BYTES = 16
NO_CHECK: Final = bytes(CHECK_BYTES)

NEEDED: Final = (
    "the keys of this store are wrapped with a master key, and none was given. Give its file: --master-key FILE, "
    "`master_key` in the daemon's configuration, $NOCTUARY_MASTER_KEY, or the credential noctuary-master-key"
)
WRONG: Final = (
    "the master key that was given is not the one that wraps the keys of this vault. Nothing was found damaged: give "
    "the right one. A backup takes the master key of the time when its vault part was made"
)
NOT_WRAPPED: Final = (
    "a master key was given, but the keys of this store are not wrapped with one. Leave it out, or wrap them: "
    "noctuary rekey --state DIR --new-master-key FILE"
)

_PERSON = b"noctuary master"
_ICV = 0xA6A6A6A6A6A6A6A6
_ROUNDS, _KEY_WORDS, _BLOCK_BYTES = 24, 4, 16
_FEW = 48
"""Up to so many keys one by one are less work than all at once."""
_HEX_DIGITS = 2 * MASTER_BYTES
_READ_BYTES = 1 << 10
_NIBBLE: Final = {digit: value for value, pair in enumerate(zip(b"0123456789abcdef", b"0123456789ABCDEF", strict=True))
                  for digit in pair}  # fmt: skip

Rows = npt.NDArray[np.uint8]


class MasterKeyFault(BadConfiguration):
    """A master key that is needed, wrong, not wanted, or whose file can't be used."""


class MasterKey:
    """A key that wraps keys; a context that wipes it at its end. It takes `key` over: its buffer is the one wiped."""

    __slots__ = ("_key",)

    def __init__(self, key: bytearray) -> None:
        if len(key) != MASTER_BYTES:
            raise ValueError(f"a master key has {MASTER_BYTES} bytes")
        self._key = key

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.wipe()

    def __repr__(self) -> str:
        return "MasterKey()"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a master key is not copied")

    def wipe(self) -> None:
        """Overwrite it; it wraps nothing any more."""
        self._key[:] = bytes(len(self._key))
        self._key.clear()

    def check(self, store_id: bytes) -> bytes:
        """What the header of a vault says of its master key."""
        return blake2b(store_id, key=self._key, person=_PERSON, digest_size=CHECK_BYTES).digest()

    def fits(self, store_id: bytes, check: bytes) -> bool:
        """Whether a vault with this key check is wrapped with this key."""
        return compare_digest(self.check(store_id), check)

    # --- one key -----------------------------------------------------------------------------------

    def wrap(self, key: bytes) -> bytes:
        """The 40 bytes of a wrapped key."""
        return aes_key_wrap(self._key, key)

    def unwrap(self, wrapped: bytes) -> bytes | None:
        """The key in 40 bytes; None when they were changed, or wrapped with another key."""
        try:
            return aes_key_unwrap(self._key, wrapped)
        except InvalidUnwrap:
            return None

    # --- many --------------------------------------------------------------------------------------

    def wrap_all(self, keys: bytes) -> Rows:
        """Keys, one after another, each wrapped: 40 bytes a row."""
        count = len(keys) // KEY_BYTES
        encrypt = Cipher(AES(self._key), ECB()).encryptor().update_into
        block, source, target, view = _blocks(count)
        words = [column.copy() for column in np.frombuffer(keys, "<u8").reshape(count, _KEY_WORDS).T]
        block[:, 0] = _ICV
        for step in range(_ROUNDS):
            at = step % _KEY_WORDS
            block[:, 1] = words[at]
            encrypt(source, target)
            np.bitwise_xor(view[:, 0], _round(step), out=block[:, 0])
            words[at][:] = view[:, 1]
        return np.column_stack([block[:, 0], *words]).view(np.uint8)

    def unwrap_all(self, wrapped: Rows) -> tuple[npt.NDArray[np.bool_], Rows]:
        """`(which rows of 40 bytes hold, the keys of all)`. The key of a row that does not hold is nothing."""
        count = len(wrapped)
        decrypt = Cipher(AES(self._key), ECB()).decryptor().update_into
        block, source, target, view = _blocks(count)
        columns = np.ascontiguousarray(wrapped).view("<u8").T
        check, *words = [column.copy() for column in columns]
        for step in reversed(range(_ROUNDS)):
            at = step % _KEY_WORDS
            np.bitwise_xor(check, _round(step), out=block[:, 0])
            block[:, 1] = words[at]
            decrypt(source, target)
            check[:] = view[:, 0]
            words[at][:] = view[:, 1]
        return check == np.uint64(_ICV), np.column_stack(words).view(np.uint8)

    def unwrap_each(self, wrapped: list[bytes]) -> list[bytes]:
        """The keys; empty where one does not hold, or was empty."""
        if len(wrapped) <= _FEW:
            return [self.unwrap(each) or b"" if each else b"" for each in wrapped]
        rows = np.frombuffer(b"".join(each or bytes(WRAPPED_BYTES) for each in wrapped), np.uint8)
        holds, keys = self.unwrap_all(rows.reshape(-1, WRAPPED_BYTES))
        data = keys.tobytes()
        return [
            data[at * KEY_BYTES : (at + 1) * KEY_BYTES] if whole else b"" for at, whole in enumerate(holds.tolist())
        ]


class Keys(NamedTuple):
    """How a vault is opened. `keyless`: what is asked of the store needs no key, and a wrapped vault may stay so."""

    master: MasterKey | None = None
    keyless: bool = False


PLAIN: Final = Keys()
"""Without a master key."""


def _blocks(count: int) -> tuple[Any, memoryview, memoryview, Any]:
    """`(what goes into AES as words, as bytes; what comes out as bytes, as words)`: 16 bytes a key."""
    size = count * _BLOCK_BYTES
    source = np.empty(size, np.uint8)
    target = np.empty(size + _BLOCK_BYTES - 1, np.uint8)  # `update_into` asks for room for a block more
    words = [each[:size].view("<u8").reshape(count, 2) for each in (source, target)]
    return words[0], source.data, target.data, words[1]


def _round(step: int) -> np.uint64:
    """The number of a round, as a big-endian word among little-endian ones."""
    return np.uint64((step + 1) << 56)


# --- the file --------------------------------------------------------------------------------------


def read_master_key(path: Path) -> MasterKey:
    """The master key in a file: 32 bytes, or 64 hex digits and perhaps a line end.

    The file must be regular (a link to one will do), of this user or of root, and closed to others: of this user's no
    group may read it, of root's one may, since credentials are handed over so. Raises MasterKeyFault.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise MasterKeyFault(f"master key file {path}: {error.strerror}") from error
    buffer = bytearray(_READ_BYTES)
    try:
        _check_file(path, os.fstat(descriptor))
        size = os.readv(descriptor, [buffer])
        key = _decode(path, memoryview(buffer)[:size])
    except OSError as error:
        raise MasterKeyFault(f"master key file {path}: {error.strerror}") from error
    finally:
        os.close(descriptor)
        buffer[:] = bytes(len(buffer))
    return MasterKey(key)


def _check_file(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise MasterKeyFault(f"master key file {path}: it is no regular file")
    if status.st_uid not in (os.geteuid(), 0):
        raise MasterKeyFault(
            f"master key file {path}: it belongs to uid {status.st_uid}, this process is uid {os.geteuid()}"
        )
    closed = 0o077 if status.st_uid == os.geteuid() else 0o027
    if status.st_mode & closed:
        mode = stat.S_IMODE(status.st_mode)
        raise MasterKeyFault(f"master key file {path}: its mode {mode:04o} is too open; make it 0600, or 0400")


def _decode(path: Path, data: memoryview) -> bytearray:
    """The key in what was read. Only numbers are made of it on the way, no copy stays. Raises MasterKeyFault."""
    size = len(data)
    if size == MASTER_BYTES:
        key = bytearray(data)
    else:
        while size > _HEX_DIGITS and data[size - 1] in b"\r\n":
            size -= 1
        digits = [_NIBBLE.get(digit, -1) for digit in data[:size]]
        if size != _HEX_DIGITS or -1 in digits:
            raise MasterKeyFault(
                f"master key file {path}: it has {len(data)} bytes; it must hold {MASTER_BYTES} bytes, or "
                f"{_HEX_DIGITS} hex digits and no more than a line end behind them"
            )
        key = bytearray(high << 4 | low for high, low in zip(digits[::2], digits[1::2], strict=True))
    if not any(key):
        raise MasterKeyFault(f"master key file {path}: its bytes are all zero, which is no key")
    return key
