"""Each projection folds from records alone and touches its own databases only, so that it can be folded alone."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from daemon.commands.passes import PassParams
from journal.record import Head, Record
from projections import tables
from projections.fold import EVERY_RECORD, ROOMS, fold_of
from projections.state import Counters, State
from tests.model.opened import OpenedService

NOW_MS = 1_790_000_000_000


class Fenced:
    """An empty snapshot that notes what is looked at."""

    def __init__(self) -> None:
        self.read: set[str] = set()

    def get(self, database: str, key: bytes) -> bytes | None:
        self.read.add(database)
        return None

    def prefix(self, database: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        self.read.add(database)
        return iter(())


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    opened = OpenedService(tmp_path_factory.mktemp("alone") / "state", lambda: NOW_MS)
    try:
        turn = {"kind": "raw", "role": "user", "session": {"agent": "a", "key": "k"}, "idempotency_key": "one"}
        first = opened.write("remember", {**turn, "text": "t", "entities": [{"name": "n", "type": "x"}]})["id"]
        note = {"kind": "note", "origin": "told", "derived_from": [first], "evidence": [first], "text": "t"}
        second = opened.write("remember", {**note, "producer": {"agent": "a"}})["id"]
        opened.write("forget", {"id": first, "idempotency_key": "two"})
        opened.write("recover", {"id": first})
        opened.write("forget", {"id": second})
        session = opened.write("session_open", {"agent": "a", "key": "other"})["session"]
        opened.write("session_close", {"session": session})
        opened.write("session_open", {"agent": "a", "key": "other"})
        opened.write("lifecycle", {"enforce": False})
        (session,) = (row["session"] for row in opened.read("sessions", {})["sessions"] if row["key"] == "k")
        for fact in ("f", "g"):
            turn = opened.write("remember", {"kind": "raw", "role": "user", "session": session, "text": fact})["id"]
            params = msgspec.convert({"session": session, "facts": [{"text": fact, "turns": [turn]}]}, PassParams)
            made = opened.service.commit_pass(params, "default")["notes"][0]
        opened.write("forget", {"id": made})
        opened.write("recover", {"id": made})
        words = {"subject": "s", "predicate": "p", "value": "v"}
        for kind, more in (("fact", {"fact": words}), ("edge", {"edge": "contradicts", "other": first})):
            staged = opened.write("propose", {"proposal_kind": kind, "memory": made, **more})["proposal"]
            opened.write("decide", {"proposal": staged, "accept": True})
        sel = {"ids": [made]}
        token = opened.write("cohort", {"sel": sel, "action": "demote"})["token"]
        opened.write("cohort", {"sel": sel, "action": "demote", "token": token})
        opened.write("hold", {"sel": sel})
        opened.write("purge", {"ids": [first]})
        return [record for chunk in opened.store.log.chunks() for record in chunk]
    finally:
        opened.close(True)


def test_every_projection_has_rooms() -> None:
    assert {*ROOMS, *EVERY_RECORD} == set(tables.PROJECTIONS)


@pytest.mark.parametrize("projection", list(tables.PROJECTIONS))
def test_it_touches_only_what_is_its_own(projection: str, records: list[Record]) -> None:
    snapshot = Fenced()
    state = State(snapshot, Counters(), Head(1, 0, b""))
    fold = fold_of([projection])
    for record in records:
        fold(state, record)
    changed = {database for database, changes in state.finish().items() if changes}
    own = set(tables.PROJECTIONS[projection])
    assert changed and changed <= own
    assert snapshot.read <= own
