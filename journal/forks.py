"""Where a journal was continued by a restore: each RESTORED record names the place that it went on from.

Sequence numbers behind that place were given twice, once in each epoch: so a place of an earlier epoch is this
journal's only up to there.
"""

from __future__ import annotations

from collections.abc import Iterable

from journal.events import Restored
from journal.frames import TYPE_OF_TAG, rows_between
from journal.log import Log
from journal.record import decode_value

LOOKED_AT_ONCE = 4096
_TAG = next(tag for tag, event in TYPE_OF_TAG.items() if event is Restored)


def first_own_seq(log: Log) -> int:
    """Before it stand records of the store that this one was imported from: restores among them are not its own."""
    return 1 if log.source is None else log.source.seq + 1


def restores_between(log: Log, first: int, last: int) -> list[Restored]:
    """The restores that these records tell of, in one transaction. Raises DamagedRecord."""
    found: list[Restored] = []
    with log.env.read() as txn:
        for row in rows_between(log, txn, first, last):
            event = decode_value(row.seq, row.value).event if row.outline().tag == _TAG else None
            if isinstance(event, Restored):
                found.append(event)
    return found


def restores(log: Log) -> Iterable[Restored]:
    """Every restore of this store, in order. Raises DamagedRecord. Looks at the outline of every record."""
    last = log.head().seq
    for first in range(first_own_seq(log), last + 1, LOOKED_AT_ONCE):
        yield from restores_between(log, first, min(last, first + LOOKED_AT_ONCE - 1))


def forked_seq(log: Log, epoch: int) -> int | None:
    """The last record that this journal shares with that of an earlier epoch, None when no restore led away from it.

    Raises DamagedRecord.
    """
    return next((each.from_seq for each in restores(log) if each.from_epoch <= epoch < each.epoch), None)
