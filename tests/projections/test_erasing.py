"""The erasure registry: nothing lacks a row, no row speaks of nothing, and what is to be evicted is."""

from __future__ import annotations

import ast
import base64
import importlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec import Raw

from daemon.prepare import key_hash, pack_name
from daemon.wire.params import EntityIn
from journal.codes import Part
from journal.layout import OLD_VAULT, StateDir
from journal.sealing import keyed_hash
from projections import erasing, tables
from projections.erasing import Erasure, Fate
from projections.header_columns import EVICTIONS, HeaderColumns, Segment
from projections.names import TenantRow
from projections.rows import FLAG_PURGED
from projections.tag_blooms import ANY, NONE, bloom_of
from projections.workingset import WorkingSet, entity_hash, session_hash, text_hash
from tests.daemon.purged import Purging
from tests.test_imports import PACKAGES, ROOT

REGISTRY: dict[str, dict[Any, Erasure]] = {
    "databases": {**erasing.DATABASES}, "working set": {**erasing.WORKING_SET}, "columns": {**erasing.COLUMNS},
    "parts": {**erasing.PARTS}, "files": {**erasing.FILES}, "caches": {**erasing.CACHES},
}  # fmt: skip


# --- nothing lacks a row ---------------------------------------------------------------------------


def test_every_database_of_the_projections_has_a_row() -> None:
    assert set(erasing.DATABASES) == {*tables.DATABASES, tables.META}


def test_every_field_of_the_working_set_has_a_row() -> None:
    assert set(erasing.WORKING_SET) == set(vars(WorkingSet(HeaderColumns())))


def test_every_column_has_a_row_and_a_check() -> None:
    assert set(erasing.COLUMNS) == set(Segment._fields) == set(EVICTIONS)


def test_every_kind_of_part_is_shredded() -> None:
    assert set(erasing.PARTS) == set(Part)
    assert {row.fate for row in erasing.PARTS.values()} == {Fate.SHREDDED}


def test_every_path_of_a_state_directory_has_a_row(tmp_path: Path) -> None:
    assert set(erasing.FILES) == {path.name for path in StateDir(tmp_path).all_paths()} | {OLD_VAULT}


def test_a_store_has_no_other_files(purging: Purging) -> None:
    plant(purging, "canary0")
    purging.reopen(True)
    assert {path.name for path in purging.root.iterdir()} <= set(erasing.FILES)


def test_every_lru_cache_has_a_row() -> None:
    assert set(erasing.CACHES) == set(cached())


def cached() -> Iterator[str]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            module = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.FunctionDef) and any(
                    "lru_cache" in ast.dump(each) for each in node.decorator_list
                ):
                    yield f"{module}:{node.name}"


@pytest.mark.parametrize("table", sorted(REGISTRY))
def test_who_sees_to_it_exists(table: str) -> None:
    for name, row in REGISTRY[table].items():
        assert row.holds, name
        assert bool(row.by) is (row.fate is not Fate.FREE), name
        if row.by:
            module, _, place = row.by.partition(":")
            found: Any = importlib.import_module(module)
            for each in place.split("."):
                found = getattr(found, each)
            assert callable(found), name


def test_the_caches_exist() -> None:
    for name in erasing.CACHES:
        module, _, function = name.partition(":")
        assert hasattr(getattr(importlib.import_module(module), function), "cache_info"), name


# --- what is to go goes ----------------------------------------------------------------------------


@pytest.fixture
def purging(tmp_path: Path) -> Iterator[Purging]:
    opened = Purging(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def plant(purging: Purging, word: str) -> list[str]:
    """Memories of one session with the word in every field that a caller writes freely."""
    session = {"agent": "planter", "key": f"{word} key"}
    purging.write("session_open", {**session, "project": f"{word} project", "subject": f"{word} subject"})
    rich: dict[str, Any] = {
        "kind": "raw", "role": "user", "text": f"{word} text", "session": session, "topic": f"{word} topic",
        "tags": [f"{word} tag"], "entities": [{"name": f"{word} entity", "type": "person"}],
        "speaker": f"{word} speaker",
        "subject": f"{word} subject", "project": f"{word} project", "source_entity": f"{word} source",
        "metadata": Raw(json.dumps({f"{word} name": f"{word} value"}).encode()),
        "facts": [{"subject": f"{word} a", "predicate": f"{word} b", "value": f"{word} c"}],
        "vector": {"model": "m", "values": [0.25]}, "idempotency_key": f"{word} idempotency",
        "derived_from": [{"kind": "url", "id": f"x://{word}/external"}],
    }  # fmt: skip
    first = str(purging.write("remember", rich)["id"])
    note = {"kind": "note", "origin": "inferred", "text": f"{word} note", "derived_from": [first], "session": session}
    second = str(purging.write("remember", note)["id"])
    purging.do("verify", first, note=f"{word} words")
    return [first, second]


def derived(purging: Purging, word: str) -> dict[str, list[bytes]]:
    """By what it was made from, what could be held of a planting: plain, and as each keyed hash that there is."""
    key = purging.store.vault.hash_key
    name = pack_name(EntityIn(name=f"{word} entity", type="person"))
    return {
        "plain": [word.encode()],
        "session": [session_hash(key, "default", "planter", f"{word} key".encode())],
        "entity": [entity_hash(key, "default", name)],
        "text": [text_hash(key, "default", f"{word} {each}".encode()) for each in ("text", "note")],
    }


def leaves(value: Any) -> Iterator[bytes]:
    """Every text and byte string that can be reached."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, str):
        yield value.encode()
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(key)
            yield from leaves(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from leaves(each)
    elif isinstance(value, msgspec.Struct):
        yield from leaves(msgspec.structs.asdict(value))
    elif hasattr(value, "__dict__"):
        yield from leaves(vars(value))


def holding(names: WorkingSet, wanted: dict[str, list[bytes]]) -> dict[str, set[str]]:
    """By field of the working set, what of these it holds."""
    found: dict[str, set[str]] = {}
    for field, value in vars(names).items():
        if field == "columns":
            continue
        held = list(leaves(value))
        for what, each in wanted.items():
            if any(one in leaf for one in each for leaf in held):
                found.setdefault(field, set()).add(what)
    return found


def in_databases(purging: Purging, wanted: dict[str, list[bytes]]) -> set[str]:
    found = set()
    with purging.projections.snapshot() as snapshot:
        for name in tables.DATABASES:
            for key, value in snapshot.prefix(name, b""):
                if any(one in bytes(key) + bytes(value) for each in wanted.values() for one in each):
                    found.add(name)
    return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("warmed", [False, True], ids=["as written", "as warmed"])
def test_what_a_purge_evicts_is_gone_when_it_is_answered(purging: Purging, seed: int, warmed: bool) -> None:
    chance = random.Random(seed)
    words = [f"zq{chance.getrandbits(64):x}" for _ in range(3)]
    refs = {word: plant(purging, word) for word in words}
    if warmed:
        purging.reopen(True)
    content = {"sessions": {"session"}, "entities": {"entity"}, "session_defaults": {"plain"}}
    content |= {} if warmed else {"texts": {"text"}}
    names = purging.service.names
    for word in words:
        assert holding(names, derived(purging, word)) == content, "planted where it can't be found"
        assert in_databases(purging, derived(purging, word)) == set()
    for field in content:
        assert erasing.WORKING_SET[field].fate is Fate.EVICTED
    gone = chance.sample(words, 2)
    for word in gone:
        purging.purge(*refs[word])
    for word in words:
        assert holding(names, derived(purging, word)) == ({} if word in gone else content), word
        assert in_databases(purging, derived(purging, word)) == set()
    purging.reopen(False)
    for word in gone:
        assert holding(purging.service.names, derived(purging, word)) == {}


def test_the_blooms_of_what_is_purged_are_nothing(purging: Purging) -> None:
    refs = plant(purging, "zqone")
    kept = plant(purging, "zqtwo")
    wanted = bloom_of(["zqone tag"])
    assert wanted not in (ANY, NONE)
    assert wanted in blooms(purging)
    purging.purge(*refs)
    assert wanted not in everywhere(purging), "before anybody looks"
    assert wanted not in blooms(purging) and bloom_of(["zqtwo tag"]) in blooms(purging)
    assert purging.status(kept[0]) == "active"


def blooms(purging: Purging) -> set[int]:
    """Of all memories, once they are read in; of purged ones, nothing else is there."""
    columns = purging.service.columns
    deadline = 200
    while columns.warmed() < 1.0 and deadline:
        purging.service._filling._thread.join(0.05)
        deadline -= 1
    columns.settle()
    view = columns.newest
    assert view is not None and columns.warmed() == 1.0
    found: set[int] = set()
    for partition in view.partitions():
        for segment in view.segments(partition):
            purged = segment.rows["flags"] & FLAG_PURGED != 0
            assert (segment.blooms[purged] == NONE).all()
            for at in np.flatnonzero(purged).tolist():
                assert all(holds(segment, at) for _, holds in EVICTIONS.values())
            found |= set(segment.blooms.tolist())
    return found


def everywhere(purging: Purging) -> set[int]:
    """The Blooms in all views that are kept, and in what waits: nothing is brought in by looking here."""
    columns = purging.service.columns
    found = {bloom for batch in columns._waiting for bloom in batch.blooms.values()}
    for view in columns._views:
        for partition in view.partitions():
            found |= {bloom for segment in view.segments(partition) for bloom in segment.blooms.tolist()}
    return found


def test_blooms_that_wait_for_the_first_view_go_too() -> None:
    columns = HeaderColumns()
    columns.begin()
    columns.publish(1, {}, {1: 6, 2: 5})
    columns.publish(2, {}, {1: NONE})
    columns.evict()
    assert [batch.blooms for batch in columns._waiting] == [{2: 5}, {1: NONE}]


def test_what_is_kept_is_only_what_was_asked_for(purging: Purging) -> None:
    """What a blocked text is found by is a keyed hash, and nothing of the text is beside it."""
    refs = plant(purging, "zqkept")
    wanted = derived(purging, "zqkept")
    purging.purge(*refs, block_reingest=True)
    names = purging.service.names
    kept = text_hash(purging.store.vault.hash_key, "default", b"zqkept text")
    assert kept in names.blocked[1]
    assert holding(names, wanted) == {"blocked": {"text"}}
    assert [name for name, row in erasing.WORKING_SET.items() if row.fate is Fate.KEPT] == ["blocked"]


def test_the_hash_of_an_idempotency_key_is_what_idempotency_keeps(purging: Purging) -> None:
    """Retained by contract, and in no other database."""
    plant(purging, "zqkey")
    mark = key_hash(purging.store.vault.hash_key, "default", "zqkey idempotency")
    assert in_databases(purging, {"key": [mark]}) == {tables.IDEMPOTENCY}


def test_a_frame_without_content_shows_nothing_that_a_guess_can_be_tried_on(purging: Purging) -> None:
    purging.purge(*plant(purging, "zqguess"), block_reingest=True)
    frames = json.dumps(purging.read("records", {"types": ["purged"], "level": "skeleton"})["frames"])
    (event,) = [record.event for record in purging.records("Purged")]
    found_by = text_hash(purging.store.vault.hash_key, "default", b"zqguess text")
    guesses = [found_by, *(keyed_hash(event.fingerprint_key, who, b"zqguess text") for who in (b"reingest", b"text"))]
    (body,) = [base64.b64decode(frame["body"]) for frame in json.loads(frames)]
    assert not any(each in body or each.hex() in frames for each in guesses)
    line = purging.store.dir.purges_file.read_text()
    assert event.fingerprints[0].hex() in line and not any(each.hex() in line for each in guesses)


class LookedAt(set[bytes]):
    """Counts what is compared with it; nobody goes through it."""

    looks = 0

    def __contains__(self, found_by: object) -> bool:
        self.looks += 1
        return super().__contains__(found_by)

    def __iter__(self) -> Iterator[bytes]:
        raise AssertionError("it is gone through")


@pytest.mark.parametrize("kept_out", [1, 20_000])
def test_a_look_for_what_may_not_come_again_is_one_however_much_there_is(kept_out: int) -> None:
    names = WorkingSet()
    names.hash_key, names.tenants[1] = bytes(32), TenantRow("default", 1, True)
    blocked = LookedAt(text_hash(names.hash_key, "default", str(number).encode()) for number in range(kept_out))
    names.blocked[1] = blocked
    assert not names.is_blocked(1, b"new") and names.is_blocked(1, b"0") and not names.is_blocked(2, b"0")
    assert blocked.looks == 2
