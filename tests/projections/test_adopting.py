"""An opened store that goes on with other files: whoever opens a snapshot just then gets one that has all it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journal import events
from journal.codes import Tier
from journal.record import Actor, Cause, Head, Record
from projections import tables
from projections.fold import apply
from projections.state import State
from projections.store import ProjectionStore

BOOT = b"b" * 16


def commit(store: ProjectionStore, seq: int) -> None:
    with store.snapshot() as snapshot:
        state = State(snapshot, store.counters.copy(), store.head)
        event = events.PartitionOpened(number=seq, tier=int(Tier.SEMANTIC))
        apply(state, Record(seq, 1000 + seq, 1, Actor(1000, 0, 0), Cause(seq, "test"), event))
        changes = state.finish()
    store.commit(changes, state.counters, Head(1, seq, bytes(32)))


class Interrupted(ProjectionStore):
    """Something is done by another thread right behind a look at `when`: once."""

    when = ""
    then: Callable[[], None]

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name == super().__getattribute__("when"):
            self.when = ""
            self.then()
        return found


@pytest.mark.parametrize("when", ["env", "head"])
def test_a_snapshot_has_all_that_its_head_says(tmp_path: Path, when: str) -> None:
    live, fresh = Interrupted.open(tmp_path / "live", BOOT), ProjectionStore.open(tmp_path / "fresh", BOOT)
    assert isinstance(live, Interrupted)
    for seq in range(1, 11):
        commit(live, seq)
        commit(fresh, seq)

    def adopt_and_commit() -> None:
        live.adopt(fresh, list(tables.PROJECTIONS))
        commit(live, 11)

    live.then = adopt_and_commit
    live.when = when
    with live.snapshot() as snapshot:
        assert snapshot.head.seq <= snapshot.watermark_seq()
    assert live.when == "" and live.head.seq == 11
    live.close(False)
