"""What the command line takes and tells of receipts, and of what is left of a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.cli import arguments, receipts, render_residue, searching
from daemon.cli.arguments import Usage


@pytest.mark.parametrize("given", ["1/46", '{"epoch": 1, "seq": 46}'])
def test_a_receipt_is_named_as_people_or_as_programs_are_told_it(given: str) -> None:
    wanted = {"receipt": {"epoch": 1, "seq": 46}}
    assert arguments.parameters("purges", ["--receipt", given]) == wanted
    assert receipts.named([given, "--limit", "5"]) == [f"--receipt={given}", "--limit", "5"]
    assert receipts.named(["--limit", "5"]) == ["--limit", "5"]


@pytest.mark.parametrize("given", ["1", "1/", "a/b", '{"epoch": 1}', '{"epoch": -1, "seq": 2}', "{"])
def test_what_is_no_receipt_is_refused(given: str) -> None:
    with pytest.raises(Usage):
        arguments.parameters("purges", ["--receipt", given])


def test_residue_tells_people_how_much_there_is_and_not_all_of_it() -> None:
    found = {
        "bytes": [{"file": "f", "offset": number} for number in range(60)], "files": 1, "ciphertexts_tried": 70,
        "unopenable": 0, "readable": [{"seq": 1, "part": "text", "memory": None, "status": None}], "cut": False,
    }  # fmt: skip
    told = render_residue.residue(found)
    assert "and 10 more; --json has all" in told and "in the clear:" in told and "behind a key that is there:" in told
    assert "60 times in the clear, 1 behind a key" in " ".join(told)
    assert len(told) < 60


def test_residue_of_a_backup_says_that_it_is_to_be_restored_first(tmp_path: Path) -> None:
    (tmp_path / "manifest").write_text("{}")
    (tmp_path / "word").write_text("zq")
    with pytest.raises(Usage, match="is a backup: restore it"):
        searching.run({"socket": None, "tenant": None}, ["--state", str(tmp_path), "--file", str(tmp_path / "word")])


def test_residue_of_what_no_memory_owns_names_the_kind_of_its_record() -> None:
    row = {"seq": 9, "part": "name", "memory": None, "status": None, "type": "session_opened"}
    found = {"bytes": [], "files": 1, "ciphertexts_tried": 1, "unopenable": 0, "readable": [row], "cut": False}
    assert any("session_opened" in line for line in render_residue.residue(found))
