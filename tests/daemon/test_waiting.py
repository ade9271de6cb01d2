"""What waits for the writer: whose turn it is, what a batch holds, and how it ends."""

from __future__ import annotations

import threading

from daemon.caller import Caller
from daemon.commands.table import PreparedWrite
from daemon.refusal import Refused
from daemon.waiting import BATCH_BYTES, BATCH_WRITES, Between, Job, Waiting
from journal.codes import CallerRole

WITHIN_S = 20.0


def job(name: str, uid: int = 1, connection: int = 0, size_bytes: int = 1) -> Job:
    caller = Caller(uid, CallerRole.AGENT)
    return Job(PreparedWrite("remember", "t", None), caller, None, name, size_bytes, 0.0, connection)


def taken(waiting: Waiting) -> list[list[str]]:
    """All that waits, batch by batch."""
    batches = []
    while len(waiting):
        first = waiting.take()
        assert isinstance(first, Job)
        batches.append([each.call for each in waiting.gather(first)[0]])
    return batches


def test_one_write_is_in_the_first_batch_whatever_others_have_sent_before() -> None:
    waiting = Waiting()
    for connection in range(4):
        for number in range(BATCH_WRITES):
            waiting.put(job(f"bulk {connection} {number}", uid=1, connection=connection))
    waiting.put(job("alone", uid=2))
    assert "alone" in taken(waiting)[0][:2]


def test_one_write_waits_for_one_large_one_of_each_other_connection() -> None:
    waiting = Waiting()
    for connection in range(3):
        for _ in range(20):
            waiting.put(job("large", connection=connection, size_bytes=BATCH_BYTES))
    waiting.put(job("alone", connection=9))
    assert [batch[0] for batch in taken(waiting)].index("alone") == 3


def test_writes_of_one_connection_keep_their_order() -> None:
    waiting = Waiting()
    for number in range(1000):
        waiting.put(job(str(number), connection=number % 7))
    found = [int(name) for batch in taken(waiting) for name in batch]
    assert sorted(found) == list(range(1000))
    for connection in range(7):
        own = [number for number in found if number % 7 == connection]
        assert own == sorted(own)


def test_work_between_batches_ends_the_batch_that_it_meets() -> None:
    waiting = Waiting()
    waiting.put(job("before"))
    waiting.put(Between(lambda: None))
    waiting.put(job("behind"))
    assert isinstance(waiting.take(), Between)
    assert taken(waiting) == [["before", "behind"]]


def test_nothing_is_taken_behind_the_end_and_what_waits_is_given_back() -> None:
    waiting = Waiting()
    waiting.put(job("first"))
    first = waiting.take()
    assert isinstance(first, Job)
    between = Between(lambda: None)
    waiting.put(job("second"))
    waiting.put(None)
    waiting.put(between)
    waiting.put(job("third"))
    jobs, ends = waiting.gather(first)
    assert ([each.call for each in jobs], ends) == (["first", "second"], True)
    assert waiting.take() is None
    assert [each.call for each in waiting.drain()] == ["third"]
    assert isinstance(between.done.exception(WITHIN_S), Refused)


def test_a_taker_is_woken_by_what_comes() -> None:
    waiting = Waiting()
    found: list[object] = []
    taker = threading.Thread(target=lambda: found.append(waiting.take()))
    taker.start()
    waiting.put(job("late"))
    taker.join(WITHIN_S)
    assert isinstance(found[0], Job) and found[0].call == "late"
