"""residue by the verb: what is planted is found with its memory, and after a purge nowhere."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from daemon.asking import Asking
from daemon.cli import searching
from daemon.cli.arguments import Usage
from daemon.refusal import Reason
from journal.log import sealed_key
from journal.masterkey import PLAIN
from tests.daemon.cohorted import refused
from tests.daemon.purged import Purging
from tests.model.opened import OPERATOR

WORD = "zqXcanary7"


@pytest.fixture
def purging(tmp_path: Path) -> Iterator[Purging]:
    opened = Purging(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def look(purging: Purging, pattern: str = WORD) -> dict[str, Any]:
    return purging.read("residue", {"pattern": pattern})


def whose(found: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {(each["part"], each["memory"], each["status"]) for each in found["readable"]}


def planted(purging: Purging) -> str:
    return purging.capture(
        f"said {WORD}", topic=WORD, tags=[WORD], entities=[{"name": WORD, "type": "person"}], speaker=WORD,
        subject=WORD, metadata=Raw(json.dumps({WORD: WORD}).encode()), source={"kind": "url", "id": f"x://{WORD}"},
    )  # fmt: skip


def test_every_part_that_has_it_is_told_until_it_is_purged(purging: Purging) -> None:
    ref = planted(purging)
    purging.do("verify", ref, note=WORD)
    found = look(purging)
    assert found["bytes"] == [] and found["unopenable"] == 0 and found["cut"] is False
    assert {("text", ref, "active"), ("particulars", ref, "active")} <= whose(found)
    assert len(found["readable"]) >= 4  # the entity's name, and the note
    purging.do("forget", ref)
    assert ("text", ref, "forgotten") in whose(look(purging))
    purging.purge(ref)
    found = look(purging)
    assert (found["bytes"], found["readable"]) == ([], [])
    assert found["unopenable"] >= 4


def test_the_case_counts_and_so_does_every_byte(purging: Purging) -> None:
    ref = purging.capture("Grüße, Zoë")
    assert whose(look(purging, "Grüße")) == {("text", ref, "active")}
    assert look(purging, "grüße")["readable"] == [] and look(purging, "Gruesse")["readable"] == []


def test_a_shared_text_is_told_of_whoever_has_it_by_right(purging: Purging) -> None:
    first, second = purging.capture(WORD), purging.capture(WORD)
    purging.purge(first)
    assert whose(look(purging)) == {("text", second, "active")}
    purging.purge(second)
    assert look(purging)["readable"] == []


def test_what_a_key_opens_in_a_free_page_is_told_though_the_memory_reads_as_purged(purging: Purging) -> None:
    """As if a purge had lost a key: the memory is purged, its ciphertext left `sealed`, its key is there."""
    ref = purging.capture(f"{WORD} " + "x" * 5000)
    part = purging.readable(WORD)[0]
    vault = purging.store.vault.raw(0, 1 << 20)
    purging.purge(ref)
    assert look(purging)["readable"] == []
    log = purging.store.log
    log.append([], [], log.state, removed=[sealed_key(part.owner_seq, part.part)])
    slot = slice(4096 + 64 * part.slot, 4096 + 64 * part.slot + 64)
    with purging.store.dir.vault_file.open("r+b") as file:
        file.seek(slot.start)
        file.write(vault[slot])
    assert whose(look(purging)) == {("text", ref, "purged")}


def test_plain_bytes_are_told_by_file_and_offset(purging: Purging) -> None:
    (purging.root / "projections" / "left").write_bytes(b"." * 7 + WORD.encode())
    assert look(purging)["bytes"] == [{"file": "projections/left", "offset": 7}]


def test_nothing_is_written_of_what_was_looked_for(purging: Purging) -> None:
    purging.capture("something else")
    seq = purging.store.log.head().seq
    look(purging)
    assert purging.store.log.head().seq == seq
    purging.close(True)
    for path in purging.root.rglob("*"):
        assert not path.is_file() or WORD.encode() not in path.read_bytes()
    purging._open()


def test_it_ends_when_nobody_wants_it_any_more(purging: Purging) -> None:
    from daemon.reads.residue import residue
    from daemon.wire.erasure_params import ResidueParams

    asking = Asking()
    asking.cancel()
    found = refused(
        Reason.UNAVAILABLE, residue, purging.store, purging.projections, ResidueParams(pattern=WORD), asking
    )
    assert found.data["cancelled"] is True


def test_only_an_operator_asks() -> None:
    from daemon.wire.verbs import VERBS
    from journal.codes import CallerRole

    assert OPERATOR.role in VERBS["residue"].roles == frozenset({CallerRole.OPERATOR})


# --- the command line ------------------------------------------------------------------------------


def test_what_is_looked_for_is_never_an_argument() -> None:
    for words in ([WORD], ["--pattern", WORD], [f"--pattern={WORD}"], ["-", WORD], ["--", WORD]):
        with pytest.raises(Usage) as caught:
            searching.parameters(words)
        assert WORD not in str(caught.value)


@pytest.mark.parametrize(("content", "pattern"), [("a b\n", "a b"), ("a\r\n", "a"), ("a", "a"), ("a\n\n", "a\n")])
def test_one_line_end_is_not_part_of_it(tmp_path: Path, content: str, pattern: str) -> None:
    path = tmp_path / "pattern"
    path.write_bytes(content.encode())
    assert searching.parameters(["--file", os.fspath(path)]) == {"pattern": pattern}
    assert searching.parameters([f"--file={path}"]) == {"pattern": pattern}


def test_without_a_daemon_it_is_the_same(purging: Purging) -> None:
    ref = planted(purging)
    (purging.root / "left").write_bytes(WORD.encode())
    live = look(purging)
    purging.close(True)
    before = sorted((path, path.stat().st_mtime_ns) for path in purging.root.rglob("*"))
    told = searching.residue_offline(purging.root, {"pattern": WORD}, lambda phase, done, of: None, PLAIN)
    assert sorted((path, path.stat().st_mtime_ns) for path in purging.root.rglob("*")) == before
    assert told is not None and told["bytes"] == [{"file": "left", "offset": 0}]
    assert whose(told) == whose(live) and ("text", ref, "active") in whose(told)
    purging._open()
    assert searching.residue_offline(purging.root, {"pattern": WORD}, lambda phase, done, of: None, PLAIN) is None


def test_a_pattern_of_nothing_is_refused(purging: Purging) -> None:
    import noctuary
    from daemon.cli import auditing
    from daemon.wire.erasure_params import ResidueParams

    for pattern in ("", "  \n"):
        with pytest.raises(noctuary.InvalidInput):
            auditing.checked({"pattern": pattern}, ResidueParams)


def test_what_no_memory_owns_is_told_by_its_record(purging: Purging) -> None:
    purging.write("session_open", {"agent": "sleeper", "key": f"{WORD} key"})
    (found,) = purging.read("residue", {"pattern": f"{WORD} key"})["readable"]
    assert (found["type"], found["memory"], found["part"]) == ("session_opened", None, "name")
