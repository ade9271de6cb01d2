"""Passes that are killed, the region as a file, and long conversations consolidated over three passes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from projections.columns import PROVENANCE
from projections.region import DUMP_MULTIPLE_ROWS
from tests.daemon.slept import Slept, fact
from tests.system.passing import check, go_on
from tests.system.process import ENTRY, ROOT, DaemonProcess
from tests.system.test_canary import forms

DATA = ROOT.parent / "shared" / "data" / "locomo4.json"
CANARY = "zqXcanary7Yk"


@pytest.fixture
def slept(tmp_path: Path) -> Iterator[Slept]:
    opened = Slept(tmp_path / "state")
    yield opened
    opened.close(True)


def command(*words: str) -> subprocess.CompletedProcess[bytes]:
    """The command line in a process of its own."""
    return subprocess.run([*ENTRY, *words], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, check=False)


# --- crashes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kill_behind", [1, 8, 17])
def test_a_kill_in_the_middle_of_passes_loses_and_doubles_nothing(tmp_path: Path, kill_behind: int) -> None:
    state = tmp_path / "state"
    slept = Slept(state)
    for number in range(31):
        for key in ("one", "two", "three"):
            slept.turn(f"{number}", key)
    slept.close(True)
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.system.passing", str(state)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    acked = 0
    for line in child.stdout:
        assert line.startswith("commit"), f"it came to its end before it was killed: {line}"
        acked += 1
        if acked == kill_behind:
            break
    child.send_signal(signal.SIGKILL)
    acked += sum(line.startswith("commit") for line in child.stdout)
    assert child.wait() == -signal.SIGKILL and acked < 33
    child.stdout.close()
    slept = Slept(state)
    try:
        assert check(slept) >= acked * 2 - 3
        assert slept.rebuilt_alike()
        go_on(slept)
        assert check(slept) == 3 * 21
        assert {row["state"] for key in ("one", "two", "three") for row in slept.rows(key)} == {"live"}
        assert {row["pass"] for key in ("one", "two", "three") for row in slept.rows(key)} == {1}
        assert slept.rebuilt_alike()
    finally:
        slept.close(True)


def test_passes_and_crashes_in_turn_come_to_the_same(slept: Slept) -> None:
    """Every commit is followed by what a killed process leaves."""
    turns = slept.turns(9)
    for place in range(0, 9, 3):
        slept.commit([fact(turns[place], text=str(place))], noise=turns[place + 1 : place + 3], last=place == 6)
        slept.reopen(False)
        check(slept)
    assert [row["state"] for row in slept.rows()] == ["live"] * 3


# --- the region as a file ------------------------------------------------------------------------


def test_a_dump_is_rows_of_72_bytes_that_numpy_reads(slept: Slept, tmp_path: Path) -> None:
    turns = slept.turns(70)
    notes = slept.commit([fact(turn, text=turn) for turn in turns[:60]])["notes"]
    slept.write("forget", {"id": notes[3]})
    slept.commit([fact(*turns[60:], text="the rest")], last=False)
    slept.close(True)
    try:
        out = tmp_path / "region"
        assert command("region", "dump", str(out), "--state", str(slept.root)).returncode == 0
        assert out.stat().st_size == DUMP_MULTIPLE_ROWS * 72 and out.stat().st_mode & 0o777 == 0o600
        rows = np.fromfile(out, PROVENANCE)
        made = rows[rows["source_kind"] != 0]
        assert len(made) == 61 and not rows[61:].view(np.uint8).any()
        assert made["flags"].tolist() == [0, 0, 0, 1, *[0] * 56, 2]
        assert made["first_seq"].tolist() == [*range(1, 61), 61] and made["last_seq"][60] == 70
        assert (made["content_hash_hi"] == 0).all()
        assert command("region", "dump", "-", "--state", str(slept.root)).stdout == out.read_bytes()
        assert command("region", "dump", str(out), "--state", str(slept.root)).returncode == 73, "it exists"
        assert command("region", "dump", str(slept.root / "x"), "--state", str(slept.root)).returncode == 73
        never = command("region", "dump", "-", "--state", str(slept.root), "--tenant", "never")
        assert never.stdout == bytes(DUMP_MULTIPLE_ROWS * 72)
        shown = json.loads(command("region", "show", "--json", "--state", str(slept.root)).stdout)
        assert [row["target"] for row in shown["rows"]][:60] == notes
        assert [row["flags"] for row in shown["rows"]] == ["live"] * 3 + ["tombstone"] + ["live"] * 56 + ["partial"]
    finally:
        slept._open()


def test_it_fits_a_terminal_of_80_columns(slept: Slept) -> None:
    turn = slept.turn("t")
    (note,) = slept.commit([fact(turn)])["notes"]
    slept.write("remember", {"kind": "procedure", "origin": "derived", "text": "p", "derived_from": [note]})
    session = slept.ref()
    slept.close(True)
    try:
        lines = command("region", "show", "--state", str(slept.root)).stdout.decode().splitlines()
        assert len(lines) == 3 and max(map(len, lines)) <= 80
        assert lines[1].endswith(f" {session} 1") and note in lines[1]
        assert lines[2].endswith(f" {note}"), "the source with its kind"
    finally:
        slept._open()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["region"], 2), (["region", "dump"], 2), (["region", "show", "x"], 2), (["region", "dump", "a", "b"], 2),
        (["region", "dump", "-", "--what"], 2), (["region", "show", "--socket", "/nowhere"], 2),
    ],
)  # fmt: skip
def test_wrong_words_are_said_to_be(words: list[str], code: int) -> None:
    assert command(*words).returncode == code


def test_a_store_that_a_daemon_has_open_is_not_read(daemon: DaemonProcess) -> None:
    for what in (["show"], ["dump", "-"]):
        done = command("region", *what, "--state", str(daemon.state))
        assert (done.returncode, done.stdout) == (75, b"")


# --- over the socket -----------------------------------------------------------------------------


def test_a_daemon_explains_and_lists_over_its_socket(slept: Slept, short_dir: Path) -> None:
    turns = slept.turns(3)
    (note,) = slept.commit([fact(turns[0], turns[2], quoted_from=[turns[2]])])["notes"]
    session = slept.ref()
    slept.close(True)
    slept.root.rename(short_dir / "state")
    daemon = DaemonProcess(short_dir)
    try:
        daemon.start()
        told = daemon.call("explain", id=note)
        assert [each["ref"] for each in told["sources"]] == [turns[0], turns[2]] and told["row"]["turn_count"] == 2
        assert daemon.call("session_provenance", session=session)["derived"] == [told["row"]]
        for words in (["explain", note], ["session_provenance", session, "--include-clients"]):
            shown = command(*words, "--socket", str(daemon.socket))
            lines = shown.stdout.decode().splitlines()
            assert shown.returncode == 0 and max(map(len, lines)) <= 80
            assert any("2 of 1-3" in line for line in lines)
        assert daemon.call("session", session=session, include=["passes"])["passes"][0]["facts"] == 1
    finally:
        daemon.close()
        (short_dir / "state").rename(slept.root)
        slept._open()


# --- nothing of a content ------------------------------------------------------------------------


def test_no_row_projection_or_file_holds_a_word_of_a_note(slept: Slept) -> None:
    turns = [slept.turn(f"{CANARY} turn {number}") for number in range(3)]
    made = slept.commit([fact(*turns, text=f"{CANARY} note", tags=[f"{CANARY}tag"], quoted_from=turns[:1])])["notes"]
    source = {"kind": "url", "id": f"{CANARY}url"}
    params = {"kind": "procedure", "origin": "derived", "text": f"{CANARY} way", "derived_from": [made[0], source]}
    slept.write("remember", params)
    assert CANARY in json.dumps(slept.explain(made[0]))
    slept.reopen(True)
    files = [path for path in slept.root.rglob("*") if path.is_file()]
    assert len(files) > 5
    found = [f"{path}: {form!r}" for path in files for form in forms(CANARY) if form in path.read_bytes()]
    assert found == []


# --- LoCoMo --------------------------------------------------------------------------------------


def observed(sample: dict[str, Any]) -> dict[str, list[tuple[str, list[str]]]]:
    """By session: each observation with the turns of that session that it cites, as turn ids."""
    found: dict[str, list[tuple[str, list[str]]]] = defaultdict(list)
    for name, speakers in sample["observation"].items():
        session = name.removesuffix("_observation")
        known = {turn["dia_id"] for turn in sample["conversation"].get(session, ())}
        for facts in speakers.values():
            for text, cited in facts:
                refs = [cited] if isinstance(cited, str) else cited
                own = list(dict.fromkeys(ref for ref in refs if ref in known))
                if own:
                    found[session].append((text, own))
    return found


@pytest.mark.skipif(not DATA.exists(), reason=f"the LoCoMo set isn't at {DATA}: its licence keeps it out")
def test_over_three_passes_every_observation_leads_to_its_turns_and_back(slept: Slept) -> None:
    """A turn is settled once: an observation whose turns are taken already waits for no pass, and is left out."""
    sample = json.loads(DATA.read_text("utf-8"))[0]
    wanted: dict[str, list[tuple[int, str, set[str]]]] = defaultdict(list)
    observations = observed(sample)
    names = [name for name in sample["conversation"] if re.fullmatch(r"session_\d+", name)]
    for name in names:
        spoken, taken = sample["conversation"][name], set()
        for number in (1, 2, 3):
            part = spoken[len(spoken) * (number - 1) // 3 : len(spoken) * number // 3]
            ids = {turn["dia_id"]: slept.turn(turn["text"], name, speaker=turn["speaker"]) for turn in part}
            facts = []
            for text, cited in observations[name]:
                if set(cited) <= set(ids):
                    facts.append(fact(*(ids[ref] for ref in cited), text=text))
                    taken.update(cited)
            if not facts:
                continue
            cited_turns = {turn for each in facts for turn in each["turns"]}
            made = slept.commit(facts, name, noise=[turn for turn in ids.values() if turn not in cited_turns])
            wanted[name] += [(made["pass"], each["text"], set(each["turns"])) for each in facts]
    assert sum(map(len, wanted.values())) > 100
    assert max(each[0] for found in wanted.values() for each in found) == 3
    for name in names:
        rows = slept.rows(name) if name in wanted else []
        told = [(row["pass"], slept.memory(row["id"])["text"]) for row in rows]
        assert told == [each[:2] for each in wanted[name]]
        citing: dict[str, set[str]] = defaultdict(set)
        for row, (_, _, turns) in zip(rows, wanted[name], strict=True):
            trace = slept.read("trace", {"id": row["id"]})
            assert {edge["to"] for edge in trace["edges"]} == turns
            assert [each["ref"] for each in slept.explain(row["id"])["sources"]] == sorted(turns)
            assert row["turn_count"] == len(turns)
            for turn in turns:
                citing[turn].add(row["id"])
        for turn, notes in citing.items():
            trace = slept.read("trace", {"id": turn, "direction": "dependents"})
            assert {edge["from"] for edge in trace["edges"]} == notes
    assert slept.rebuilt_alike()
