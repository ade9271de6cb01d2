"""`restore`: which lists of purges count, and what is said when they may not be all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.cli import restoring
from daemon.cli.arguments import Usage
from journal.backup import Source, back_up
from journal.layout import UnsafePath
from journal.purges import append_purges, read_purges
from tests.daemon.purged import Purging
from tests.journal.backing import backed_up, directives_of, nothing, place_of


class Lost:
    """A store with three turns and a backup of it, which is lost later."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory, self._capsys = directory, capsys
        self.live = Purging(directory / "live")
        self.refs = [self.live.capture(f"zq{number}") for number in range(3)]
        self.backup = directory / "backup"
        self.root = directory / "again"
        self.purges = self.live.store.dir.purges_file

    def back_up(self) -> None:
        backed_up(self.live.store, self.backup)

    def copy_of_list(self, name: str) -> Path:
        return Path(shutil.copy(self.purges, self.directory / name))

    def restore(self, *words: str) -> tuple[dict[str, Any], str]:
        """What is told, and what is complained of."""
        given = {"json": True, "socket": None, "tenant": None}
        assert restoring.run(given, [str(self.backup), "--state", str(self.root), *words]) == 0
        told = self._capsys.readouterr()
        return json.loads(told.out), told.err

    def texts(self) -> list[str | None]:
        again = Purging(self.root)
        try:
            return [again.memory(ref).get("text") for ref in self.refs]
        finally:
            again.close(True)


@pytest.fixture
def lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Lost]:
    found = Lost(tmp_path, capsys)
    try:
        yield found
    finally:
        found.live.close(True)


def test_an_older_list_that_is_given_takes_nothing_from_the_one_that_lies_there(lost: Lost) -> None:
    lost.back_up()
    lost.live.purge(lost.refs[0])
    older = lost.copy_of_list("older")
    lost.live.purge(lost.refs[1])
    lost.root.mkdir(mode=0o700)
    shutil.copy(lost.purges, lost.root / "purges")
    told, complained = lost.restore("--purges", str(older))
    assert (told["purges"]["applied"], complained) == (2, "")
    assert lost.texts() == [None, None, "zq2"]
    assert set(directives_of(lost.live.store)) <= set(read_purges(lost.root / "purges").directives)


def test_a_list_that_ends_before_the_backup_is_warned_of(lost: Lost) -> None:
    lost.live.purge(lost.refs[0])
    older = lost.copy_of_list("older")
    lost.live.capture("more")
    lost.back_up()
    lost.live.purge(lost.refs[1])
    told, complained = lost.restore("--purges", str(older))
    assert "from before the backup" in complained and "READS AGAIN" in complained
    assert told["warnings"] and "2026-09-21" in told["warnings"][0]
    shutil.rmtree(lost.root)
    told, complained = lost.restore("--purges", str(lost.purges))
    assert (told["warnings"], complained) == ([], "") and lost.texts() == [None, None, "zq2"]


@pytest.mark.parametrize("is_foreign", [True, False])
def test_a_list_that_is_given_and_has_nothing_of_this_store_is_called_so(lost: Lost, is_foreign: bool) -> None:
    lost.back_up()
    lost.live.purge(lost.refs[0])
    path = lost.directory / "list"
    path.touch(mode=0o600)
    if is_foreign:
        append_purges(path, [msgspec.structs.replace(directives_of(lost.live.store)[0], store=bytes(16).hex())])
    told, complained = lost.restore("--purges", str(path))
    assert "THE PURGE LIST HAS NO PURGE OF THIS STORE" in complained and "NO PURGE LIST" not in complained
    assert told["purges"]["foreign"] == int(is_foreign)
    assert ("of another store" in complained) is is_foreign


def test_without_a_list_a_newer_vault_is_told_of(lost: Lost) -> None:
    lost.back_up()
    lost.live.purge(lost.refs[0])
    source_at = "2026-12-24T00:00:00.000Z"
    newer = lost.directory / "newer"
    store = lost.live.store
    source = Source(store, "test", lambda: source_at, lambda: place_of(store), nothing, lambda: False)
    back_up(source, str(newer), ("vault",))
    told, complained = lost.restore("--vault", str(newer))
    assert f"whatever was purged after {source_at} READS AGAIN" in " ".join(complained.split())
    assert told["unnamed"] > 0 and lost.texts()[0] is None


def test_what_was_under_hold_in_the_backup_is_named(lost: Lost) -> None:
    lost.live.hold(lost.refs[0])
    lost.back_up()
    lost.live.hold(lost.refs[0], on=False)
    lost.live.purge(lost.refs[0])
    told, complained = lost.restore("--purges", str(lost.purges))
    assert told["purges"]["held"] == [lost.refs[0]] and "under hold in the backup" in " ".join(complained.split())
    assert lost.texts() == [None, "zq1", "zq2"]


def test_a_list_that_is_not_there_is_a_mistake_in_the_words(lost: Lost) -> None:
    lost.back_up()
    with pytest.raises(Usage, match="there is no file"):
        lost.restore("--purges", str(lost.directory / "none"))
    assert not lost.root.exists()


@pytest.mark.parametrize("name", ["", "purges"])
def test_what_others_may_read_is_named_with_what_closes_it(lost: Lost, name: str) -> None:
    lost.back_up()
    lost.live.purge(lost.refs[0])
    lost.root.mkdir(mode=0o700)
    shutil.copy(lost.purges, lost.root / "purges")
    (lost.root / name).chmod(0o755 if not name else 0o644)
    with pytest.raises(UnsafePath, match=f"chmod go-rwx {lost.root / name}"):
        lost.restore()
