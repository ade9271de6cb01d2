"""People's output: it fits, says the zone once, and names each node once."""

from __future__ import annotations

import json

import pytest

from daemon.cli import arguments, entry, render

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
