"""A service whose partitions are filled, thinned and compacted by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from daemon.moment import Moment
from daemon.service import Service
from journal import events
from journal.log import sealed_key
from journal.record import Record
from journal.tsid import parse_memory_ref
from journal.vault import SlotState
from projections import partitions, removed
from projections.columns import HEADER
from projections.partitions import PartitionRow
from projections.rows import NO_ROW, MemoryRow
from projections.vacuumed import header_rows
from tests.daemon.slept import Slept
from tests.model.opened import OpenedService


def ciphertexts(opened: OpenedService) -> set[bytes]:
    """The keys of all that lie in the journal."""
    env = opened.store.env
    with env.read() as txn, txn.cursor(db=env.db("sealed")) as cursor:
        return {bytes(key) for key, _ in cursor}


def shredded_left(opened: OpenedService) -> set[bytes]:
    """The keys of ciphertexts in the journal whose key in the vault is destroyed."""
    owned = {
        sealed_key(part.owner_seq, part.part): part.slot
        for chunk in opened.store.log.chunks()
        for record in chunk
        for part in getattr(record.event, "parts", ())
        if part.owner_seq == record.seq
    }
    vault = opened.store.vault
    return {key for key in ciphertexts(opened) if vault.state(owned[key]) is SlotState.SHREDDED}


class Filled(Slept):
    """`zone` and `threshold` are those that partitions follow; both may change where it is opened again."""

    def __init__(self, root: Path, zone: str = "UTC", threshold: float = 0.2) -> None:
        self.zone, self.threshold = zone, threshold
        super().__init__(root)

    def _open(self) -> None:
        super()._open()
        self.service.stop()
        moment = Moment(lambda: self.now_ms, self.zone, self.threshold)
        self.service = Service(self.store, self.projections, moment, self._deliver)
        self.service.start()

    def notes(self, count: int, **more: Any) -> list[str]:
        """Semantic memories, in one partition without days."""
        made: list[str] = []
        self.write("lifecycle", {"enforce": False})  # what they are made from is no matter here
        for first in range(0, count, 500):
            self.now_ms += 1
            items = [
                {"kind": "note", "origin": "seeded", "text": f"note {self.now_ms} {number}", **more}
                for number in range(first, min(count, first + 500))
            ]
            made += [each["id"] for each in self.write("remember_many", {"items": items})["results"]]
        return made

    def forget(self, *refs: str) -> None:
        for ref in refs:
            self.now_ms += 1
            self.write("forget", {"id": ref})

    def purge(self, *refs: str) -> None:
        self.now_ms += 1
        self.write("purge", {"ids": list(refs)})

    def listed(self, **more: Any) -> dict[str, dict[str, Any]]:
        """What `partitions` answers, by name."""
        return {row["partition"]: row for row in self.read("partitions", more)["results"]}

    def states(self) -> dict[str, str]:
        return {name: row["state"] for name, row in self.listed().items()}

    def vacuum(self, **more: Any) -> dict[str, dict[str, Any]]:
        """What `vacuum` answers, by name."""
        return {row["partition"]: row for row in self.write("vacuum", more)["results"]}

    def day_over(self, days: int = 1) -> None:
        self.now_ms += days * 86_400_000
        self.service.roll_over()

    def partition(self, number: int) -> PartitionRow:
        return partitions.load(self.state(), number)

    def memory_row(self, ref: str) -> MemoryRow:
        row = self.state().memory(parse_memory_ref(ref)[1])
        assert row is not None
        return row

    def written(self, *types: type) -> list[Record]:
        return [
            record
            for chunk in self.store.log.chunks()
            for record in chunk
            if isinstance(record.event, types)
        ]  # fmt: skip

    def changes(self) -> list[tuple[int, int, int]]:
        """(partition, state before, state after) of every change that was recorded."""
        found = (record.event for record in self.written(events.PartitionChanged))
        return [(each.number, each.old, each.new) for each in found if isinstance(each, events.PartitionChanged)]

    def check_rows(self) -> None:
        """Every header row names a memory that lies there, every memory has one or had it taken, and all is counted."""
        state = self.state()
        for number in self.service.names.partitions.get(1, ()):
            row = partitions.load(state, number)
            columns = header_rows(state, number, 0, row.rows)
            live = columns["tsid"][columns["tsid"] != 0]
            assert len(live) == row.count and len(set(live.tolist())) == row.count
            for offset, tsid in enumerate(columns["tsid"].tolist()):
                memory = state.memory(tsid) if tsid else None
                assert not tsid or (memory is not None and (memory.partition, memory.offset) == (number, offset))
            dead = [tsid for tsid in live.tolist() if (found := state.memory(tsid)) is not None and found.dead]
            assert len(dead) == row.dead
            taken = dict(removed.of_partition(state, number))
            for tsid, content in taken.items():
                memory = state.memory(tsid)
                assert memory is not None and memory.offset == NO_ROW and memory.dead
                assert np.frombuffer(content, HEADER)[0]["tsid"] == tsid
            late = list(removed.late_of(state, number))
            assert len(late) == row.late and taken.keys() >= set(late)
            for tsid in late:
                memory = state.memory(tsid)
                assert memory is not None and memory.status.wire == "purged"
