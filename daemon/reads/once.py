"""A question about one memory from several sides: a record that several of them look at is read once."""

from __future__ import annotations

from daemon.reads.reading import Reading
from journal.record import Record


class OnceReading(Reading):
    """Reads as `of` does, and keeps the records that it has read."""

    def __init__(self, of: Reading) -> None:
        vars(self).update(vars(of))
        self._read: dict[int, Record] = {}

    def record_of_any(self, seq: int) -> Record:
        """Record `seq`, of whatever tenant. Raises DamagedRecord, also when it is not there."""
        found = self._read.get(seq)
        if found is None:
            found = self._read[seq] = super().record_of_any(seq)
        return found
