"""vacuum: partitions are gone through in slices, each a write of its own, so that other writes go on between them.

What a slice takes away is looked for here, beside the writer (`vacuum_looking.py`); the writer decides and folds it
(`commands/vacuuming.py`). Whatever ends a vacuum between two slices leaves every row where it can be read, and the next
vacuum of that partition goes on there. Behind the last partition the projections' file is copied and swapped, when a
good part of it is free and there is room.

Bytes are measured: those of header rows and ciphertexts by looking at what is stored before and after, those of the
files by their length and their free pages. A partition with something that can't be read is left as it is from there
on, and told as not compacted.
"""

from __future__ import annotations

from concurrent.futures import Future
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from daemon import vacuum_swap
from daemon.call import Call
from daemon.caller import Caller
from daemon.commands.table import PreparedWrite
from daemon.commands.vacuuming import Done, Slice
from daemon.failures import note_damage, refusal_of
from daemon.prepare import UNSET
from daemon.refusal import Reason, Refused
from daemon.vacuum_looking import Looking
from daemon.waiting import Job
from daemon.wire import erasure_results as e
from journal.codes import Tier
from journal.errors import DamagedRecord
from projections import idempotency, partitions
from projections.partitions import PartitionRow
from projections.rows import DamagedRow
from projections.state import Unchanged

if TYPE_CHECKING:
    from daemon.service import Service

JOB_BYTES = 1 << 20
"""What a slice adds to journal and projections at most, copies of pages included."""
PAUSE_S = 0.0005
"""Behind a slice, so that a write which came meanwhile has a commit of its own and need not wait for the next one."""
TRIES = 64
"""How often a slice is looked at anew because the partition had changed."""

log = structlog.get_logger("vacuum")


def submit(service: Service, call: Call, write: PreparedWrite) -> None:
    """Go through the partitions that are asked for, then answer. Raises Refused. Not for the writer's thread."""
    vacuum = Vacuum(service, call, write)
    if vacuum.was_answered():
        vacuum.queue(write)
        return
    if call.params.dry_run:
        service.record_crossing(call.method, call.params, call.caller, (write.tenant,))
        service.deliver([(call, vacuum.run())])
        return
    with service.long_work():
        result = vacuum.run()
    if write.keyed is None:
        service.deliver([(call, result)])
        return
    vacuum.queue(write._replace(vacuum=Done(msgspec.to_builtins(result))))


class Vacuum:
    """One call."""

    def __init__(self, service: Service, call: Call, write: PreparedWrite) -> None:
        self._service = service
        self._call = call
        self._write = write
        self._params = call.params
        self._caller: Caller = call.caller
        self._tenant = service.names.tenant_numbers.get(write.tenant, 0)

    def was_answered(self) -> bool:
        """Whether this very request was done before: the writer answers it then."""
        keyed = self._write.keyed
        if keyed is None or not self._tenant:
            return False
        with self._service.projections.snapshot() as snapshot:
            state = Unchanged(snapshot, self._service.projections.counters, snapshot.head)
            return idempotency.find(state, self._tenant, keyed.key) is not None

    def queue(self, write: PreparedWrite, call: Any = None) -> None:
        """Have the writer do it; `call` is what is told, else the caller."""
        correlation = None if self._params.correlation is UNSET else self._params.correlation
        told = self._call if call is None else call
        self._service.writer.submit(Job(write, self._caller, correlation, told, JOB_BYTES, monotonic()))

    def run(self) -> e.VacuumResult:
        """Raises Refused."""
        chosen = self._chosen()
        results: list[e.CompactionResult] = []
        for done, (number, row) in enumerate(chosen):
            self._call.asking.step("vacuum", done, len(chosen))
            results.append(self._partition(number, row))
        if any(result.compacted for result in results):
            reclaimed = vacuum_swap.swap_if_worthwhile(self._service, self._call.asking)
            next(result for result in reversed(results) if result.compacted).file_bytes_reclaimed = reclaimed
        return e.VacuumResult(results=results)

    # --- which ---------------------------------------------------------------------------------------

    def _chosen(self) -> list[tuple[int, PartitionRow]]:
        """The partitions that are meant, by number. Raises Refused (not_found)."""
        found = [(number, self._row(number)) for number in self._service.names.partitions.get(self._tenant, ())]
        if self._params.tier is not UNSET:
            found = [each for each in found if Tier(each[1].tier).wire == self._params.tier]
        if self._params.partition is not UNSET:
            found = [each for each in found if partitions.name_of(each[1]) == self._params.partition]
            if not found:
                raise Refused(Reason.NOT_FOUND, "no such partition", parameter="partition")
        return found

    def _row(self, number: int) -> PartitionRow:
        """Raises Refused where it is damaged."""
        try:
            with self._service.projections.snapshot() as snapshot:
                state = Unchanged(snapshot, self._service.projections.counters, snapshot.head)
                return partitions.load(state, number)
        except DamagedRow as error:
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> Refused:
        note_damage(self._service.store, self._service.projections, error)
        return refusal_of("vacuum", error)

    # --- one partition ---------------------------------------------------------------------------------

    def _partition(self, number: int, row: PartitionRow) -> e.CompactionResult:
        began_s = monotonic()
        result = e.CompactionResult(
            partition=partitions.name_of(row), tier=Tier(row.tier).wire, before_count=row.count, after_count=row.count,
            tombstones_removed=0, bytes_reclaimed=0, file_bytes_reclaimed=0, reusable_bytes=0, ciphertexts_removed=0,
            duration_ms=0, compacted=False,
        )  # fmt: skip
        if not self._params.dry_run and self._is_due(row):
            self._compact(number, result)
        result.duration_ms = int((monotonic() - began_s) * 1000)
        return result

    def _is_due(self, row: PartitionRow) -> bool:
        if row.reached:
            return True  # one that was begun goes on
        if not (row.dead or row.late):
            return False
        if self._params.force:
            return True
        is_day_that_accepts = row.tier == Tier.EPISODIC and row.accepts
        return not is_day_that_accepts and row.dead > 0 and row.ratio >= self._service.moment.vacuum_threshold

    def _compact(self, number: int, result: e.CompactionResult) -> None:
        """Slice by slice; what can't be read ends it. Raises Refused when the vacuum is to end."""
        service = self._service
        looking = Looking(service.store, service.projections, number)
        free_before = self._free_bytes()
        bytes_before = 0
        try:
            bytes_before = looking.row_bytes()
            last = False
            while not last:
                last = self._slice(looking, result)
                sleep(PAUSE_S)
            result.compacted = True
        except (DamagedRow, DamagedRecord) as error:
            refused = self._refused(error)
            if self._params.partition is not UNSET:
                raise refused from error
            log.warning("not_compacted", partition=number, reason=refused.reason.wire)
        except Refused as refused:
            if self._params.partition is not UNSET or not self._is_damage(refused):
                raise
            log.warning("not_compacted", partition=number, reason=refused.reason.wire)
        result.after_count = self._row(number).count
        result.bytes_reclaimed += max(0, bytes_before - looking.row_bytes_or(bytes_before))
        result.reusable_bytes = max(0, self._free_bytes() - free_before)

    def _is_damage(self, refused: Refused) -> bool:
        """Whether the writer met something that can't be read; the slice is not there then."""
        if refused.reason is Reason.DAMAGED:
            return True
        is_asked = not self._call.asking.should_stop()
        return refused.reason is Reason.UNAVAILABLE and is_asked and bool(self._service.projections.damaged)

    def _slice(self, looking: Looking, result: e.CompactionResult) -> bool:
        """Whether it was the last one. Raises Refused, DamagedRow, DamagedRecord."""
        for _ in range(TRIES):
            self._call.asking.check()
            found = looking.slice(self._params.force)
            outcome = self._decided(found)
            if outcome["again"]:
                continue
            result.tombstones_removed += outcome["removed"]
            result.ciphertexts_removed += outcome["ciphertexts"]
            result.bytes_reclaimed += looking.left_of(found)
            return bool(outcome["last"])
        raise Refused(Reason.UNAVAILABLE, "the partition changes faster than it is compacted", retry_after_ms=1000)

    def _decided(self, found: Slice) -> dict[str, Any]:
        awaited: Future[dict[str, Any]] = Future()
        self.queue(self._write._replace(keyed=None, vacuum=found), awaited)
        return awaited.result()

    def _free_bytes(self) -> int:
        """Of both environments, what is free for what comes."""
        return self._service.store.env.free_bytes() + self._service.projections.env.free_bytes()
