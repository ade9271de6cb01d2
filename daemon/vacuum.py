"""vacuum: partitions are gone through in slices, each a write of its own, so that other writes go on between them.

What a slice takes away is looked for here, beside the writer (`vacuum_looking.py`); the writer decides and folds it
(`commands/vacuuming.py`). Whatever ends a vacuum between two slices leaves every row where it can be read, and the next
vacuum of that partition goes on there. Behind the last partition, when all are vacuumed by force, what is left of
destroyed keys is looked for in all records that destroy any; then the projections' file is copied and swapped, when a
good part of it is free and there is room.

Bytes are measured: those of header rows and ciphertexts by looking at what is stored before and after, those of the
files by their length and their free pages. The rows of a partition with something that can't be read are left as
they are from there on, and it is told as not compacted; why one was not is told of each. What is left of destroyed keys
leaves all the same, record by record: where one can't be read, that is told with the first partition.
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
from daemon.commands.vacuuming import Done, Rest, Slice
from daemon.failures import note_damage, refusal_of
from daemon.prepare import UNSET
from daemon.refusal import Reason, Refused
from daemon.vacuum_looking import Destroying, Looking
from daemon.waiting import Job
from daemon.wire import erasure_results as e
from daemon.wire.verbs import VERBS
from journal.codes import Tier
from journal.errors import DamagedRecord
from projections import idempotency, partitions
from projections.partitions import PartitionRow
from projections.rows import DamagedRow
from projections.state import Unchanged

if TYPE_CHECKING:
    from daemon.service import Service

JOB_BYTES = 1 << 20
"""About what a slice adds to journal and projections, copies of pages included."""
PAUSE_S = 0.0005
"""Behind a slice, so that a write which came meanwhile has a commit of its own and need not wait for the next one."""
TRIES = 64
"""How often a slice is looked at anew because the partition had changed."""
RESTLESS_MS = 1000

log = structlog.get_logger("vacuum")


def submit(service: Service, call: Call, write: PreparedWrite) -> None:
    """Go through the partitions that are asked for, then answer. Raises Refused. Not for the writer's thread."""
    if call.rights is not None:
        call.rights.may_write(call.caller, VERBS[call.method], call.params, write.tenant)
    vacuum = Vacuum(service, call, write)
    if vacuum.was_answered():
        vacuum.queue(write)
        return
    if call.params.dry_run:
        service.record_crossing(call.method, call.params, call.caller, (write.tenant,))
        _deliver(service, call, vacuum.run())
        return
    try:
        with service.long_work():
            result = vacuum.run()
    finally:  # a write says itself whose it was; what only counted was a question
        if not vacuum.has_written:
            service.record_crossing(call.method, call.params, call.caller, (write.tenant,))
    if write.keyed is None:
        _deliver(service, call, result)
        return
    vacuum.queue(write._replace(vacuum=Done(msgspec.to_builtins(result))))


def _deliver(service: Service, call: Call, result: e.VacuumResult) -> None:
    """Raises Refused when it is not for the caller any more."""
    if call.rights is not None:
        call.rights.may_be_told(call.caller, VERBS[call.method], call.params)
    service.deliver([(call, result)])


class Restless(Refused):
    """A partition changes faster than it is compacted."""

    def __init__(self) -> None:
        super().__init__(
            Reason.UNAVAILABLE, "the partition changes faster than it is compacted", retry_after_ms=RESTLESS_MS
        )


class Vacuum:
    """One call. `has_written`: whether any of its slices was committed."""

    def __init__(self, service: Service, call: Call, write: PreparedWrite) -> None:
        self._service = service
        self._call = call
        self._write = write
        self._params = call.params
        self._caller: Caller = call.caller
        self._tenant = service.names.tenant_numbers.get(write.tenant, 0)
        self._destroying: Destroying | None = None
        self.has_written = False

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
        rights = self._call.rights  # each slice is written only for who may it then
        job = Job(write, self._caller, correlation, told, JOB_BYTES, monotonic(), rights=rights)
        self._service.writer.submit(job)

    def run(self) -> e.VacuumResult:
        """Raises Refused."""
        chosen = self._chosen()
        results: list[e.CompactionResult] = []
        for done, (number, row) in enumerate(chosen):
            self._call.asking.step("vacuum", done, len(chosen))
            results.append(self._partition(number, row))
        if chosen and self._is_of_all:
            self._collect_rest(chosen[0][0], results)
        if any(result.compacted for result in results):
            reclaimed = vacuum_swap.swap_if_worthwhile(self._service, self._call.asking)
            next(result for result in reversed(results) if result.compacted).file_bytes_reclaimed = reclaimed
        return e.VacuumResult(results=results)

    # --- which ---------------------------------------------------------------------------------------

    @property
    def _is_of_all(self) -> bool:
        """Whether nothing of a destroyed key is to be left behind it."""
        is_narrower = self._params.tier is not UNSET or self._params.partition is not UNSET
        return bool(self._params.force) and not is_narrower and not self._params.dry_run

    def _chosen(self) -> list[tuple[int, PartitionRow]]:
        """The partitions that are meant, by number. Raises Refused (not_found)."""
        numbers = self._service.names.partitions.get(self._tenant, ())
        found = [(number, row) for number in numbers if (row := self._row_or_none(number)) is not None]
        if self._params.tier is not UNSET:
            found = [each for each in found if Tier(each[1].tier).wire == self._params.tier]
        if self._params.partition is not UNSET:
            found = [each for each in found if partitions.name_of(each[1]) == self._params.partition]
            if not found:
                raise Refused(Reason.NOT_FOUND, "no such partition", parameter="partition")
        return found

    def _row_or_none(self, number: int) -> PartitionRow | None:
        """None of one that is being opened just now: names know it before the projections do. Raises Refused."""
        try:
            return self._row(number)
        except LookupError:
            return None

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
            duration_ms=0, compacted=False, reason=self._why_left(row),
        )  # fmt: skip
        if result.reason is None:
            self._compact(number, result)
        result.duration_ms = int((monotonic() - began_s) * 1000)
        return result

    def _why_left(self, row: PartitionRow) -> str | None:
        """Why a partition is only counted, None when it is to be compacted."""
        if self._params.dry_run:
            return "dry_run"
        if row.reached:
            return None  # one that was begun goes on
        if not (row.dead or row.late):
            return "nothing_dead"
        if self._params.force:
            return None
        if row.tier == Tier.EPISODIC and row.accepts:
            return "accepts"
        return None if row.dead and row.ratio >= self._service.moment.vacuum_threshold else "below_threshold"

    def _compact(self, number: int, result: e.CompactionResult) -> None:
        """Slice by slice; what can't be read ends it. Raises Refused when the vacuum is to end."""
        looking = self._looking(number)
        free_before = self._free_bytes()
        bytes_before = 0
        try:
            bytes_before = looking.row_bytes()
            row = self._row(number)
            last = not (row.dead or row.reached)
            while not last:
                last = self._slice(looking, result)
                sleep(PAUSE_S)
            self._collect_late(looking, result)
            result.compacted = True
        except (DamagedRow, DamagedRecord) as error:
            self._left(number, result, self._refused(error))
        except Refused as refused:
            self._left(number, result, refused)
        result.after_count = self._row(number).count
        result.bytes_reclaimed += max(0, bytes_before - looking.row_bytes_or(bytes_before))
        result.reusable_bytes = max(0, self._free_bytes() - free_before)

    def _left(self, number: int, result: e.CompactionResult, refused: Refused) -> None:
        """The others are compacted all the same, where only this one keeps from it. Raises `refused` otherwise."""
        is_its_own = refused.reason is Reason.DAMAGED or isinstance(refused, Restless)
        if self._params.partition is not UNSET or not is_its_own:
            raise refused
        result.reason = "restless" if isinstance(refused, Restless) else "damaged"
        log.warning("not_compacted", partition=number, reason=refused.reason.wire)

    def _slice(self, looking: Looking, result: e.CompactionResult) -> bool:
        """Whether it was the last one. Raises Refused, DamagedRow, DamagedRecord."""
        tries = 0
        while tries < TRIES:
            self._call.asking.check()
            found = looking.slice(self._params.force)
            outcome = self._decided(found)
            if isinstance(found, Rest):
                _add(result, outcome, looking.left_of(found.found))
                continue
            if outcome["again"]:
                tries += 1
                continue
            result.tombstones_removed += outcome["removed"]
            _add(result, outcome, looking.left_of(found.found))
            return bool(outcome["last"])
        raise Restless

    def _collect_late(self, looking: Looking, result: e.CompactionResult) -> None:
        """What was purged after its row had gone, also while this went on. Raises Refused, DamagedRow,
        DamagedRecord."""
        while (found := looking.late(self._params.force)) is not None:
            self._call.asking.check()
            _add(result, self._decided(found), looking.left_of(found.found))
            sleep(PAUSE_S)

    def _collect_rest(self, number: int, results: list[e.CompactionResult]) -> None:
        """What no row leads to; it is told with the first partition. What a record lists that can't be read stays, and
        that is told. Raises Refused."""
        looking = self._looking(number)
        seqs = Destroying(self._service.store).seqs
        at, is_whole = 0, True
        while at < len(seqs):
            self._call.asking.check()
            left = looking.rest(self._tenant, seqs, at)
            for error in left.damaged:
                log.warning("not_collected", reason=self._refused(error).reason.wire)
            at, is_whole = left.at, is_whole and not left.damaged
            if left.rest is not None:
                _add(results[0], self._decided(left.rest), looking.left_of(left.rest.found))
                sleep(PAUSE_S)
        told = next((each for each in results if each.reason in (None, "nothing_dead")), None)
        if not is_whole and told is not None:  # of the others it is told already that something is left
            told.reason = "rest_damaged"

    def _looking(self, number: int) -> Looking:
        service = self._service
        if self._destroying is None:
            self._destroying = Destroying(service.store)
        return Looking(service.store, service.projections, number, self._destroying)

    def _decided(self, found: Slice | Rest) -> dict[str, Any]:
        awaited: Future[dict[str, Any]] = Future()
        self.queue(self._write._replace(keyed=None, vacuum=found), awaited)
        outcome = awaited.result()
        self.has_written |= not outcome["again"]
        return outcome

    def _free_bytes(self) -> int:
        """Of both environments, what is free for what comes."""
        return self._service.store.env.free_bytes() + self._service.projections.env.free_bytes()


def _add(result: e.CompactionResult, outcome: dict[str, Any], less_bytes: int) -> None:
    """Ciphertexts that left with what was just committed."""
    result.ciphertexts_removed += outcome["ciphertexts"]
    result.bytes_reclaimed += less_bytes
