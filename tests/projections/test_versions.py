"""Each projection has a version of its fold: one that was folded by other code is folded anew, and that one alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.opening import open_journal, open_projections
from journal.store import Store
from projections import tables, versions
from projections.store import ProjectionStore
from tests.model.opened import OpenedService

NOW_MS = 1_790_000_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with something in every projection, closed clean."""
    opened = OpenedService(tmp_path / "state", lambda: NOW_MS)
    turn = {"kind": "raw", "role": "user", "session": {"agent": "a", "key": "k"}, "idempotency_key": "one"}
    first = opened.write("remember", {**turn, "text": "t", "entities": [{"name": "n", "type": "x"}]})["id"]
    opened.write(
        "remember", {"kind": "note", "origin": "told", "derived_from": [first], "evidence": [first], "text": "t"}
    )
    opened.close(True)
    return tmp_path / "state"


@pytest.fixture
def store(root: Path) -> Iterator[Store]:
    opened = open_journal(root, "test", NOW_MS)
    yield opened
    opened.close(True)


def raise_version(monkeypatch: pytest.MonkeyPatch, *projections: str) -> None:
    monkeypatch.setattr(tables, "VERSIONS", {**tables.VERSIONS, **dict.fromkeys(projections, 9)})


def put(projections: ProjectionStore, database: str, key: bytes, value: bytes) -> None:
    with projections.env.write() as txn:
        txn.put(key, value, db=projections.env.db(database))


def has(projections: ProjectionStore, database: str, key: bytes) -> bool:
    with projections.snapshot() as snapshot:
        return snapshot.get(database, key) is not None


@pytest.mark.parametrize("changed", list(tables.PROJECTIONS))
def test_only_the_projection_of_another_version_is_folded_anew(
    store: Store, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    projections, recovery = open_projections(store)
    assert recovery.rebuilt == []
    wanted, counters = projections.digests(), projections.counters
    for name, databases in tables.PROJECTIONS.items():  # a trace in each, which only a fold from nothing takes away
        put(projections, databases[0], b"~trace", _sealed(b"~trace"))
        assert has(projections, tables.PROJECTIONS[name][0], b"~trace")
    projections.close(True)

    raise_version(monkeypatch, changed)
    again, recovery = open_projections(store)
    assert recovery.rebuilt == [changed]
    assert recovery.from_seq > 1
    for name, databases in tables.PROJECTIONS.items():
        assert has(again, databases[0], b"~trace") == (name != changed)
    assert again.digests()[changed] == wanted[changed]
    assert again.counters == counters
    again.close(True)
    same, recovery = open_projections(store)
    assert recovery.rebuilt == []
    same.close(True)


def _sealed(key: bytes) -> bytes:
    from projections import rows

    return rows.seal_row(key, b"\0")


def test_what_was_not_folded_to_its_end_is_folded_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    projections, _ = open_projections(store)
    wanted = projections.digests()
    projections.close(True)
    raise_version(monkeypatch, "edges", "memories")

    class Killed(BaseException):
        pass

    def killed(seq: int, to_seq: int) -> None:
        raise Killed

    monkeypatch.setattr("projections.store.FOLD_CHUNK_RECORDS", 2)
    with pytest.raises(Killed):
        open_projections(store, killed)
    again, recovery = open_projections(store)
    assert sorted(recovery.rebuilt) == ["edges", "memories"]
    assert again.digests() == wanted
    again.close(True)


def test_a_version_that_can_not_be_read_is_another(store: Store) -> None:
    projections, _ = open_projections(store)
    wanted = projections.digests()
    with projections.env.write() as txn:
        value = bytearray(bytes(txn.get(b"version.names", db=projections.env.db(tables.META)) or b""))
        value[0] ^= 1
        txn.put(b"version.names", bytes(value), db=projections.env.db(tables.META))
        assert versions.stale(projections.env, txn) == ["names"]
    projections.close(True)
    again, recovery = open_projections(store)
    assert recovery.rebuilt == ["names"] and again.digests() == wanted
    again.close(True)


def test_progress_is_told_while_one_is_folded_anew(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    projections, _ = open_projections(store)
    projections.close(True)
    raise_version(monkeypatch, "usage")
    told: list[tuple[int, int]] = []
    again, _ = open_projections(store, lambda seq, to_seq: told.append((seq, to_seq)))
    again.close(True)
    head = store.log.head().seq
    assert told == [(head, head)]
