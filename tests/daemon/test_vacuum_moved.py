"""A store that was vacuumed is backed up, restored, exported and imported like any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from journal.purges import read_purges
from tests.daemon.vacuumed import Filled
from tests.journal.backing import restored
from tests.journal.exported import exported
from tests.journal.test_importing import made

DAY = "2026-09-21"


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    opened = Filled(tmp_path / "state")
    yield opened
    opened.close(True)


def stories(filled: Filled) -> tuple[list[str], list[str], list[str]]:
    """`(living, forgotten, purged)`, all of one day."""
    turns = filled.turns(30)
    filled.forget(*turns[:5])
    filled.purge(*turns[5:12])
    return turns[12:], turns[:5], turns[5:12]


def check(root: Path, alive: list[str], forgotten: list[str], purged: list[str], rows: int) -> None:
    """What the store in `root` answers, and that nothing is wrong with it."""
    again = Filled(root)
    try:
        again.now_ms += 86_400_000
        texts = {ref: again.memory(ref).get("text") for ref in alive + forgotten}
        assert sorted(map(str, texts.values())) == sorted(f"one {n}" for n in (*range(1, 6), *range(13, 31)))
        assert {again.memory(ref)["status"] for ref in forgotten} == {"forgotten"}
        assert {(again.memory(ref)["status"], again.memory(ref).get("text")) for ref in purged} == {("purged", None)}
        assert again.listed()[DAY]["rows"] == rows
        assert again.read("audit", {"rebuild": True})["findings"] == [] and again.store.findings == []
        again.check_rows()
        again.vacuum(force=True)
        again.write("recover", {"id": forgotten[0]})
        again.check_rows()
        assert again.rebuilt_alike()
    finally:
        again.close(True)


@pytest.mark.parametrize("vacuumed_first", [True, False])
def test_it_is_restored_from_a_backup(filled: Filled, tmp_path: Path, vacuumed_first: bool) -> None:
    told = stories(filled)
    if vacuumed_first:
        filled.vacuum(force=True)
    filled.read("backup", {"dir": str(tmp_path / "b")})
    filled.vacuum(force=True)
    restored(tmp_path / "r", tmp_path / "b", read_purges(filled.root / "purges").directives)
    check(tmp_path / "r", *told, rows=18 if vacuumed_first else 30)


def test_a_backup_from_before_a_purge_is_purged_when_it_is_restored(filled: Filled, tmp_path: Path) -> None:
    turns = filled.turns(30)
    filled.forget(*turns[:5])
    filled.vacuum(force=True)
    filled.read("backup", {"dir": str(tmp_path / "b")})
    filled.purge(*turns[5:12])
    filled.vacuum(force=True)
    restored(tmp_path / "r", tmp_path / "b", read_purges(filled.root / "purges").directives)
    check(tmp_path / "r", turns[12:], turns[:5], turns[5:12], rows=25)


def test_it_is_exported_and_imported(filled: Filled, tmp_path: Path) -> None:
    told = stories(filled)
    filled.vacuum(force=True)
    digests = filled.digests()
    filled.close(True)
    lines = exported(filled.root)
    filled._open()
    root = made(tmp_path / "new", lines)
    other = Filled(root)
    try:
        assert other.digests() == digests
    finally:
        other.close(True)
    check(root, *told, rows=18)
