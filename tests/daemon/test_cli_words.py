"""Words of the command line: switches, references in two words, what is missing."""

from __future__ import annotations

import io
import sys
from typing import Any, get_args

import pytest

from daemon.cli import arguments, entry, exits
from daemon.cli.arguments import Usage
from daemon.wire.verbs import VERBS
from daemon.wire.vocabulary import KindWord

HEAD = '{"store": "00", "epoch": 1, "seq": 2, "chain": "11", "at": null}'


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--enforce"], True),
        (["--enforce", "true"], True),
        (["--enforce=true"], True),
        (["--enforce", "false"], False),
        (["--enforce=false"], False),
        (["--no-enforce"], False),
        (["--no_enforce"], False),
    ],
)
def test_a_switch_is_said_in_each_way(words: list[str], wanted: bool) -> None:
    assert arguments.parameters("lifecycle", words) == {"enforce": wanted}


@pytest.mark.parametrize("words", (["--enforce=no"], ["--no-enforce=false"], ["--enforce", "perhaps"]))
def test_a_switch_takes_no_other_word(words: list[str]) -> None:
    with pytest.raises(Usage):
        arguments.parameters("lifecycle", words)


def test_a_switch_leaves_the_next_word_alone() -> None:
    words = ["--protected", "a text", "--kind", "raw"]
    assert arguments.parameters("remember", words) == {"protected": True, "text": "a text", "kind": "raw"}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["remember", "x"], "--kind"),
        (["session_open", "agent"], "KEY"),
        (["session-open"], "AGENT and KEY"),
        (["trace"], "ID"),
        (["head", "odd"], "'odd' is too much"),
    ],
)
def test_what_is_missing_or_too_much_is_named(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(words) == exits.USAGE
    assert named in capsys.readouterr().err


def test_what_the_wire_needs_is_a_place_or_required() -> None:
    for verb, row in VERBS.items():
        needed = {field.encode_name for field in _required(row.params)}
        places = {name.rstrip("*") for name in arguments.VERBS[verb].split()}
        assert needed == places | set(arguments.REQUIRED.get(verb, ())), verb


def _required(params: Any) -> list[Any]:
    import msgspec

    return [field for field in msgspec.structs.fields(params) if field.required]


def test_a_reference_is_one_word_or_two() -> None:
    wanted = {"ids": ["raw:1", "note:2", "raw:3"]}
    assert arguments.parameters("get", ["raw", "1", "note:2", "raw", "3"]) == wanted
    assert arguments.parameters("forget", ["note", "1"]) == {"id": "note:1"}
    assert arguments.parameters("session", ["session", "1"]) == {"session": "session:1"}
    assert set(get_args(KindWord)) | {"session"} == set(arguments.KINDS)


def test_a_text_of_one_kind_is_no_reference() -> None:
    assert arguments.parameters("remember", ["note", "--kind", "raw"])["text"] == "note"


def test_a_head_is_held_against_the_journal_as_it_was_printed() -> None:
    one = arguments.parameters("audit", ["--against", HEAD])["against"]
    assert one == arguments.parameters("audit", ["--against", f"[{HEAD}]"])["against"] and len(one) == 1


def test_call_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO('{"text": "é"}'.encode())))
    assert entry.request("call", ["session-open", "-"]) == ("session_open", {"text": "é"})


@pytest.mark.parametrize("words", (["recall", "x"], ["meta", "uncertain"], ["meta", "orphans"], ["meta", "verify"]))
def test_what_other_versions_have_is_said(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(words) == exits.USAGE
    assert "is not in this version" in capsys.readouterr().err


def test_no_verb_is_told_to_be_of_another_version() -> None:
    assert not set(arguments.LATER.split()) & set(VERBS)
