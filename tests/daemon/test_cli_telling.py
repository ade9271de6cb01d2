"""What the command line tells of itself and of refusals: help, configuration, errors in people's form."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from daemon.cli import arguments, complaining, entry, exits, telling
from daemon.cli.render_text import columns
from daemon.config import KEYS
from tests.daemon.screens import terminal

OTHERS = tuple(telling.OTHERS)


@pytest.mark.parametrize(
    "words", (["--help"], ["help"], *([name, "--help"] for name in (*OTHERS, *sorted(arguments.VERBS))))
)
def test_help_fits_and_says_what_it_is_for(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(words) == exits.OK
    told = capsys.readouterr().out
    assert told.startswith("usage: noctuary") and all(columns(line) <= 80 for line in told.split("\n"))
    name = words[0]
    if name in arguments.VERBS:
        capsys.readouterr()
        assert entry.main(["help", name.replace("_", "-")]) == exits.OK and capsys.readouterr().out == told
        assert " ".join(telling.sentence_of(name).split()) in " ".join(told.split())
        assert len(telling.sentence_of(name)) > 15


def test_the_first_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    entry.main(["--help"])
    named = {line.split()[0] for line in capsys.readouterr().out.split("\n") if line[:1].isalpha()}
    assert {*OTHERS, *arguments.VERBS} <= named


def test_help_names_every_option_with_its_words() -> None:
    for verb, options in arguments.OPTIONS.items():
        told = telling.help_of(verb)
        for name in options.split():
            assert f"--{name.rstrip(arguments.MARKS)} " in told, (verb, name)
    told = " ".join(telling.help_of("remember").split())
    assert "--role WORD who spoke a turn (assistant | system | tool | user)" in told
    assert "--tags TEXT words to find it by (each at most 64 characters; at most 32 items; may be repeated)" in told
    assert "--kind WORD what the memory is (belief | " in told and "| value; required)" in told
    assert "--importance NUMBER its worth; default 1 (0.05..10)" in told
    assert "--occurred_at TIME" in told and "(as 2026-06-02T09:00:00+02:00)" in told
    assert "--entities JSON who and what is named in it ({name, type}; at most 16 items; - for standard input)" in told
    assert "--file PATH the text, from a file" in told
    assert "(1..1000; default 100)" in telling.help_of("list")
    assert "[true|false] whether sources are" in " ".join(telling.help_of("lifecycle").split())
    assert "or --no-enforce" in " ".join(telling.help_of("lifecycle").split())


def test_help_of_nothing_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["nosuch", "--help"]) == exits.USAGE
    assert entry.main(["schema", "nosuch"]) == exits.USAGE
    assert "there is no verb 'nosuch'" in capsys.readouterr().err


def test_a_text_that_looks_like_help_can_be_given(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert entry.main(["remember", "--kind", "raw", "--socket", str(tmp_path / "no"), "--", "--help"]) == 3


@pytest.mark.parametrize("words", (["config", "--json"], ["--json", "config"]))
def test_the_configuration_as_json(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main([*words, "--socket", "/s"]) == exits.OK
    told = json.loads(capsys.readouterr().out)
    assert set(told) == set(KEYS) and told["socket"] == {"value": "/s", "source": "flag"}


def test_a_refusal_names_all_that_helps() -> None:
    data = {
        "reason": "invalid_input", "retryable": False, "parameter": "importance", "limit": 10, "index": 3,
        "allowed": ["a", "b"], "current": "raw:1", "hint": "try less", "retry_after_ms": 5, "ids": ["raw:2"],
    }  # fmt: skip
    assert complaining.sentence("the value is over its limit", data) == (
        "invalid_input: importance: the value is over its limit "
        "(index 3; limit 10; allowed: a, b; ids: raw:2; current raw:1; hint try less; retry_after_ms 5)"
    )


def test_a_refusal_has_no_control_characters() -> None:
    assert "\x1b" not in complaining.sentence("\x1b[2J", {"reason": "conflict", "current": "\x1b"})


def test_a_reader_that_leaves_is_no_fault() -> None:
    import subprocess

    root = Path(__file__).resolve().parents[2]
    read = subprocess.Popen(
        [sys.executable, "-m", "daemon.cli.entry", "config"], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert read.stdout is not None and read.stderr is not None
    read.stdout.close()
    said = read.stderr.read()
    read.stderr.close()
    assert (read.wait(30), said) == (0, b"")


@pytest.mark.parametrize("before", [["--socket", "/x"], ["--tenant", "a"], ["--json", "--socket=/x"]])
def test_help_is_found_behind_what_stands_before_the_verb(
    before: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main([*before, "list", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: noctuary list")


def test_json_that_is_nested_too_deeply_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["call", "remember", '{"a":' + "[" * 20_000 + "]" * 20_000 + "}"]) == 2
    assert "nested too deeply" in capsys.readouterr().err


def test_every_command_has_a_help() -> None:
    assert {*entry.COMMANDS, "meta"} - set(arguments.VERBS) == set(telling.OTHERS)


def test_an_option_is_told_once() -> None:
    for name in arguments.VERBS:
        heads = [line.split()[0] for line in telling.help_of(name).split("\n") if line.startswith("  --")]
        assert len(heads) == len(set(heads)), name


def test_a_help_is_as_wide_as_a_narrow_terminal_and_never_wider_than_80(monkeypatch: pytest.MonkeyPatch) -> None:
    for wide, most in ((40, 40), (200, 80)):
        with terminal(wide, monkeypatch):
            told = "\n".join([telling.usage(), *map(telling.help_of, [*arguments.VERBS, *telling.OTHERS])])
        assert max(map(columns, told.split("\n"))) <= most
