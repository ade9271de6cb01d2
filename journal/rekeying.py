"""Another master key for a store, a first one, or none: its vault written anew, with the same keys wrapped otherwise.

Method. Under the store's lock `vault.new` is written, brought to the disk, read again and compared key by key. The old
vault gets a second name, `vault.old.new`; `vault.new` takes the name `vault`, and the directory is synced. Then the
old one is overwritten with zeros through its open descriptor, synced, and loses its name. Slots keep their numbers and
states, the header its nonces; its generation is one more. The journal is not looked at.

Invariants: at every moment `vault` is whole, under the old key or the new one. What a crash leaves under the other two
names is overwritten by the next opening, or the next change; a second name of the vault that counts is only removed.
A slot that is damaged could still betray its key under the new master key: it ends the work, or is given up by name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np

from journal.copying import CHUNK_BYTES, making, wipe
from journal.creating import VAULT_LEFTOVERS, lock_checked, remove_leftovers
from journal.errors import DamagedStore, StoreAbsent, StoreIO
from journal.layout import StateDir, new_path, read_format, sync_directory, take_name, write_all
from journal.masterkey import MasterKey, MasterKeyFault
from journal.slots import CRC_AT, DAMAGED, FIELD_BYTES, KEY_AT, KEY_BYTES, KEYED, Rows, keyed_rows, rows_of, states
from journal.space import MARGIN_BYTES, NoRoom, free_bytes
from journal.vault import BLOCK_SLOTS, SLOT_BYTES, SLOTS_OFFSET, Vault
from journal.vault_header import encode_header, header_of

TOLD_SLOTS = 10
_GIVE_UP = "Restore a backup elsewhere, or give these slots up: what they seal stays unreadable."


class Change(NamedTuple):
    """From which master key to which; None is none. `give_up_damaged`: a damaged slot loses what is left of its key."""

    old: MasterKey | None
    new: MasterKey | None
    give_up_damaged: bool = False


class Changed(NamedTuple):
    """What was done: `keys` were wrapped anew, `given_up` slots stay damaged without their bytes. `anew` is false when
    the store opened with the new key already: of an earlier change only its end was made up for.
    """

    store_id: bytes
    anew: bool
    keys: int
    given_up: tuple[int, ...]


def change_master_key(root: Path, change: Change) -> Changed:
    """Wrap the keys of the store in `root` with `change.new`. No process may have it open.

    Raises MasterKeyFault when `change.old` is not what opens it; StoreAbsent, StoreLocked, UnsafePath, NoRoom, StoreIO;
    DamagedStore for a vault that can't be read, or has damaged slots. Until `vault.new` takes its name all stays as it
    was.
    """
    state_dir = StateDir(root)
    if not os.path.lexists(state_dir.format_file) and not state_dir.is_used():
        raise StoreAbsent(f"{root} has no store")
    lock = lock_checked(state_dir, existing=True)
    try:
        store_id = read_format(state_dir.format_file)
        anew = not _opens(state_dir, store_id, change.new)
        if anew:
            _open(state_dir, store_id, change.old).close()
        _finish_earlier(state_dir)
        if not anew:
            return Changed(store_id, False, 0, ())
        return _change(state_dir, store_id, change)
    finally:
        lock.release()


def _open(state_dir: StateDir, store_id: bytes, master: MasterKey | None) -> Vault:
    return Vault.open(state_dir.vault_file, store_id, readonly=True, master=master)


def _opens(state_dir: StateDir, store_id: bytes, master: MasterKey | None) -> bool:
    """Whether the vault is wrapped with this key (None: not at all). Raises DamagedStore, StoreIO."""
    try:
        _open(state_dir, store_id, master).close()
    except MasterKeyFault:
        return False
    return True


def _finish_earlier(state_dir: StateDir) -> None:
    """Overwrite what an interrupted change left. Raises StoreIO."""
    left = [path for path in state_dir.leftovers() if path.name in VAULT_LEFTOVERS]
    try:
        remove_leftovers(left)
        if left:
            sync_directory(state_dir.root)
    except OSError as error:
        raise StoreIO(f"{error.filename or 'vault'}: {error.strerror}") from error


def _change(state_dir: StateDir, store_id: bytes, change: Change) -> Changed:
    try:
        descriptor = os.open(state_dir.vault_file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise StoreIO(f"vault: {error.strerror}") from error
    with ExitStack() as stack:
        stack.callback(os.close, descriptor)
        vault = stack.enter_context(closing(_open(state_dir, store_id, change.old)))
        given_up = _damaged(vault, change.old)
        if given_up and not change.give_up_damaged:
            raise _refused(given_up)
        _require_room(state_dir, vault)
        path = new_path(state_dir.vault_file)
        try:
            keys = _write_new(path, vault, change)
            _compare(path, vault, change)
            with suppress(OSError):  # a file system without links: then only a crash leaves it as it was
                os.link(state_dir.vault_file, state_dir.old_vault_file, follow_symlinks=False)
        except BaseException:
            with suppress(OSError):
                wipe(path)
            with suppress(OSError):
                state_dir.old_vault_file.unlink()
            raise
        take_name(state_dir.vault_file)
        _overwrite(state_dir, descriptor)
    return Changed(store_id, True, keys, tuple(given_up))


def _refused(slots: list[int]) -> DamagedStore:
    told = ", ".join(map(str, slots[:TOLD_SLOTS])) + (" …" if len(slots) > TOLD_SLOTS else "")
    return DamagedStore("vault", f"{len(slots)} slots hold no sound key: {told}", _GIVE_UP)


def _require_room(state_dir: StateDir, vault: Vault) -> None:
    needed = SLOTS_OFFSET + vault.slot_count() * SLOT_BYTES + MARGIN_BYTES
    free = free_bytes(state_dir.root)
    if free < needed:
        raise NoRoom(f"{state_dir.root}: {free} bytes are free, {needed} are needed beside the vault; make room there")


def _blocks(vault: Vault) -> Iterator[tuple[int, Rows]]:
    """The slots from 0 on, in blocks: `(number of the first, rows)`. Raises StoreIO."""
    count = vault.slot_count()
    for first in range(0, count, BLOCK_SLOTS):
        size = min(BLOCK_SLOTS, count - first) * SLOT_BYTES
        yield first, rows_of(vault.raw(SLOTS_OFFSET + first * SLOT_BYTES, size).ljust(size, b"\0"))


def _keys_of(first: int, rows: Rows, master: MasterKey | None) -> tuple[Rows, Rows]:
    """`(the state of each row, the plain keys of those that are keyed)`. A key that can't be unwrapped is damaged."""
    state = states(first, rows, int(master is not None)).astype(np.uint8)
    keyed = np.flatnonzero(state == KEYED)
    fields = np.ascontiguousarray(rows[keyed, KEY_AT : KEY_AT + FIELD_BYTES])
    if master is None:
        return state, fields[:, :KEY_BYTES]
    holds, keys = master.unwrap_all(fields)
    state[keyed[~holds]] = DAMAGED
    return state, keys[holds]


def _damaged(vault: Vault, master: MasterKey | None) -> list[int]:
    found: list[int] = []
    for first, rows in _blocks(vault):
        state, _ = _keys_of(first, rows, master)
        found += (np.flatnonzero(state == DAMAGED) + first).tolist()
    return found


# --- the new file ----------------------------------------------------------------------------------


def _write_new(path: Path, vault: Vault, change: Change) -> int:
    """The whole vault under its new key, on the disk; how many keys it has. Raises StoreIO."""
    old = vault.header
    header = encode_header(header_of(old.generation + 1, old.store_id, vault.hash_key, vault.nonces, change.new))
    count = 0
    try:
        with making(path) as descriptor:
            write_all(descriptor, (header + header).ljust(SLOTS_OFFSET, b"\0"))
            for first, rows in _blocks(vault):
                state, keys = _keys_of(first, rows, change.old)
                write_all(descriptor, _rewrapped(first, rows, state, keys, change.new).tobytes())
                count += len(keys)
    except OSError as error:
        raise StoreIO(f"{path.name}: {error.strerror}") from error
    return count


def _rewrapped(first: int, rows: Rows, state: Rows, keys: Rows, new: MasterKey | None) -> Rows:
    """The same slots under the new key. Of a damaged one nothing stays but that it is damaged."""
    made = rows.copy()
    made[state == DAMAGED] = 0
    made[state == DAMAGED, CRC_AT - 1] = 1  # no slot that was ever written has this byte
    keyed = np.flatnonzero(state == KEYED)
    if len(keyed):
        spread = np.zeros((len(rows), KEY_BYTES), np.uint8)
        spread[keyed] = keys
        fields = spread if new is None else new.wrap_all(spread.tobytes())
        made[keyed] = keyed_rows(first, fields, int(new is not None))[keyed]
    return made


def _compare(path: Path, vault: Vault, change: Change) -> None:
    """The old keys are about to be destroyed: the new file must have every one. Raises DamagedStore, StoreIO."""
    made = Vault.open(path, vault.header.store_id, readonly=True, master=change.new)
    try:
        same = (made.hash_key, made.nonces) == (vault.hash_key, vault.nonces)
        if not same or _digest(made, change.new) != _digest(vault, change.old):
            found = "it does not have the keys of the vault"
            raise DamagedStore(path.name, found, "The disk or the memory may be failing; nothing has changed.")
    finally:
        made.close()


def _digest(vault: Vault, master: MasterKey | None) -> bytes:
    """Of all states and keys."""
    digest = blake2b()
    for first, rows in _blocks(vault):
        state, keys = _keys_of(first, rows, master)
        digest.update(state.tobytes())
        digest.update(keys.tobytes())
    return digest.digest()


# --- the old file ----------------------------------------------------------------------------------


def _overwrite(state_dir: StateDir, descriptor: int) -> None:
    """Zeros in the place of the old vault's bytes, on the disk; then its second name goes. Raises StoreIO."""
    try:
        size = os.fstat(descriptor).st_size
        for at in range(0, size, CHUNK_BYTES):
            left = memoryview(bytes(min(CHUNK_BYTES, size - at)))
            while left:
                written = os.pwrite(descriptor, left, at)
                left, at = left[written:], at + written
        os.fsync(descriptor)
        with suppress(FileNotFoundError):
            state_dir.old_vault_file.unlink()
        sync_directory(state_dir.root)
    except OSError as error:
        what = "the store has its new master key, but the vault before may not be overwritten yet"
        raise StoreIO(f"{what}: {error.strerror}; run it again") from error
