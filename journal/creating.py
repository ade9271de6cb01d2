"""Making a store, so that a crash at any moment leaves either none or one that can be finished.

Everything stands complete under its `.new` name, FORMAT last; then the names are taken in the order vault, journal,
FORMAT. `FORMAT.new` therefore means that the rest is complete, and a making that was interrupted is finished, not
begun anew. What restores or imports fills a store in the same way. While it does, the file `unfinished` lies there:
a daemon that is started meanwhile, or after it was interrupted, refuses instead of making an empty store.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from journal.copying import wipe
from journal.environment import Environment
from journal.errors import CannotCreate, DamagedStore, NoctuaryFault
from journal.layout import (
    OLD_VAULT,
    STORE_ID_BYTES,
    StateDir,
    StoreLock,
    format_line,
    make_root,
    new_path,
    read_format,
    sync_directory,
    take_name,
    write_synced,
)
from journal.log import DATABASES, Log
from journal.masterkey import MasterKey
from journal.space import require_room
from journal.vault import Vault

Fill = Callable[[StateDir], bytes]
Finish = Callable[[StateDir], None]
VAULT_LEFTOVERS = ("vault.new", "vault", OLD_VAULT)
"""Their keys may be those of a store: they are overwritten before they go. What was interrupted between two names has
the second; the third is of a change of the master key.
"""
_REMAINS = "Put it back from your copy of the state directory, or restore a backup elsewhere."


def create_store(root: Path, master: MasterKey | None = None) -> bytes:
    """Make a store in `root` (absent, or without one), its keys wrapped with `master` if there is one; its id.

    Raises CannotCreate, StoreLocked, StoreIO.
    """
    require_room(root)
    make_root(root)
    state_dir = StateDir(root)
    lock = lock_checked(state_dir, existing=False)
    try:
        if state_dir.format_file.exists():
            raise CannotCreate(f"{root} has a store")
        if not new_path(state_dir.format_file).exists():
            refuse_remains(state_dir)
            remove_leftovers(state_dir.leftovers())
            _write_format(state_dir, _make_empty(state_dir, master))
        return _take_names(state_dir)
    finally:
        lock.release()


def fill_store(root: Path, fill: Fill, kept: frozenset[str] = frozenset(), finish: Finish | None = None) -> bytes:
    """Make a store with content in `root`: absent, empty, or holding only the lock, names of `kept`, and what an
    interrupted filling left. Its id.

    `fill` leaves journal and vault complete under their `.new` names and gives the store's id. What it raises ends
    the making; what it left is removed by the next try. `finish` is called once the store is there, still locked.
    Raises CannotCreate, StoreLocked, StoreIO.
    """
    require_room(root)
    make_root(root)
    state_dir = StateDir(root)
    lock = lock_checked(state_dir, existing=False)
    try:
        _refuse_others(state_dir, kept)
        write_synced(state_dir.unfinished_file, b"")
        sync_directory(state_dir.root)
        _remove_interrupted(state_dir)
        _write_format(state_dir, fill(state_dir))
        store_id = _take_names(state_dir)
        if finish is not None:
            finish(state_dir)
        return store_id
    finally:
        lock.release()


def _interrupted(state_dir: StateDir) -> list[Path]:
    """What a filling that ended early made, what holds keys first. While `unfinished` lies there and no FORMAT (which
    is never of these), even what has its last name is of that filling: nobody could open it.
    """
    if not os.path.lexists(state_dir.unfinished_file):
        return []
    named = (_half_format(state_dir), state_dir.journal_dir, state_dir.vault_file)
    new = [path for path in state_dir.leftovers() if path != state_dir.unfinished_file]
    found = [*new, *(path for path in named if os.path.lexists(path))]
    return sorted(found, key=lambda path: path.name not in VAULT_LEFTOVERS)


def _remove_interrupted(state_dir: StateDir) -> None:
    """The marker stays. `FORMAT.new` goes first, on the disk too: what lacks a part must not pass for complete."""
    interrupted = _interrupted(state_dir)
    format_file = new_path(state_dir.format_file)
    if format_file in interrupted:
        interrupted.remove(format_file)
        remove_leftovers([format_file])
        sync_directory(state_dir.root)
    remove_leftovers(interrupted)
    sync_directory(state_dir.root)


def _refuse_others(state_dir: StateDir, kept: frozenset[str]) -> None:
    """Raises CannotCreate when something lies there that is not ours to replace."""
    ours = {state_dir.lock_file.name, state_dir.unfinished_file.name, *kept}
    ours |= {path.name for path in (*state_dir.leftovers(), *_interrupted(state_dir))}
    others = sorted(path.name for path in state_dir.root.iterdir() if path.name not in ours)
    if others:
        raise CannotCreate(f"{state_dir.root} is not empty: it holds {', '.join(others[:5])}; give an empty directory")


def _make_empty(state_dir: StateDir, master: MasterKey | None) -> bytes:
    """Vault and journal of a new store, under their `.new` names; its id."""
    store_id = os.urandom(STORE_ID_BYTES)
    Vault.create(new_path(state_dir.vault_file), store_id, master=master).close()
    env = Environment.open(new_path(state_dir.journal_dir), DATABASES, durable=True)
    try:
        Log.create(env, store_id)
        env.sync()
    finally:
        env.close()
    sync_directory(new_path(state_dir.journal_dir))
    return store_id


def _write_format(state_dir: StateDir, store_id: bytes) -> None:
    """From here on the making is finished by whoever comes next, not begun anew."""
    sync_directory(state_dir.root)
    half = _half_format(state_dir)
    write_synced(half, format_line(store_id))
    half.rename(new_path(state_dir.format_file))
    sync_directory(state_dir.root)


def _half_format(state_dir: StateDir) -> Path:
    """What `FORMAT.new` is called until it is complete."""
    return new_path(new_path(state_dir.format_file))


def _take_names(state_dir: StateDir) -> bytes:
    store_id = read_format(new_path(state_dir.format_file))
    for path in (state_dir.vault_file, state_dir.journal_dir, state_dir.format_file):
        if os.path.lexists(new_path(path)):
            take_name(path)
    if os.path.lexists(state_dir.unfinished_file):
        state_dir.unfinished_file.unlink()
        sync_directory(state_dir.root)
    return store_id


def is_empty(root: Path) -> bool:
    """Whether `root` is a directory of ours with nothing in it."""
    try:
        return root.is_dir() and root.stat().st_uid == os.geteuid() and not any(root.iterdir())
    except OSError:
        return False


def refuse_remains(state_dir: StateDir) -> None:
    """A store whose FORMAT is gone is damage, never an empty directory. Raises DamagedStore, CannotCreate."""
    if state_dir.unfinished_file.exists():
        raise CannotCreate(
            f"{state_dir.root}: a restore or an import was interrupted there; run it again, or remove it"
        )
    remains = (state_dir.journal_dir, state_dir.vault_file, state_dir.head_file, state_dir.projections_dir)
    there = [path.name for path in remains if os.path.lexists(path)]
    if there:
        raise DamagedStore("FORMAT", f"it is missing, but {', '.join(there)} exists", _REMAINS)


def lock_checked(state_dir: StateDir, existing: bool) -> StoreLock:
    """The lock, taken on a directory whose names are safe."""
    if not existing or state_dir.root.exists():
        state_dir.check_safe()
    lock = StoreLock.take(state_dir.lock_file)
    try:
        state_dir.check_safe()
    except NoctuaryFault:
        lock.release()
        raise
    return lock


def remove_leftovers(leftovers: Iterable[Path]) -> None:
    for path in leftovers:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name in VAULT_LEFTOVERS and not _is_the_vault(path):
            if path.name == OLD_VAULT:  # the other name of a vault must be on the disk before this one is nothing
                sync_directory(path.parent)
            wipe(path)
        else:
            path.unlink()


def _is_the_vault(path: Path) -> bool:
    """Whether a leftover is but a second name of the vault that counts: a change of the master key ended so early."""
    vault = path.with_name("vault")
    return path.name == OLD_VAULT and os.path.lexists(vault) and os.path.samestat(os.lstat(path), os.lstat(vault))
