"""Arguments, rendering, exit codes of the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.cli import arguments, entry, exits, render
from daemon.exits import Exit
from daemon.refusal import Reason
from daemon.wire.verbs import VERBS

ROOT = Path(__file__).resolve().parents[2]


def test_every_verb_has_a_command() -> None:
    assert set(arguments.VERBS) == set(VERBS)


def test_options_are_parameters_of_their_verbs() -> None:
    for verb, options in arguments.OPTIONS.items():
        names = {name.rstrip(arguments.MARKS) for name in options.split()}
        sel = arguments.SELECTING & {verb}
        known = set(VERBS[verb].params.__struct_encode_fields__)
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


OURS = {
    "daemon", "daemon.cli", "daemon.cli.arguments", "daemon.cli.complaining", "daemon.cli.entry", "daemon.cli.exits",
    "daemon.cli.render", "daemon.cli.render_text", "noctuary",
}  # fmt: skip
HEAVY = (
    "numpy", "structlog", "asyncio", "lmdb", "cryptography", "prometheus_client", "apscheduler", "difflib",
    "importlib.metadata", "tomllib", "argparse", "shutil", "tempfile", "logging", "daemon.wire", "journal",
    "projections",
)  # fmt: skip
ASK = """
import sys
before = set(sys.modules)
from daemon.cli import entry
assert entry.main(sys.argv[1:]) == 3
print(*sorted(set(sys.modules) - before))
"""


@pytest.mark.parametrize("words", (["hello"], ["remember", "x", "--kind", "raw"], ["list", "--json"], ["status"]))
def test_a_plain_verb_imports_the_client_and_little_else(words: list[str], tmp_path: Path) -> None:
    """Hooks start it at every turn."""
    out = subprocess.run(
        [sys.executable, "-S", "-c", ASK, *words, "--socket", str(tmp_path / "none")],
        capture_output=True, text=True, check=True, cwd=ROOT,
        env={"PYTHONPATH": os.pathsep.join([str(ROOT), *(path for path in sys.path if "site-packages" in path)])},
    )  # fmt: skip
    loaded = set(out.stdout.split())
    rooms = {
        name for name in loaded if name.split(".")[0] in ("daemon", "journal", "projections", "relays", "noctuary")
    }
    assert rooms - {"daemon.cli.progressing"} == OURS
    assert not {name for name in loaded if name.startswith(HEAVY) and name not in OURS}


def test_the_first_help_needs_no_wire_types() -> None:
    code = "import sys; from daemon.cli import entry; entry.main(['--help']); print('|', 'daemon.wire' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert out.stdout.endswith("| False\n")


def test_exit_codes_of_the_client_are_those_of_the_daemon() -> None:
    """Two lists, because the daemon's would cost every command its import."""
    of_the_client = {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    assert of_the_client | set(exits.OF_REASON.values()) <= set(map(int, Exit))
    assert set(exits.OF_REASON) <= {reason.wire for reason in Reason} | {"unreachable"}
