"""Stores under a master key, and the files that hold one."""

from __future__ import annotations

from pathlib import Path

from journal.creating import create_store
from journal.masterkey import Keys, MasterKey
from journal.store import Store, open_store

NOW_MS = 1_800_000_000_000
KEYS = {"old": bytes(range(32)), "new": bytes(range(100, 132)), "other": bytes(range(7, 39))}


def key(name: str) -> MasterKey:
    """One of three, by name. Each call gives one of its own: a wiped one wraps nothing."""
    return MasterKey(bytearray(KEYS[name]))


def key_file(directory: Path, name: str, data: bytes | None = None) -> Path:
    path = directory / f"{name}.key"
    path.touch(mode=0o600)
    path.write_bytes(KEYS[name] if data is None else data)
    return path


def made_with(root: Path, name: str | None) -> Path:
    """A new store, under the key of that name, or none."""
    create_store(root, None if name is None else key(name))
    return root


def opened_with(root: Path, name: str | None, readonly: bool = False) -> Store:
    keys = Keys(None if name is None else key(name))
    return open_store(root, version="test", now_ms=NOW_MS, readonly=readonly, keys=keys)


def everything_in(root: Path) -> bytes:
    """The bytes of all files of a store."""
    return b"\0".join(path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file())
