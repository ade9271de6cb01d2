"""Where memories come from, asked on the command line of a real daemon."""

from __future__ import annotations

import json
import subprocess
from typing import Any
from xml.etree import ElementTree

import pytest

from daemon.cli.render_text import columns
from tests.system.process import ENTRY, ROOT, DaemonProcess

Lineage = dict[str, str]


@pytest.fixture
def lineage(daemon: DaemonProcess) -> Lineage:
    """A turn, two notes made from it of which one is forgotten, a belief on both, and its successor; a loose turn."""
    turn = daemon.call("remember", kind="raw", origin="stated", text="t", confidence=0.5)["id"]
    notes = [
        daemon.call("remember", kind="note", origin="inferred", text=f"n{n}", derived_from=[turn])["id"] for n in (1, 2)
    ]
    belief = daemon.call("remember", kind="belief", origin="derived", text="b", derived_from=notes)["id"]
    newer = daemon.call("revise", id=belief, text="b2", origin="derived")["id"]
    daemon.call("forget", id=notes[1])
    return {"turn": turn, "one": notes[0], "two": notes[1], "belief": belief, "newer": newer}


def told(daemon: DaemonProcess, *words: str) -> str:
    done = people(daemon, *words)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.split("\n") if not line.startswith("more: ")]  # a cursor is never broken
    assert all(columns(line) <= 80 for line in lines)
    return done.stdout


def people(daemon: DaemonProcess, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line as people use it."""
    return subprocess.run(
        [*ENTRY, "--socket", str(daemon.socket), *words],
        cwd=ROOT, env=daemon.environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_trace_is_a_tree_that_reads_well(daemon: DaemonProcess, lineage: Lineage) -> None:
    wanted = [
        f"{lineage['newer']} [80%] derived active",
        f"  -> supersedes {lineage['belief']} [80%] derived superseded",
        f"    -> derived_from {lineage['one']} [80%] inferred active",
        f"      -> derived_from {lineage['turn']} [50%] stated active",
        f"    -> derived_from {lineage['two']} [80%] inferred forgotten",
        f"      -> derived_from {lineage['turn']} (above)",
    ]
    for words in (["trace", lineage["newer"]], ["meta", "trace", *lineage["newer"].split(":")]):
        assert told(daemon, *words).rstrip("\n").split("\n") == wanted
    assert told(daemon, "meta", "trace", lineage["newer"], "--depth", "1").endswith("truncated: --depth goes deeper\n")


def test_dependents_of_a_raw_memory_in_both_spellings(daemon: DaemonProcess, lineage: Lineage) -> None:
    for words in ([lineage["turn"]], lineage["turn"].split(":")):
        shown = told(daemon, "meta", "reverse", *words)
        assert all(shown.count(f"{ref} [") == 1 for ref in lineage.values())


def test_a_trace_is_drawn(daemon: DaemonProcess, lineage: Lineage) -> None:
    picture = ElementTree.fromstring(people(daemon, "trace", lineage["newer"], "--format", "svg").stdout)
    shown = {element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert set(lineage.values()) <= shown
    for form, begins in (("mermaid", "flowchart TD\n"), ("dot", "digraph trace {\n")):
        drawn = people(daemon, "trace", f"--format={form}", *lineage["newer"].split(":")).stdout
        assert drawn.startswith(begins) and all(ref in drawn for ref in lineage.values())


def test_the_inbox_and_its_short_names(daemon: DaemonProcess, lineage: Lineage) -> None:
    daemon.call("forget", id=lineage["one"])
    shown = told(daemon, "review")
    assert shown.startswith("SINCE") and "4 of 4" in shown
    assert lineage["turn"] in told(daemon, "meta", "uncertain")
    assert told(daemon, "meta", "uncertain", "--threshold", "0.5") == "nothing to review\n"
    orphans: dict[str, Any] = json.loads(daemon.command("meta", "orphans").stdout)
    found = [(item["what"], item["id"]) for item in orphans["items"]]
    assert found == [("ungrounded", lineage["newer"])], "of two versions the newer one"
    page = told(daemon, "review", "--what", "flags", "--limit", "1")
    cursor = page.partition("more: --cursor ")[2].strip()
    assert lineage["two"] in told(daemon, "review", "--what", "flags", "--cursor", cursor)


def test_verifying_is_told_with_what_it_moved(daemon: DaemonProcess, lineage: Lineage) -> None:
    daemon.call("weaken", id=lineage["turn"], amount=0.5)
    shown = told(daemon, "meta", "verify", *lineage["one"].split(":"), "--note", "looked at")
    assert "confidence 0.8 -> 0.9" in shown and f"strength of {lineage['turn']} 0.5 -> 0.52" in shown


@pytest.mark.parametrize("words", [["trace"], ["meta", "trace"], ["meta", "reverse"], ["meta", "verify"]])
def test_what_is_not_there_exits_1(daemon: DaemonProcess, words: list[str]) -> None:
    done = people(daemon, *words, "raw:0000000000001")
    assert (done.returncode, done.stdout) == (1, "")


def test_a_source_that_does_not_fit_is_told_on_the_command_line(daemon: DaemonProcess, lineage: Lineage) -> None:
    done = people(daemon, "remember", "x", "--kind", "belief", "--origin", "derived", "--derived-from", lineage["turn"])
    assert done.returncode == 4 and lineage["turn"] in done.stderr and "belief" in done.stderr
