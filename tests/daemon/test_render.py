"""People's output: it fits, says the zone once, and names each node once."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from daemon.cli import arguments, entry, render
from daemon.cli.render_text import columns
from tests.daemon.screens import zone

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
    assert text.split("\n")[:2] == ["2 records; 1 finding", "  record_missing at record 3: records 3 to 9 are missing"]


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


def test_at_is_when_it_was_written_and_occurred_stands_beside_it_where_it_is_another_time() -> None:
    year = datetime.now(UTC).year
    row = {"id": "raw:1", "at": f"{year}-06-02T12:00:00.000Z", "text": "x"}
    old = {**row, "occurred_at": "2001-06-02T12:00:00.000Z"}
    now, then = (render.render({"memories": [each]}, "list").split("\n") for each in (row, old))
    assert now[0].split()[:2] == ["AT", "ID"] and now[1].startswith("06-02 ")
    assert then[0].split()[:3] == ["AT", "OCCURRED", "ID"], "with the year of another year"
    assert then[1].startswith("06-02 12:00  2001-06-02 12:00  raw:1")


def test_wide_characters_count_two_columns() -> None:
    row = {"id": "raw:1", "at": AT, "speaker": "長い名前の人です本当に長い", "text": "日本語の文章" * 6, "cut": True}
    lines = render.render({"memories": [row, {**row, "speaker": "x"}]}, "list").split("\n")
    assert columns("日本") == 4 and columns("e\u0301") == 1 and columns("❤\ufe0f") == 2
    assert max(map(columns, lines)) <= 80 and max(map(columns, lines)) > 70
    first, second = (line for line in lines if "raw:1" in line)
    assert columns(first[: first.index("日")]) == columns(second[: second.index("日")])


def test_a_name_that_is_cut_says_so() -> None:
    row = {"id": "raw:1", "at": AT, "speaker": "長い名前の人です本当に長い", "text": "x"}
    assert "長い名前の人で…  x" in render.render({"memories": [row]}, "list")


def test_a_long_text_stands_under_its_row_over_the_whole_width() -> None:
    row = {"id": "raw:1", "at": "2001-01-02T03:04:05.678Z", "speaker": "Mira", "text": "word " * 40}
    lines = render.render({"memories": [row, {**row, "text": "short"}]}, "list").split("\n")
    assert lines[0] == "AT                ID     WHO   TEXT" and lines[1].endswith("raw:1  Mira")
    assert lines[2] == "    " + " ".join(["word"] * 15) and lines[5].endswith("raw:1  Mira  short")


def test_the_zones_of_both_halves_of_a_year_are_said() -> None:
    with zone("Europe/Berlin"):
        rows = [{"id": "raw:1", "at": f"2001-0{month}-02T12:00:00.000Z", "text": "x"} for month in (1, 7, 1)]
        text = render.render({"memories": rows}, "list")
    assert "2001-01-02 13:00" in text and "2001-07-02 14:00" in text
    assert "3 of 3; times are CET (+0100) or CEST (+0200)" in text


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


def test_a_memory_says_what_there_is_and_not_what_is_zero() -> None:
    row = {
        "id": "note:1", "kind": "note", "status": "active", "origin": "derived", "valence": 0.0, "arousal": 0.4,
        "verifications": 0, "actor": {"uid": 7, "role": "agent", "via": "hook"}, "address": {"epoch": 1, "seq": 9},
        "derived_from": ["raw:1", {"kind": "url", "id": "https://x", "resolvable": True}], "topic": None, "tags": [],
    }  # fmt: skip
    assert render.render({"memories": [row], "not_found": ["raw:2"]}, "get").split("\n") == [
        "note:1 active derived",
        "  arousal: 0.4",
        "  actor: agent 7 (hook)",
        "  address: record 9 of epoch 1",
        "  derived_from: raw:1, url:https://x",
        "",
        "not found: raw:2",
    ]


def test_a_session_is_a_page_with_its_turns_under_it() -> None:
    told = {
        "session": "session:1", "agent": "a", "key": "k", "state": "open", "turns": 1, "closed_at": None,
        "sleep": {"eligible": False, "why_not": "session_open"},
        "memories": [{"id": "raw:1", "at": AT, "text": "hello", "role": "user"}], "next_cursor": None, "total": 1,
    }  # fmt: skip
    lines = render.render(told, "session").split("\n")
    assert lines[:6] == [
        "session  session:1", "agent    a", "key      k", "state    open", "turns    1",
        "sleep    not yet: session_open",
    ]  # fmt: skip
    assert lines[-2].endswith("raw:1  user  hello") and lines[-1].startswith("1 of 1; times are")


def test_a_deep_trace_is_set_in_only_so_far() -> None:
    nodes = [
        {"ref": f"note:{n:013}", "origin": "consolidated", "status": "quarantined", "depth": n, "confidence": 0.5}
        for n in range(30)
    ]
    edges = [{"from": nodes[n]["ref"], "to": nodes[n + 1]["ref"], "type": "derived_from"} for n in range(29)]
    told = {"root": nodes[0]["ref"], "nodes": nodes, "edges": edges, "truncated": True}
    lines = render.render(told, "trace").split("\n")
    assert all(columns(line) <= 80 for line in lines) and lines[-1] == "truncated: --depth goes deeper"
    assert sum("note:" in line for line in lines) == 30
