"""An audit compares everything as of one moment, can be ended, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from daemon.asking import Asking
from daemon.opening import open_all
from daemon.prepare import UNSET
from daemon.reads.audit import audit
from daemon.refusal import Reason, Refused
from journal.events import TenantBegan
from journal.record import Actor, Cause, Record, encode_body
from journal.store import Store
from projections.rows import seal_row
from projections.store import ProjectionStore

NOW_MS = 1_790_000_000_000
WHOLE = SimpleNamespace(from_seq=UNSET, to_seq=UNSET, rebuild=True, against=UNSET)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[tuple[Store, ProjectionStore]]:
    store, projections, _ = open_all(tmp_path / "state", "test", NOW_MS)
    yield store, projections
    projections.close(True)
    store.close(True)


def write(store: Store) -> None:
    """One record more, in the journal only."""
    seq = store.log.head().seq + 1
    event = TenantBegan(number=seq, name=f"tenant-{seq}")
    record = Record(seq, NOW_MS, 1, Actor(1000, 0, 0), Cause(seq, "remember"), event)
    store.log.append([encode_body(record)], [], store.log.state)


def codes(result: Any) -> list[str]:
    return [finding.code for finding in result.findings]


def test_the_fold_ends_where_the_projections_stand(opened: tuple[Store, ProjectionStore]) -> None:
    store, projections = opened
    write(store)
    projections.catch_up(store.log)
    for _ in range(3):
        write(store)  # in the journal, and not folded yet: as in the midst of a batch
    result = audit(store, projections, WHOLE)
    assert codes(result) == []
    assert result.digests == projections.digests()


def test_digests_are_of_the_record_they_are_given_with(opened: tuple[Store, ProjectionStore]) -> None:
    store, projections = opened
    write(store)
    projections.catch_up(store.log)
    seq, before = projections.digests_at()
    assert seq == projections.head.seq
    write(store)

    def grow() -> None:
        projections.catch_up(store.log)  # a batch is committed while the digests are made

    assert projections.digests_at(_once(grow)) == (seq, before)
    later, after = projections.digests_at()
    assert later == seq + 1 and after != before


def _once(do: Callable[[], object]) -> Callable[[], None]:
    left = [do]

    def step() -> None:
        if left:
            left.pop()()

    return step


def test_projections_that_differ_are_found(opened: tuple[Store, ProjectionStore]) -> None:
    store, projections = opened
    write(store)
    projections.catch_up(store.log)
    with projections.env.write() as txn:
        txn.put(b"?" * 4, seal_row(b"?" * 4, b"not folded from anything"), db=projections.env.db("tenants"))
    assert codes(audit(store, projections, WHOLE)) == ["projection_differs"]


def test_what_differs_and_is_damaged_too_is_told_as_both(opened: tuple[Store, ProjectionStore]) -> None:
    store, projections = opened
    write(store)
    projections.catch_up(store.log)
    with projections.env.write() as txn:
        txn.put(b"?" * 4, b"without its checksum", db=projections.env.db("tenants"))
    assert codes(audit(store, projections, WHOLE)) == ["projection_differs", "projection_damaged"]


@pytest.mark.parametrize("asked", range(1, 6))
def test_an_audit_can_be_ended_at_each_step(opened: tuple[Store, ProjectionStore], asked: int) -> None:
    store, projections = opened
    write(store)
    projections.catch_up(store.log)
    times = iter(range(1, asked + 1))
    with pytest.raises(Refused) as refused:
        audit(store, projections, WHOLE, Asking(lambda: next(times, asked) == asked))
    assert refused.value.reason is Reason.UNAVAILABLE and refused.value.data["retry_after_ms"] > 0
    assert list(store.dir.root.glob("audit*")) == []


def test_an_audit_leaves_nothing_behind_and_two_do_not_meet(opened: tuple[Store, ProjectionStore]) -> None:
    store, projections = opened
    write(store)
    projections.catch_up(store.log)
    found: list[list[str]] = []

    def other() -> None:
        found.append(codes(audit(store, projections, WHOLE)))

    step = _once(other)

    def between() -> bool:
        if any(store.dir.root.glob("audit*")):
            step()
        return False

    assert codes(audit(store, projections, WHOLE, Asking(between))) == []
    assert found == [[]], "the second one ran while the first had its scratch directory"
    assert list(store.dir.root.glob("audit*")) == []


def test_what_a_killed_audit_left_is_removed_at_the_next_opening(tmp_path: Path) -> None:
    root = tmp_path / "state"
    store, projections, _ = open_all(root, "test", NOW_MS)
    left = store.dir.make_audit_dir()
    (left / "data.mdb").write_bytes(b"half folded")
    projections.close(True)
    store.close(True)
    (root / "audit.new").mkdir()  # as it was called once
    store, projections, _ = open_all(root, "test", NOW_MS)
    assert not left.exists() and not (root / "audit.new").exists()
    projections.close(True)
    store.close(True)


def test_damage_beside_the_range_that_was_asked_for_is_a_finding(opened: tuple[Store, ProjectionStore]) -> None:
    store, projections = opened
    for _ in range(4):
        write(store)
    projections.catch_up(store.log)
    store.vault.shred([1])
    with store.env.write() as txn:
        key = (3).to_bytes(8, "big")
        txn.put(key, b"spoilt", db=store.env.db("records"))
    state = store.log.state
    store.log.append([], [], state.__class__(2, state.owner_seq, state.epoch, state.opened_seq))
    range_behind = SimpleNamespace(from_seq=5, to_seq=UNSET, rebuild=False, against=UNSET)
    assert [(each.code, each.seq) for each in audit(store, projections, range_behind).findings] == [
        ("record_damaged", 3)
    ]


def test_a_damaged_head_is_a_finding_and_not_what_was_noted(opened: tuple[Store, ProjectionStore]) -> None:
    store, projections = opened
    for _ in range(2):
        write(store)
    head = store.log.head()
    noted = SimpleNamespace(store=store.store_id.hex(), epoch=1, seq=head.seq, chain=head.chain.hex())
    asked = SimpleNamespace(from_seq=UNSET, to_seq=UNSET, rebuild=False, against=[noted])
    sound = audit(store, projections, asked)
    assert sound.against == ["same"] and sound.head.at is not None
    with store.env.write() as txn:
        txn.put(head.seq.to_bytes(8, "big"), b"spoilt" * 20, db=store.env.db("records"))
    found = audit(store, projections, asked)
    assert codes(found) == ["record_damaged", "head"]
    assert found.against == [f"rewritten at {head.seq}"] and found.head.at is None


@pytest.mark.parametrize(("from_seq", "to_seq", "parameter"), [(99, UNSET, "from_seq"), (3, 2, "to_seq")])
def test_a_range_without_records_is_no_clean_bill(
    opened: tuple[Store, ProjectionStore], from_seq: int, to_seq: Any, parameter: str
) -> None:
    store, projections = opened
    for _ in range(4):
        write(store)
    asked = SimpleNamespace(from_seq=from_seq, to_seq=to_seq, rebuild=False, against=UNSET)
    with pytest.raises(Refused) as refused:
        audit(store, projections, asked)
    assert refused.value.reason is Reason.INVALID_INPUT and refused.value.data["parameter"] == parameter
