"""The journal that states are held against: that of the end of their era, read once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from journal.environment import Environment
from journal.events import Keyed, MemoryCreated, Purged
from journal.layout import StateDir, read_format
from journal.log import DATABASES, Log
from journal.record import Record


class Command(NamedTuple):
    """The records of one command, both ends included."""

    first_seq: int
    last_seq: int


@dataclass
class Reference:
    """`values` are digests of the stored values, from record 1 on."""

    values: list[bytes] = field(default_factory=list)
    _commands: list[Command] = field(default_factory=list)  # of record 1 on
    _keys: dict[bytes, Command] = field(default_factory=dict)
    _purges: dict[int, Command] = field(default_factory=dict)  # by slot

    def value_digest(self, seq: int) -> bytes | None:
        return self.values[seq - 1] if seq <= len(self.values) else None

    def command_at(self, seq: int) -> Command | None:
        """The command that record `seq` is of; None for no record."""
        return self._commands[seq - 1] if 1 <= seq <= len(self._commands) else None

    def keyed(self, key: bytes) -> Command | None:
        """The command with that keyed hash of an idempotency key."""
        return self._keys.get(key)

    def purge_of(self, slots: Iterable[int]) -> Command | None:
        """The purge that destroyed all those slots."""
        found = {self._purges.get(slot) for slot in slots}
        return found.pop() if len(found) == 1 else None

    def take(self, records: list[Record]) -> None:
        """Take the records of one command in."""
        command = Command(records[0].seq, records[-1].seq)
        for record in records:
            self._commands.append(command)
            event = record.event
            if isinstance(event, MemoryCreated | Keyed) and event.key is not None:
                self._keys[event.key] = command
            if isinstance(event, Purged):
                self._purges.update((part.slot, command) for part in event.parts)


def read_reference(state: Path) -> Reference:
    """The reference in a state directory that nobody has open."""
    directory = StateDir(state)
    env = Environment.open(directory.journal_dir, DATABASES, durable=True, readonly=True)
    found = Reference()
    try:
        log = Log(env, read_format(directory.format_file))
        command: list[Record] = []
        for chunk in log.chunks():
            for record in chunk:
                if command and command[0].cause.first_seq != record.cause.first_seq:
                    found.take(command)
                    command = []
                command.append(record)
        if command:
            found.take(command)
        with env.read() as txn:
            values = (log.raw(txn, seq) or b"" for seq in range(1, log.head().seq + 1))
            found.values = [blake2b(value).digest() for value in values]
    finally:
        env.close()
    return found
