"""Arguments, rendering, exit codes of the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from daemon.cli import arguments, entry, exits, render
from daemon.wire.verbs import VERBS


def test_every_verb_has_a_command() -> None:
    assert set(arguments.VERBS) == set(VERBS)


def test_options_are_parameters_of_their_verbs() -> None:
    for verb, options in arguments.OPTIONS.items():
        names = {name.rstrip(arguments.MARKS) for name in options.split()}
        sel = {"sel"} if verb == "list" else set()
        known = set(VERBS[verb].params.__struct_fields__)
        selection = {name.rstrip(arguments.MARKS) for name in arguments.SELECTION.split()} if sel else set()
        assert names - selection <= known, verb


@pytest.mark.parametrize("words", (["--json", "head", "--tenant=a"], ["head", "--tenant", "a", "--json"]))
def test_globals_stand_anywhere(words: list[str]) -> None:
    assert arguments.globals_of(words) == ({"json": True, "socket": None, "tenant": "a"}, ["head"])


def test_a_selection_is_gathered() -> None:
    assert arguments.parameters("list", ["--kinds", "raw", "--kinds", "note", "--limit", "3"]) == {
        "limit": 3,
        "sel": {"kinds": ["raw", "note"]},
    }


def test_text_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("é\n", "utf-8")
    assert arguments.parameters("remember", ["--kind", "raw", "--file", str(tmp_path / "t")])["text"] == "é\n"


def test_meta_takes_both_spellings() -> None:
    wanted = ("trace", {"id": "note:1", "direction": "dependents"})
    assert entry.request("meta", ["reverse", "note", "1"]) == wanted
    assert entry.request("meta", ["reverse", "note:1"]) == wanted


@pytest.mark.parametrize("words", ([], ["nope"], ["get"], ["head", "--x"], ["trace"], ["call", "head", "[]"]))
def test_wrong_words_exit_2(words: list[str]) -> None:
    assert entry.main(words) == exits.USAGE


def test_unreachable_exits_3(tmp_path: Path) -> None:
    assert entry.main(["head", "--socket", str(tmp_path / "none")]) == 3


def test_output_fits_and_has_no_control_characters() -> None:
    text = render.render({"memories": [{"id": "raw:1", "text": "x\x1b[2J " * 60}], "at": None})
    assert "\x1b" not in text and all(len(line) <= 80 for line in text.split("\n"))


def test_start_up_is_light() -> None:
    code = "import sys, daemon.cli.entry; print({'numpy', 'structlog', 'asyncio', 'lmdb'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                         cwd=Path(__file__).resolve().parents[2])  # fmt: skip
    assert out.stdout.strip() == "set()"
