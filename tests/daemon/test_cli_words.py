"""Words of the command line: switches, references in two words, what is missing."""

from __future__ import annotations

import io
import json
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

import noctuary
from daemon.cli import arguments, entry, exits
from daemon.cli.arguments import Usage
from daemon.wire.verbs import VERBS
from daemon.wire.vocabulary import KindWord

ROOT = Path(__file__).resolve().parents[2]
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
        selected = {"sel"} if verb in arguments.SELECTING else set()
        places = set() if verb == "purge" else places  # either ids or a selection
        assert needed - selected == places | set(arguments.REQUIRED.get(verb, ())), verb


def _required(params: Any) -> list[Any]:
    import msgspec

    return [field for field in msgspec.structs.fields(params) if field.required]


def test_a_reference_is_one_word_or_two() -> None:
    wanted = {"ids": ["raw:1", "note:2", "raw:3"]}
    assert arguments.parameters("get", ["raw", "1", "note:2", "raw", "3"]) == wanted
    assert arguments.parameters("forget", ["note", "1"]) == {"id": "note:1"}
    assert arguments.parameters("session", ["session", "1"]) == {"session": "session:1"}
    assert arguments.parameters("decide", ["proposal", "1", "--no-accept"]) == {
        "proposal": "proposal:1",
        "accept": False,
    }
    assert arguments.parameters("propose", ["edge", "note", "1"]) == {"proposal_kind": "edge", "memory": "note:1"}
    assert set(get_args(KindWord)) | {"session", "proposal"} == set(arguments.KINDS)


def test_a_decision_is_never_left_to_a_default() -> None:
    with pytest.raises(arguments.Usage, match="accept"):
        arguments.parameters("decide", ["proposal:1"])
    assert arguments.parameters("decide", ["proposal:1", "--accept"])["accept"] is True
    assert arguments.parameters("decide", ["proposal:1", "--accept=false"])["accept"] is False


def test_a_text_of_one_kind_is_no_reference() -> None:
    assert arguments.parameters("remember", ["note", "--kind", "raw"])["text"] == "note"


def test_a_head_is_held_against_the_journal_as_it_was_printed() -> None:
    one = arguments.parameters("audit", ["--against", HEAD])["against"]
    assert one == arguments.parameters("audit", ["--against", f"[{HEAD}]"])["against"] and len(one) == 1


def test_call_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO('{"text": "é"}'.encode())))
    assert entry.request("call", ["session-open", "-"]) == ("session_open", {"text": "é"})


@pytest.mark.parametrize("words", (["recall", "x"], ["reflect", "x"]))
def test_what_other_versions_have_is_said(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(words) == exits.USAGE
    assert "is not in this version" in capsys.readouterr().err


def test_no_verb_is_told_to_be_of_another_version() -> None:
    assert not set(arguments.LATER.split()) & set(VERBS)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["statsu"], "no command 'statsu' (did you mean status?)"),
        (["remember-mayn"], "(did you mean remember_many?)"),
        (["exprt"], "(did you mean export?)"),
        (["help", "sesion"], "(did you mean session?)"),
        (["schema", "trase"], "(did you mean trace?)"),
        (["list", "--kind", "raw"], "list has no option --kind (did you mean --kinds?)"),
        (["zzzz"], "no command 'zzzz'; see noctuary --help"),
        (["--limit", "3", "list"], "--limit stands before a command"),
    ],
)
def test_the_nearest_name_is_said(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(words) == exits.USAGE
    assert named in capsys.readouterr().err


def given(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize(
    ("verb", "words", "content", "wanted"),
    [
        ("remember", ["--kind", "raw", "-"], "é\n", {"kind": "raw", "text": "é\n"}),
        ("lifecycle", ["--correlation", "-"], "", {"correlation": "-"}),
        ("session_close", ["session:1", "--at", "-"], "", {"session": "session:1", "at": "-"}),
        ("remember", ["--kind=raw", "x", "--metadata", "-"], '{"a": 1}', {"kind": "raw", "text": "x", "metadata": {"a": 1}}),  # noqa: E501
        ("remember_many", ["-"], '[{"kind": "raw"}]', {"items": [{"kind": "raw"}]}),
        ("get", ["-"], "raw:1\nnote:2 note:3\n", {"ids": ["raw:1", "note:2", "note:3"]}),
        ("forget", ["raw:1", "--note", "-"], "why\nso", {"id": "raw:1", "note": "why\nso"}),
        ("audit", ["--against", "-"], HEAD, {"against": [json.loads(HEAD)]}),
    ],
)  # fmt: skip
def test_a_minus_is_standard_input(
    verb: str, words: list[str], content: str, wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, content.encode())
    assert arguments.parameters(verb, words) == wanted


def test_a_file_is_taken_wherever_a_text_or_a_list_is(tmp_path: Path) -> None:
    path = tmp_path / "é b"
    path.write_text('["raw:1"]', "utf-8")
    assert arguments.parameters("remember", ["--kind", "raw", "--file", str(path)])["text"] == '["raw:1"]'
    assert arguments.parameters("remember_many", [f"--file={path}"])["items"] == ["raw:1"]
    path.write_text("raw:1\nraw:2", "utf-8")
    assert arguments.parameters("get", ["--file", str(path)]) == {"ids": ["raw:1", "raw:2"]}
    path.write_text('{"id": "raw:1"}', "utf-8")
    for words in (["forget", "--file", str(path)], ["forget", f"--file={path}"]):
        assert entry.request("call", words) == ("forget", {"id": "raw:1"})


def test_standard_input_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, b"{}")
    with pytest.raises(Usage, match="standard input is closed"):
        arguments.parameters("remember", ["-", "--kind", "raw", "--metadata", "-"])


def test_a_file_that_is_not_there_or_no_text_is_a_wrong_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b").write_bytes(b"\xff")
    for path in (tmp_path / "none", tmp_path, tmp_path / "b"):
        assert entry.main(["remember", "--kind", "raw", "--file", str(path)]) == exits.USAGE
        assert f"can't read {path}" in capsys.readouterr().err


ENDLESS = (
    (["remember", "--kind", "raw", "-"], True), (["remember", "--kind", "raw", "--file", "/dev/zero"], False),
    (["call", "list", "-"], True), (["call", "list", "--file=/dev/zero"], False), (["get", "-"], True),
    (["forget", "raw:1", "--note", "-"], True), (["remember-many", "--file", "/dev/zero"], False),
)  # fmt: skip


@pytest.mark.parametrize(("words", "piped"), ENDLESS)
def test_input_without_end_is_too_large_and_not_read_on(words: list[str], piped: bool) -> None:
    """The bound of its memory makes it fail, rather than the machine, when it does read on."""

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    with open("/dev/zero" if piped else "/dev/null", "rb") as source:
        done = subprocess.run(
            [sys.executable, "-m", "daemon.cli.entry", "--json", *words],
            cwd=ROOT, stdin=source, capture_output=True, timeout=60, check=False, preexec_fn=bounded,
        )  # fmt: skip
    assert done.returncode == exits.of_reason("too_large") == 4
    assert json.loads(done.stderr)["error"]["data"] == {"reason": "too_large", "limit": noctuary.LINE_BYTES}


def test_what_just_fits_is_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * noctuary.LINE_BYTES)
    assert len(arguments.text_of(str(tmp_path / "f"))) == noctuary.LINE_BYTES


def test_an_import_is_many_requests_and_may_be_longer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f").write_bytes(b"\n" * (noctuary.LINE_BYTES + 1))
    assert entry.main(["--json", "import", "--format", "turns", str(tmp_path / "f")]) == exits.REFUSED
    assert json.loads(capsys.readouterr().err)["error"]["data"]["reason"] == "invalid_input", (
        "it was read, and is empty"
    )


def test_words_that_are_not_utf_8_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["remember", "a\udcff", "--kind", "raw"]) == exits.USAGE
    assert "not UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize("words", (["--json", "nope"], ["remember", "x", "--json"], ["list", "--limit", "x", "--json"]))
def test_wrong_words_are_told_as_json_too(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(words) == exits.USAGE
    out, err = capsys.readouterr()
    error = json.loads(err)["error"]
    assert out == "" and error["code"] is None and error["data"] == {"reason": "usage"} and error["message"]


def test_json_behind_two_dashes_is_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["remember", "--", "--json", "x"]) == exits.USAGE
    assert capsys.readouterr().err.startswith("noctuary: ")


def test_schemas_are_of_the_2020_12_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["schema", "--json"]) == 0
    told = capsys.readouterr().out
    assert told.count("\n") == 1 and set(json.loads(told)) == set(VERBS)
    for verb, pair in json.loads(told).items():
        assert entry.main(["schema", verb]) == 0
        assert json.loads(capsys.readouterr().out) == pair
        for schema in pair.values():
            assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
            _check_form(schema, schema["$defs"])


def test_a_schema_shows_what_is_enforced() -> None:
    from daemon.wire.schema import schemas_of

    params = schemas_of("remember")["params"]
    fields = params["$defs"]["RememberParams"]["properties"]
    assert fields["importance"]["maximum"] == 10 and fields["tags"]["maxItems"] == 32
    assert fields["topic"]["maxLength"] == 256 and "raw" in fields["kind"]["enum"]
    assert params["$defs"]["RememberParams"]["additionalProperties"] is False
    assert re.search(fields["tenant"]["pattern"], "Upper") is None and fields["tenant"]["pattern"].endswith("$")


KEYWORDS: dict[str, type | tuple[type, ...]] = {
    "$schema": str, "$ref": str, "$defs": dict, "type": str, "properties": dict, "required": list, "items": dict,
    "additionalProperties": (bool, dict), "anyOf": list, "enum": list, "pattern": str, "title": str, "description": str,
    "minLength": int, "maxLength": int, "minItems": int, "maxItems": int, "minimum": (int, float),
    "maximum": (int, float), "default": object,
}  # fmt: skip


def _check_form(schema: dict[str, Any], defs: dict[str, Any]) -> None:
    """Known words with values of their kind, references that lead somewhere, patterns that ECMA 262 knows."""
    for word, value in schema.items():
        assert isinstance(value, KEYWORDS[word]), (word, value)
    assert schema.get("$ref", "#/$defs/").removeprefix("#/$defs/") in (*defs, "")
    assert schema.get("type", "null") in ("null", "boolean", "object", "array", "number", "string", "integer")
    assert not re.search(r"\\[AZzG]|\(\?[#imsxP<]", schema.get("pattern", ""))
    inner = [schema[word] for word in ("items", "additionalProperties") if isinstance(schema.get(word), dict)]
    inner += [*schema.get("anyOf", ()), *schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    for each in inner:
        _check_form(each, defs)


@pytest.mark.parametrize(("given_word", "wanted"), [("0", 0), ("1000", 1000), ("operator", "operator"), ("-1", "-1")])
def test_an_actor_is_a_number_or_a_word(given_word: str, wanted: int | str) -> None:
    assert arguments.parameters("records", ["--actor", given_word])["actor"] == wanted


@pytest.mark.parametrize("word", ["1_0", "１", "x", "", "²", "9" * 5000])
def test_a_number_is_written_in_digits(word: str) -> None:
    with pytest.raises(Usage, match="--limit is a number"):
        arguments.parameters("list", [f"--limit={word}"])


def test_the_version_is_told_as_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["--version", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"version"}


@pytest.mark.parametrize(
    ("words", "code"), [([], 2), (["--json"], 2), (["--tenant", "a"], 2), (["--help"], 0), (["--json", "-h"], 0)]
)
def test_no_command_is_a_usage_error_that_shows_the_help(
    words: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(words) == code
    assert capsys.readouterr().out.startswith("usage: noctuary [--json]")


# --- what stands without a name ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "words", "wanted"),
    [
        ("relate", ["--from", "note:1", "--to", "note:2", "--type", "extends"], ("note:1", "note:2", "extends")),
        ("relate", ["note:1", "note:2", "--type", "extends"], ("note:1", "note:2", "extends")),
        ("relate", ["note", "1", "extends", "--to=note:2"], ("note:1", "note:2", "extends")),
    ],
)
def test_what_stands_without_a_name_may_be_named(verb: str, words: list[str], wanted: tuple[str, ...]) -> None:
    assert arguments.parameters(verb, words) == dict(zip(("from", "to", "type"), wanted, strict=True))


def test_each_place_of_each_verb_may_be_named() -> None:
    must = {
        "remember": ["--kind", "raw"], "decide": ["--accept"], "hold": ["--kinds", "raw"], "cohort": ["--kinds", "raw"],
    }  # fmt: skip
    for verb, places in arguments.VERBS.items():
        names = [name.rstrip("*") for name in places.split()]
        values = {name: "[]" if name == "items" else "note:1" for name in names}
        words = [word for name in names for word in (f"--{name}", values[name])]
        params = arguments.parameters(verb, [*words, *must.get(verb, [])])
        assert set(names) <= set(params), verb
    assert arguments.parameters("get", ["--ids", "note:1", "--ids", "raw:2"]) == {"ids": ["note:1", "raw:2"]}


@pytest.mark.parametrize("words", (["note:1", "a text"], ["note", "1", "a text"], ["note:1", "--text", "a text"]))
def test_the_text_of_a_revision_may_stand_behind_its_id(words: list[str]) -> None:
    assert arguments.parameters("revise", words) == {"id": "note:1", "text": "a text"}


def test_a_revision_takes_no_second_text() -> None:
    assert arguments.parameters("revise", ["note:1", "belief"]) == {"id": "note:1", "text": "belief"}
    for words in (["note:1", "a", "b"], ["note:1", "a", "--text", "b"], ["note:1", "belief", "x"]):
        with pytest.raises(Usage, match="too much"):
            arguments.parameters("revise", words)


def test_the_help_of_a_meta_name_has_the_options_of_its_verb(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["help", "meta", "trace"], ["meta", "trace", "--help"]):
        assert entry.main(words) == exits.OK
        told = capsys.readouterr().out
        assert "usage: noctuary meta" in told and "--depth" in told
    assert entry.main(["help", "meta", "nope"]) == exits.USAGE


def test_both_ways_to_ask_what_came_out_of_a_session_name_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    for asked, other in (("session", "session_provenance"), ("session_provenance", "include derived")):
        assert entry.main([asked, "--help"]) == exits.OK
        assert other in " ".join(capsys.readouterr().out.split()[4:])


def test_a_region_of_no_tenant_is_wrong_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["region", "show", "--tenant", "A b", "--state", "/nowhere"]) == exits.USAGE
    assert "a-z 0-9" in capsys.readouterr().err
