"""Whatever a result holds: its form fits the terminal and writes nothing to it that the terminal would obey."""

from __future__ import annotations

import re
from itertools import cycle
from typing import Any

import pytest

from daemon.cli import render
from daemon.cli.render_text import columns
from daemon.wire.verbs import VERBS
from tests.daemon.screens import HOSTILE, result_of, terminal

OBEYED = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
UNBROKEN = ("more: --cursor ", "--token ")
"""What a person copies stays whole, however long it is."""
ASKED = sorted(VERBS.keys() - {"subscribe"})


def told(verb: str, result: dict[str, Any]) -> list[str]:
    """The form itself: `render` would show as a block what it stumbles over."""
    render.form_of(verb)(result)
    return render.render(result, verb).split("\n")


@pytest.mark.parametrize("wide", [40, 80, 200])
@pytest.mark.parametrize("verb", ASKED)
def test_every_form_fits(verb: str, wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for first in range(len(HOSTILE)):
        texts = cycle((*HOSTILE[first:], *HOSTILE[:first]))
        with terminal(wide, monkeypatch):
            lines = told(verb, result_of(verb, texts))
        shown = [line for line in lines if not line.startswith(UNBROKEN)]
        if verb != "metrics":  # for whoever scrapes
            assert [line for line in shown if columns(line) > wide] == []
        assert not OBEYED.search("".join(lines)), lines


@pytest.mark.parametrize("verb", ASKED)
def test_every_form_takes_empty_lists(verb: str) -> None:
    assert all(columns(line) <= 80 for line in told(verb, result_of(verb, cycle(["x"]), count=0)))


def test_every_verb_but_subscribe_has_a_form_of_its_own() -> None:
    assert set(ASKED) | {"import", "import_frames", "export", "restore", "region", "region_rows"} == set(render.FORMS)


def test_what_is_answered_otherwise_is_told_as_it_came() -> None:
    assert render.render({"odd": "value", "rows": [1, 2]}, "status") == "odd: value\nrows: 1, 2"


def test_a_thousand_rows_are_each_there_and_fit() -> None:
    lines = told("list", result_of("list", cycle(HOSTILE), count=1000))
    assert sum(line.startswith(("07-02", "2001-01-02")) for line in lines) == 1000
    assert all(columns(line) <= 80 for line in lines if not line.startswith(UNBROKEN))


@pytest.mark.parametrize(("told_columns", "used"), [(0, 80), (7, 20), (40, 40), (133, 133)])
def test_a_terminal_is_filled_and_what_is_none_has_80(
    told_columns: int, used: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from daemon.cli.render_text import width

    monkeypatch.delenv("COLUMNS", raising=False)
    assert width() == 80
    with terminal(told_columns, monkeypatch):
        assert width() == used
        monkeypatch.setenv("COLUMNS", "61")
        assert width() == 61
    assert width() == 61, "who hands it on wants it, also of a pipe"
    monkeypatch.setenv("COLUMNS", "no number")
    assert width() == 80
