"""`audit --state`: a store that nobody holds is read; damage exits 65."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daemon.cli import entry
from journal.store import create_store, open_store


@pytest.fixture
def state(tmp_path: Path) -> Path:
    root = tmp_path / "state"
    create_store(root)
    open_store(root, version="1", now_ms=1).close(clean=True)
    return root


@pytest.mark.parametrize("more", ([], ["--rebuild"]))
def test_a_sound_store_exits_0(state: Path, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["audit", "--state", str(state), "--json", *more]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_a_cut_journal_exits_65(state: Path) -> None:
    data = state / "journal" / "data.mdb"
    with data.open("r+b") as file:
        file.truncate(8192)
    assert entry.main(["audit", "--state", str(state)]) == 65


def test_a_held_lock_asks_the_socket(state: Path, tmp_path: Path) -> None:
    store = open_store(state, version="1", now_ms=1)
    try:
        assert entry.main(["audit", "--state", str(state), "--socket", str(tmp_path / "none")]) == 3
    finally:
        store.close(clean=True)
