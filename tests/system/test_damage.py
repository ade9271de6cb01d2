"""Every file of a store, damaged in every way: refused and left alone, or told of that memory alone.

The drill `ops/drills/damage.py` does the same at length; what is good and what is bad is said there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from journal.codes import Kind, Part
from journal.events import MemoryCreated
from journal.store import open_store
from journal.vault import SLOT_BYTES, SLOTS_OFFSET
from ops.drills.damage import Case, Damage, files_of
from tests.system.process import DaemonProcess

REPLACED = ("cut_to_nothing", "cut_in_half", "garble", "take_the_other")
MISPLACED = ("make_a_directory", "make_a_link")
PAGES = ("flip", "flip_in_head", "many_flips", "zero_a_page", "garble_a_page", "swap_two_pages", "copy_a_page")


@pytest.fixture(scope="module")
def damage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damage]:
    made = Damage(tmp_path_factory.mktemp("damage"))
    yield made
    made.close()


def run(damage: Damage, base: str, file: str, harm: str, seed: int = 1) -> Case:
    case = damage.run(Case(base, file, harm, seed))
    assert case is not None, "there was nothing to damage in that way"
    assert case.faults == [], str(case)
    return case


@pytest.mark.parametrize("harm", [*REPLACED, *MISPLACED, "remove", "flip"])
@pytest.mark.parametrize("file", ["FORMAT", "journal/data.mdb", "vault"])
def test_a_store_without_what_it_needs_is_refused(damage: Damage, file: str, harm: str) -> None:
    case = run(damage, "clean", file, harm)
    if (file, harm) == ("vault", "cut_in_half"):
        assert case.outcome == "whole", "its second half is keys that nothing was sealed with yet"
    elif harm != "flip" or file == "FORMAT":
        assert case.outcome == "refused", str(case)


@pytest.mark.parametrize("harm", [*REPLACED, *MISPLACED, "cut_a_byte", "flip"])
def test_a_head_file_that_says_nothing_is_refused(damage: Damage, harm: str) -> None:
    case = run(damage, "clean", "head", harm)
    assert case.outcome == ("refused" if harm != "cut_a_byte" else "whole"), str(case)


def test_a_head_file_that_is_missing_costs_nothing(damage: Damage) -> None:
    assert run(damage, "killed", "head", "remove").outcome == "whole"


@pytest.mark.parametrize("harm", [*REPLACED, "remove", "flip"])
def test_the_purges_file_is_made_complete_again(damage: Damage, harm: str) -> None:
    assert run(damage, "clean", "purges", harm).outcome == "whole"


@pytest.mark.parametrize(
    ("base", "file"), [("clean", "journal/lock.mdb"), ("clean", "reserve"), ("killed", "projections/OPEN")]
)
@pytest.mark.parametrize("harm", ["cut_to_nothing", "garble", "remove"])
def test_what_holds_nothing_costs_nothing(damage: Damage, base: str, file: str, harm: str) -> None:
    assert run(damage, base, file, harm).outcome == "whole"


@pytest.mark.parametrize("harm", ["cut_to_nothing", "cut_in_half", "cut_at_a_page", "garble", "remove"])
@pytest.mark.parametrize("base", ["clean", "killed"])
def test_broken_projections_are_folded_anew(damage: Damage, base: str, harm: str) -> None:
    assert run(damage, base, "projections/data.mdb", harm).outcome == "whole"


@pytest.mark.parametrize("harm", PAGES)
@pytest.mark.parametrize("base", ["clean", "bare"])
def test_damaged_pages_of_the_journal_are_never_answered_from(damage: Damage, base: str, harm: str) -> None:
    for seed in range(1, 4):
        damage.run(case := Case(base, "journal/data.mdb", harm, seed))
        assert case.faults == [], str(case)


@pytest.mark.parametrize("harm", ["flip", "zero_a_page", "swap_two_pages"])
def test_damaged_slots_of_the_vault_cost_their_memories(damage: Damage, harm: str) -> None:
    for seed in range(1, 4):
        damage.run(case := Case("clean", "vault", harm, seed))
        assert case.faults == [], str(case)


def spoil(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def sealed_of_a_note(root: Path, part: Part) -> bytes:
    """Nonce and ciphertext of a part of the one note that the store has."""
    store = open_store(root, version="", now_ms=0, readonly=True)
    try:
        made = [each.event for chunk in store.log.chunks() for each in chunk if isinstance(each.event, MemoryCreated)]
        wanted = next(each for event in made if event.kind == Kind.NOTE for each in event.parts if each.part == part)
        with store.env.read() as txn:
            sealed = store.log.sealed(txn, wanted.owner_seq, wanted.part)
    finally:
        store.close(clean=False)
    assert sealed is not None
    return sealed


def test_one_key_that_is_damaged_costs_one_memory(damage: Damage) -> None:
    root = damage.copy_of("clean")
    spoil(root / "vault", SLOTS_OFFSET + 40 * SLOT_BYTES + 20)
    case = Case("clean", "vault", "one slot", 0)
    assert damage.judge(case, root, files_of(root)) == "damaged", str(case)
    assert case.damaged == 1


@pytest.mark.parametrize("part", [Part.TEXT, Part.PARTICULARS])
def test_one_ciphertext_that_is_damaged_costs_one_memory_and_is_found(damage: Damage, part: Part) -> None:
    root = damage.copy_of("clean")
    sealed = sealed_of_a_note(root, part)
    data = root / "journal" / "data.mdb"
    whole = data.read_bytes()
    assert sealed in whole
    data.write_bytes(whole.replace(sealed, sealed[:-1] + bytes([sealed[-1] ^ 1])))
    case = Case("clean", "journal/data.mdb", f"part {part}", 0)
    assert damage.judge(case, root, files_of(root)) == "damaged", str(case)
    assert case.damaged == 1


def test_a_real_daemon_ends_with_65_and_says_what_to_do(stopped: DaemonProcess, damage: Damage) -> None:
    shutil.copytree(damage.copy_of("clean"), stopped.state)
    with (stopped.state / "vault").open("r+b") as vault:
        vault.truncate(4096)
    before = files_of(stopped.state)
    stopped.spawn()
    assert stopped.wait() == 65
    assert "noctuary: vault: it ends at slot" in stopped.logged()
    assert "Restore a backup" in stopped.logged()
    after = files_of(stopped.state)
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} <= {
        "journal/lock.mdb", "projections/lock.mdb"
    }  # fmt: skip
