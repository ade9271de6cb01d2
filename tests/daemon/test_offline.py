"""`audit` of a store that nobody holds: it is read, never written; damage exits 65."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from daemon.cli import entry
from daemon.opening import open_all
from journal.creating import create_store
from journal.environment import Environment
from journal.store import open_store
from projections import tables


@pytest.fixture(autouse=True)
def no_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of whoever runs the tests says where a store or a socket is."""
    for name in [name for name in os.environ if name.startswith(("NOCTUARY_", "XDG_", "STATE_DIRECTORY"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "default"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))


def made(root: Path, openings: int = 1) -> Path:
    """A store with its projections, stopped in an orderly way."""
    for number in range(openings):
        store, projections, _ = open_all(root, "1", number + 1)
        projections.close(clean=True)
        store.close(clean=True)
    return root


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return made(tmp_path / "state", 3)


def content(state: Path) -> dict[Path, tuple[int, bytes]]:
    """Every name under the state directory with its mode and bytes."""
    return {
        path: (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"") for path in sorted(state.rglob("*"))
    }


def audited(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = entry.main(["audit", "--json", *words])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("more", ([], ["--rebuild"], ["--from_seq", "2"]))
def test_a_sound_store_exits_0_and_nothing_is_written(
    state: Path, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(state)
    code, told = audited(capsys, "--state", str(state), *more)
    assert (code, told["findings"]) == (0, [])
    assert content(state) == before
    assert bool(told["digests"]) == (more == ["--rebuild"])


def test_a_store_without_projections_is_read_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "bare"
    create_store(root)
    open_store(root, version="1", now_ms=1).close(clean=True)
    before = content(root)
    code, told = audited(capsys, "--state", str(root), "--rebuild")
    assert code == 0 and told["notes"] == [
        "the projections are not compared: what is there isn't trusted, the daemon folds it anew"
    ]
    assert told["digests"] and content(root) == before


def test_projections_of_another_boot_are_left_alone(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state / "projections" / "OPEN").write_bytes(b"of another boot")
    before = content(state)
    code, told = audited(capsys, "--state", str(state), "--rebuild")
    assert code == 0 and "not compared" in told["notes"][0] and content(state) == before


def test_projections_behind_are_compared_where_they_stand(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_store(state, version="1", now_ms=9).close(clean=True)
    before = content(state)
    code, told = audited(capsys, "--state", str(state), "--rebuild")
    assert (code, told["head"]["seq"]) == (0, 4)
    assert told["notes"] == ["the projections were compared at record 3"] and content(state) == before


def test_a_projection_that_differs_is_found(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    env = Environment.open(state / "projections", (*tables.DATABASES, tables.META), durable=False)
    with env.write() as txn:
        txn.put(b"\0" * 8, b"never folded", db=env.db(tables.TEXTS))
    env.close()
    code, told = audited(capsys, "--state", str(state), "--rebuild")
    assert code == 65
    assert [(row["code"], row["what"]) for row in told["findings"]] == [("projection_differs", "texts")]
    assert audited(capsys, "--state", str(state))[0] == 0


def test_a_cut_journal_exits_65_and_is_left_alone(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (state / "journal" / "data.mdb").open("r+b") as file:
        file.truncate(8192)
    before = content(state)
    assert audited(capsys, "--state", str(state), "--rebuild")[0] == 65
    assert content(state) == before


def test_a_damaged_vault_exits_65(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state / "vault").write_bytes(b"\0" * 64)
    code, told = audited(capsys, "--state", str(state))
    assert code == 65 and told["findings"][0]["code"] == "store_damaged"


def test_a_lost_format_exits_65_and_no_store_1(state: Path, tmp_path: Path) -> None:
    assert entry.main(["audit", "--state", str(tmp_path / "none")]) == 1
    (state / "FORMAT").unlink()
    assert entry.main(["audit", "--state", str(state)]) == 65


def test_a_range_and_heads_are_asked_about_offline(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = audited(capsys, "--state", str(state))[1]["head"]
    code, told = audited(
        capsys, "--state", str(state), "--from_seq", "2", "--to_seq", "3", "--against", json.dumps(head)
    )
    assert (code, told["records"], told["against"]) == (0, 2, ["same"])
    other = audited(capsys, "--state", str(made(tmp_path / "other")), "--against", json.dumps(head))[1]
    assert other["against"] == ["other store"]


def test_a_wrong_range_is_refused_as_on_the_wire(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["audit", "--state", str(state), "--from_seq", "-1"]) == 4
    assert "invalid_input: from_seq: the value is under its limit (limit 0)" in capsys.readouterr().err


def test_a_held_lock_asks_the_socket(state: Path, tmp_path: Path) -> None:
    store = open_store(state, version="1", now_ms=1)
    try:
        assert entry.main(["audit", "--state", str(state), "--socket", str(tmp_path / "none")]) == 3
    finally:
        store.close(clean=True)


@pytest.mark.parametrize("name", ("NOCTUARY_STATE", "STATE_DIRECTORY"))
def test_the_place_is_found_without_words(
    name: str, state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, str(state))
    code, told = audited(capsys)
    assert (code, told["records"]) == (0, 3)


def test_a_socket_that_is_named_means_the_daemon_there(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOCTUARY_STATE", str(state))
    assert entry.main(["audit", "--socket", str(tmp_path / "none")]) == 3
    monkeypatch.delenv("NOCTUARY_STATE")
    monkeypatch.setenv("STATE_DIRECTORY", str(state))
    monkeypatch.setenv("NOCTUARY_SOCKET", str(tmp_path / "none"))
    assert entry.main(["audit"]) == 3
