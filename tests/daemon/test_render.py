"""People's output: it fits, says the zone once, and names each node once."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from daemon.cli import arguments, entry, render
from daemon.cli.render_text import columns

AT = "2026-01-02T03:04:05.678Z"


def test_a_list_is_a_table_of_80_columns() -> None:
    row = {"id": "raw:0123456789ABC", "at": AT, "status": "active", "text": "word " * 40, "cut": True}
    text = render.render({"memories": [row, row], "total": 2, "next_cursor": None}, "list")
    assert all(len(line) <= 80 for line in text.split("\n"))
    assert text.count("times are") == 1 and text.startswith("AT")


def test_a_trace_is_a_tree_with_each_node_once() -> None:
    nodes = [
        {"ref": f"note:{n}", "origin": "derived", "status": "active", "depth": d, "confidence": 0.8}
        for n, d in ((1, 0), (2, 1), (3, 1), (4, 2))
    ]
    edges = [{"from": f"note:{a}", "to": f"note:{b}", "type": "source"} for a, b in ((1, 2), (1, 3), (2, 4), (3, 4))]
    text = render.render({"root": "note:1", "nodes": nodes, "edges": edges, "truncated": False}, "trace")
    assert text.split("\n")[0] == "note:1 [80%] derived active"
    assert "    -> source note:4 [80%] derived active" in text and text.count("note:4 [80%]") == 1


@pytest.mark.parametrize("verb", sorted(arguments.VERBS))
def test_help_and_schema_of_each_verb(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main([verb, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: noctuary {verb}")
    assert entry.main(["schema", verb]) == 0
    assert json.loads(capsys.readouterr().out).keys() == {"params", "result"}


def test_an_audit_tells_each_finding() -> None:
    finding = {"code": "record_missing", "seq": 3, "what": "records 3 to 9 are missing", "action": "Restore."}
    text = render.render({"records": 2, "head": None, "digests": {}, "findings": [finding]}, "audit")
    assert text.split("\n")[:2] == ["2 records; 1 findings", "record_missing at 3: records 3 to 9 are missing"]


def test_what_depends_stands_behind_an_arrow_from_it() -> None:
    nodes = [
        {"ref": ref, "origin": "stated", "status": "active", "depth": depth, "confidence": None}
        for ref, depth in (("raw:1", 0), ("note:2", 1), ("note:3", 2))
    ]
    edges = [
        {"from": "note:2", "to": "raw:1", "type": "derived_from"},
        {"from": "note:3", "to": "note:2", "type": "derived_from"},
    ]
    text = render.render({"root": "raw:1", "nodes": nodes, "edges": edges, "truncated": False}, "trace")
    assert text.split("\n")[1:] == [
        "  <- derived_from note:2 stated active",
        "    <- derived_from note:3 stated active",
    ]


def test_a_damaged_memory_is_shown_as_damaged() -> None:
    row = {"id": "raw:1", "kind": "raw", "status": "active", "damaged": True, "what": "record 3", "at": None}
    text = render.render({"memories": [row], "total": 1}, "list")
    assert "(damaged: record 3)" in text and "(active)" not in text


@pytest.mark.parametrize(
    ("row", "who"),
    [
        ({"speaker": "Mira", "role": "user"}, "Mira"),
        ({"role": "user", "speaker": None}, "user"),
        ({"subtype": "finding"}, "finding"),
        ({"subtype": None}, "note"),
    ],
)
def test_who_is_the_speaker_else_the_role_else_the_kind(row: dict[str, str | None], who: str) -> None:
    shown = {"id": "note:1", "kind": "note", "at": AT, "status": "active", "text": "x", **row}
    assert f"note:1  {who}" in render.render({"memories": [shown]}, "list")


def test_at_is_when_it_occurred_with_the_year_of_another_year() -> None:
    year = datetime.now(UTC).year
    row = {"id": "raw:1", "at": f"{year}-06-02T12:00:00.000Z", "text": "x"}
    old = {**row, "occurred_at": "2001-06-02T12:00:00.000Z"}
    now, then = (render.render({"memories": [each]}, "list").split("\n")[1] for each in (row, old))
    assert now.startswith("06-02 ") and then.startswith("2001-06-02 ")


def test_wide_characters_count_two_columns() -> None:
    row = {"id": "raw:1", "at": AT, "speaker": "長い名前の人です本当に長い", "text": "日本語の文章" * 30, "cut": True}
    lines = render.render({"memories": [row, {**row, "speaker": "x"}]}, "list").split("\n")
    assert columns("日本") == 4 and columns("e\u0301") == 1
    assert max(map(columns, lines)) <= 80 and max(map(columns, lines)) > 70
    first, second = (line for line in lines if "raw:1" in line)
    assert columns(first[: first.index("日")]) == columns(second[: second.index("日")])


def test_a_text_keeps_its_lines_and_metadata_is_json() -> None:
    text = "one\n\n    def f():\n\treturn '\x1b'\n" + "word " * 30
    row = {"id": "raw:1", "status": "active", "text": text, "metadata": {"a": [1, None], "b": "é"}}
    lines = render.render({"memories": [row], "not_found": []}, "get").split("\n")
    assert lines[1] == '  metadata: {"a": [1, null], "b": "é"}'
    assert lines[2:7] == ["", "  one", "", "      def f():", "      return '?'"]
    assert all(len(line) <= 80 for line in lines)


def test_many_written_are_told_one_by_one() -> None:
    error = {"code": 1, "message": "m", "data": {"reason": "invalid_input", "parameter": "kind", "index": 1}}
    text = render.render(
        {"results": [{"id": "raw:1", "duplicate": False}, {"index": 1, "error": error}]}, "remember_many"
    )
    assert text.split("\n") == ["@0 raw:1", "@1 refused: invalid_input: kind: m"]


def test_the_direction_of_writing_is_not_turned() -> None:
    assert "\u202e" not in render.render({"memories": [{"id": "raw:1", "at": AT, "text": "a\u202eb"}]}, "list")
