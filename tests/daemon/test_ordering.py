"""Writes of one connection: one that looks first sees all before it, and those behind it wait."""

from __future__ import annotations

from daemon.caller import Caller
from daemon.hosting import WaitingWrite
from daemon.ordering import Writes
from daemon.wire.request import Request, decode_request
from journal.codes import CallerRole

CALLER = Caller(0, CallerRole.OPERATOR)


def request(verb: str, params: str) -> Request:
    return decode_request(f'{{"jsonrpc":"2.0","id":1,"method":"{verb}","params":{params}}}'.encode())


LOOKS = request("lift", '{"cohort":"cohort:0000000000001"}')
GOES = request("forget", '{"id":"raw:0000000000001"}')


def test_what_looks_waits_for_all_before_it_and_holds_up_all_behind_it() -> None:
    sent: list[int] = []
    writes = Writes(lambda write: sent.append(write.number))
    for each in (GOES, GOES, LOOKS, GOES, LOOKS, GOES):
        writes.put(each, CALLER, 1)
    assert sent == [1, 2]
    writes.settle(2)
    assert (sent, writes.settled) == ([1, 2], 0)
    writes.settle(1)
    assert (sent, writes.settled) == ([1, 2, 3], 2)
    writes.settle(3)
    assert sent == [1, 2, 3, 4]
    writes.settle(4)
    writes.settle(5)
    assert sent == [1, 2, 3, 4, 5, 6]
    assert [write.number for write in writes.drop()] == []


def test_writes_that_are_refused_at_once_do_not_pile_up() -> None:
    """Each answer would send the next one: as deep as there are requests in flight."""
    sent: list[int] = []

    def refuse(write: WaitingWrite) -> None:
        sent.append(write.number)
        if write.number > 1:
            writes.settle(write.number)

    writes = Writes(refuse)
    writes.put(LOOKS, CALLER, 1)
    for _ in range(3000):
        writes.put(GOES, CALLER, 1)
    assert sent == [1]
    writes.settle(1)
    assert len(sent) == writes.settled == 3001


def test_what_was_not_sent_is_dropped_with_its_connection() -> None:
    sent: list[int] = []
    writes = Writes(lambda write: sent.append(write.number))
    for each in (LOOKS, GOES, LOOKS):
        writes.put(each, CALLER, 1)
    assert sent == [1]
    assert [write.number for write in writes.drop()] == [2, 3]
    writes.settle(1)
    assert sent == [1]
