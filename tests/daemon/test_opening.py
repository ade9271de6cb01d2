"""What is answered while the projections are folded, and how a fold is ended."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.call import Call
from daemon.caller import Caller
from daemon.front import Front
from daemon.main import VERSION, Stopped
from daemon.moment import Moment
from daemon.opening import open_journal, open_projections, open_served
from daemon.reads.operator import Operator
from daemon.refusal import Reason, Refused
from daemon.service import Service
from daemon.wire.request import Request, decode_request
from journal.codes import CallerRole
from journal.layout import UnsafePath
from journal.store import Store
from projections import tables
from projections.rows import DamagedRow
from projections.store import ProjectionStore
from tests.model.opened import OpenedService

NOW_MS = 1_790_000_000_000
OPERATOR = Caller(uid=0, role=CallerRole.OPERATOR, tenants_read=None, tenants_write=None)
AGENT = Caller(uid=1, role=CallerRole.AGENT)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_journal(tmp_path / "state", VERSION, NOW_MS)
    yield opened
    opened.close(True)


def asked(method: str, params: str = "{}") -> Request:
    return decode_request(f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}'.encode())


def test_an_empty_directory_that_others_may_read_is_closed_and_used(tmp_path: Path) -> None:
    """As a service manager or an operator makes it; one with something in it stays refused."""
    (tmp_path / "state").mkdir(mode=0o755)
    open_journal(tmp_path / "state", VERSION, NOW_MS).close(True)
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    (tmp_path / "other").mkdir(mode=0o755)
    (tmp_path / "other" / "foreign").touch()
    (tmp_path / "other").chmod(0o755)
    with pytest.raises(UnsafePath):
        open_journal(tmp_path / "other", VERSION, NOW_MS)


def test_while_it_folds_only_the_daemon_itself_answers(store: Store) -> None:
    front = Front(Operator(store, VERSION, None))
    front.folding(3, 10)
    hello, head, status = (front.read(verb, asked(verb).params, OPERATOR) for verb in ("hello", "head", "status"))
    assert hello.state == "folding" and hello.store == head.store == store.store_id.hex()
    assert status.recovery.to_seq == 3 and status.health == "ok" and status.warmed == 0.0
    for request in (asked("list"), asked("remember", '{"kind":"raw","text":"t","role":"user"}')):
        with pytest.raises(Refused) as refused:
            if request.verb.writes:
                front.submit(Call(request.verb.name, request.params, OPERATOR, lambda outcome: None))
            else:
                front.read(request.verb.name, request.params, OPERATOR)
        assert refused.value.reason is Reason.UNAVAILABLE
        assert refused.value.data["retry_after_ms"] > 0


def test_once_it_is_folded_everything_is_answered(store: Store) -> None:
    front = Front(Operator(store, VERSION, None))
    projections, recovery = open_projections(store)
    service = Service(store, projections, Moment(lambda: NOW_MS), lambda answers: None)
    front.begin(service, recovery)
    assert front.read("hello", asked("hello").params, OPERATOR).state == "ready"
    assert front.read("list", asked("list").params, OPERATOR).memories == []
    projections.close(True)


def test_a_fold_that_is_ended_leaves_projections_that_can_be_opened(store: Store) -> None:
    def stop(seq: int, to_seq: int) -> None:
        assert (seq, to_seq) == (1, 1)
        raise Stopped

    with pytest.raises(Stopped):
        open_projections(store, stop)
    projections, recovery = open_projections(store)
    assert projections.head.seq == store.log.head().seq and recovery.rebuilt == []
    projections.close(True)


def test_where_what_serves_meets_damage_all_is_folded_anew_once(store: Store) -> None:
    first, _ = open_projections(store)
    first.close(True)
    served: list[int] = []

    def serve(projections: ProjectionStore) -> ProjectionStore:
        served.append(projections.head.seq)
        if len(served) == 1:
            raise DamagedRow(tables.SESSIONS)
        return projections

    projections, recovery = open_served(store, serve)
    assert len(served) == 2
    assert recovery.from_seq == 1 and projections.head.seq == store.log.head().seq
    projections.close(True)

    def never(projections: ProjectionStore) -> None:
        served.append(0)
        raise DamagedRow(tables.SESSIONS)

    with pytest.raises(DamagedRow):
        open_served(store, never)
    assert served[2:] == [0, 0]
    again, _ = open_projections(store)  # nothing is left open
    again.close(True)


def test_an_agent_is_told_nothing_of_the_store_as_a_whole(store: Store) -> None:
    status = Operator(store, VERSION, None).read("status", asked("status").params, AGENT)
    told = (status.map_bytes, status.disk_free_bytes, status.oldest_reader_ms, status.keys_ready)
    assert told == (None, None, None, None)


def test_a_batch_leaves_no_circle_that_keeps_its_read_transactions(tmp_path: Path) -> None:
    """A reader slot is free when its transaction's object is; a circle would keep it until the next collection."""
    opened = OpenedService(tmp_path / "state", lambda: NOW_MS)
    gc.collect()
    gc.disable()
    try:
        for number in range(20):
            opened.write("remember", {"kind": "raw", "text": f"t{number}", "role": "user"})
            opened.read("list", {})
        left = [each for each in gc.get_objects() if type(each).__name__ in ("State", "Admission", "Reading", "View")]
    finally:
        gc.enable()
        opened.close(True)
    assert len(left) <= 4  # those of the last batch, while the writer waits for the next
