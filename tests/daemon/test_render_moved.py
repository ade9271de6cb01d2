"""What is told of files that came in and stores that were moved."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.cli import render
from tests.daemon.screens import zone

SOURCE = {"store": "ab", "epoch": 1, "seq": 9, "chain": "00"}


@pytest.mark.parametrize(
    ("form", "result", "lines"),
    [
        (
            "import",
            {"recognised": 1, "written": 1, "duplicates": 0, "dangling": [], "skipped": [], "refused": []},
            ["1 item, 1 written"],
        ),
        (
            "import",
            {
                "recognised": 4, "written": 1, "duplicates": 2, "skipped": ["line 9: \x1b nothing"],
                "dangling": [{"where": "line 2", "ref": "t9"}],
                "refused": [
                    {"where": "line 3", "reason": "invalid_input", "message": "no", "parameter": "kind",
                     "allowed": ["a"]}
                ],
            },
            [
                "4 items, 1 written, 2 there already",
                "line 3 refused: invalid_input: kind: no (allowed: a)",
                "line 2 cites t9, which is not in the file",
                "skipped: line 9: ? nothing",
            ],
        ),
        (
            "export",
            {"records": 2, "level": "content", "file": "/x", "head": SOURCE},
            ["2 records at level content in /x"],
        ),
        (
            "export",
            {"records": 1, "tenant": "ada", "level": "sealed", "file": "/x", "head": SOURCE},
            ["1 record of tenant ada at level sealed in /x"],
        ),
        (
            "import_frames",
            {"state": "/s", "store": "cd", "records": 1, "source": SOURCE},
            ["made  store cd of 1 record", "in    /s", "from  store ab, epoch 1, record 9"],
        ),
        (
            "restore",
            {
                "state": "/s", "store": "cd", "epoch": 2, "seq": 12, "chain": "00",
                "from": {**SOURCE, "at": "2001-07-02T03:04:05.678Z"}, "unnamed": 0, "warnings": [],
                "purges": {"applied": 1, "already": 2, "not_found": 3, "foreign": 0},
            },
            [
                "restored  store cd",
                "in        /s",
                "from      epoch 1, record 9, backed up 2001-07-02 05:04:05 CEST",
                "now at    epoch 2, record 12",
                "purges    1 carried out again, 2 known here already, 3 of what isn't here",
            ],
        ),
    ],
)  # fmt: skip
def test_what_was_moved_is_told(form: str, result: dict[str, Any], lines: list[str]) -> None:
    with zone("Europe/Berlin"):
        assert render.render(result, form).split("\n") == lines
