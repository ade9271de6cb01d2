"""The writer: one thread that owns every write transaction.

It takes the prepared writes that wait (at most 512, at most 8 MiB of text), admits them one by one, commits
the journal (fsync), then the projections (no fsync), publishes to the working set, and answers. After a
failed journal commit the outcome is unknown: the callers are told so and the process must end (`failed`).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from daemon.admission import Admission, Content
from daemon.caller import Caller
from daemon.commands.building import Building
from daemon.commands.table import PreparedWrite, decide
from daemon.failures import log_failure, note_damage, refusal_of
from daemon.moment import Moment
from daemon.refusal import Reason, Refused
from daemon.view import View
from journal.errors import StoreIO
from journal.events import SealedPart
from journal.record import Actor, Record
from journal.space import MARGIN_BYTES, Space, SpaceGuard
from journal.store import Store
from journal.tsid import TsidSource
from journal.unsealing import open_sealed
from projections.state import State
from projections.store import ProjectionStore
from projections.workingset import WorkingSet

ALLOWED_WHEN_FULL = frozenset({"forget", "session_close"})
"""What the reserve is kept for: writes that destroy or close, and need next to nothing."""

PAGES_BYTES = 64 << 10
"""A memory changes about fifteen projection tables, each at a place of its own: a page of 4 KiB is copied there."""
SMALL_PAGES_BYTES = 32 << 10
"""What a full disk allows changes eight at most; a whole batch of it fits into the reserve."""

BATCH_WRITES = 512
BATCH_BYTES = 8 << 20
QUEUE_WRITES = 65_536
WAITED_FOR_WRITES = 256
GAP_S = 0.0005
"""Longer than it takes to prepare a write, shorter than a commit."""


class Job(NamedTuple):
    """A prepared write and where its answer goes."""

    write: PreparedWrite
    caller: Caller
    correlation: str | None
    call: Any
    size_bytes: int


Answer = tuple[Any, "dict[str, Any] | Refused"]
Deliver = Callable[[list[Answer]], None]


class Writer:
    """Owns the journal and the projections for writing."""

    def __init__(
        self,
        store: Store,
        projections: ProjectionStore,
        names: WorkingSet,
        moment: Moment,
        deliver: Deliver,
        node: int,
        space: SpaceGuard,
    ) -> None:
        self._store = store
        self._projections = projections
        self._names = names
        self._moment = moment
        self._deliver = deliver
        self._space = space
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._tsids = TsidSource(node, projections.counters.tsid)
        self._thread = threading.Thread(target=self._run, name="writer")
        self.failed: BaseException | None = None
        self._taking = threading.Lock()  # a job is queued, or sees that the writer failed: never neither
        self._fold_failure: Exception | None = None
        self._stopping = False
        self._last_batch = 1

    def start(self) -> None:
        self._thread.start()

    @property
    def read_only(self) -> bool:
        """Whether the disk is too full for anything but what the reserve is for."""
        return self._space.read_only

    def submit(self, job: Job) -> None:
        """Queue a write. Raises Refused (overloaded) when too many wait."""
        if self._queue.qsize() >= QUEUE_WRITES:
            raise Refused(Reason.OVERLOADED, "too many writes wait", retry_after_ms=100)
        with self._taking:
            if self.failed is not None:
                raise unknown_outcome()
            self._queue.put(job)

    def stop(self) -> None:
        """Let the batch that is under way be answered, turn away what waits, and end the thread."""
        self._stopping = True
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            first = self._queue.get()
            if first is None or self._stopping:
                self._turn_away(first)
                return
            jobs, ends = self._gather(first)
            try:
                jobs = self._refuse_when_full(jobs)
                answers = self._batch(jobs)
            except BaseException as error:
                self._fail(error, jobs)
                return
            try:
                self._deliver(answers)
                self._make_ready()
            except BaseException as error:
                self._fail(error, [])
                return
            if ends:
                self._turn_away(None)
                return

    def _turn_away(self, first: Job | None) -> None:
        """Nothing of what still waits was written."""
        waiting = [] if first is None else [first]
        while True:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                break
            if job is not None:
                waiting.append(job)
        if waiting:
            self._deliver([(job.call, _stopping()) for job in waiting])

    def _refuse_when_full(self, jobs: list[Job]) -> list[Job]:
        """Answer those that a full disk refuses; the others. The reserve goes when it is needed."""
        space = self._space.watch()
        refused: list[Answer] = []
        if space.enough:
            space = self._space.room_for(self._needed_bytes(jobs))
            if space.enough:
                return jobs
        else:
            refused = [(job.call, _disk_full(space)) for job in jobs if job.write.verb not in ALLOWED_WHEN_FULL]
            jobs = [job for job in jobs if job.write.verb in ALLOWED_WHEN_FULL]
            space = self._space.make_room(self._needed_bytes(jobs))
        if not space.enough:
            jobs, left = self._fitting(jobs, space.free_bytes)
            refused += left
        if refused:
            self._deliver(refused)
        return jobs

    def _fitting(self, jobs: list[Job], free_bytes: int) -> tuple[list[Job], list[Answer]]:
        """`(those that fit, the refusals of the others)`. What was asked first has more right to the room."""
        for place in range(len(jobs), 0, -16):
            needed_bytes = self._needed_bytes(jobs[:place]) + MARGIN_BYTES
            if needed_bytes <= free_bytes:
                break
        else:
            place = 0
        space = Space(free_bytes, self._needed_bytes(jobs[: place + 1]) + MARGIN_BYTES)
        return jobs[:place], [(job.call, _disk_full(space)) for job in jobs[place:]]

    def _needed_bytes(self, jobs: list[Job]) -> int:
        """What a batch may take at most: its content, and copies of the pages of the projections it changes."""
        pages_bytes = sum(
            SMALL_PAGES_BYTES if job.write.verb in ALLOWED_WHEN_FULL else PAGES_BYTES * max(1, len(job.write.items))
            for job in jobs
        )
        return sum(job.size_bytes for job in jobs) + min(pages_bytes, self._projections.env.used_bytes())

    def _make_ready(self) -> None:
        """Between batches, when nobody waits for an answer: keys ahead of use, room in the map."""
        if self._fold_failure is not None:
            raise self._fold_failure
        self._store.vault.ensure()
        self._store.env.grow_if_needed()

    def _gather(self, first: Job) -> tuple[list[Job], bool]:
        """What waits, up to the bounds of a batch, and whether the writer is to end behind it.

        A commit costs the same for one write as for many. So while writes come closely one behind the other,
        twice as many as last time are waited for; a gap in their coming ends the waiting. One client that waits
        for each answer is never made to wait for others.
        """
        jobs = [first]
        size_bytes = first.size_bytes
        hoped_for = min(self._last_batch * 2, WAITED_FOR_WRITES) if self._last_batch > 1 else 1
        while len(jobs) < BATCH_WRITES and size_bytes < BATCH_BYTES:
            try:
                job = self._queue.get(timeout=GAP_S) if len(jobs) < hoped_for else self._queue.get_nowait()
            except queue.Empty:
                break
            if job is None:
                self._last_batch = len(jobs)
                return jobs, True
            jobs.append(job)
            size_bytes += job.size_bytes
        self._last_batch = len(jobs)
        return jobs, False

    def _fail(self, error: BaseException, jobs: list[Job]) -> None:
        """Nothing may be written any more: what was in flight has an unknown outcome."""
        with self._taking:
            self.failed = error
        answers: list[Answer] = [(job.call, unknown_outcome()) for job in jobs]
        while True:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                break
            if job is not None:
                answers.append((job.call, unknown_outcome()))
        try:
            self._deliver(answers)
        finally:
            log_failure("write_failed", error)

    def _batch(self, jobs: list[Job]) -> list[Answer]:
        """Admit and commit a batch; the answers, in order. Raises StoreIO."""
        answers: list[Answer | None] = [None] * len(jobs)
        broken: dict[int, Refused] = {}
        with self._projections.snapshot() as snapshot, self._store.env.read() as journal_txn:
            while True:
                state = State(snapshot, self._projections.counters.copy(), self._store.log.head())
                admission = self._admission(state, journal_txn)
                if self._admit_all(admission, jobs, answers, broken):
                    break
                # Built anew without the write whose fold failed: it costs only itself.
                admission.abandon()
            if not admission.bodies:
                return [answer for answer in answers if answer is not None]
            changes = state.finish()
        head = admission.commit()
        self._names.take_over(admission.pending)
        try:
            self._projections.commit(changes, state.counters, head)
        except Exception as error:
            # The writes have happened and are acked; what was folded from them is made anew at the next open.
            self._fold_failure = error
            with suppress(OSError):  # then the watermark stands where it stood: the next open catches up
                self._projections.distrust()
        return [answer for answer in answers if answer is not None]

    def _admission(self, state: State, journal_txn: Any) -> Admission:
        log = self._store.log
        pending = WorkingSet()
        content = Content()

        def record(seq: int) -> Record | None:
            return content.records.get(seq) or log.get(journal_txn, seq)

        def unseal(part: SealedPart) -> bytes:
            sealed = content.ciphertexts.get((part.owner_seq, part.part))
            if sealed is None:
                sealed = log.sealed(journal_txn, part.owner_seq, part.part)
            return open_sealed(self._store.sealer, part, sealed)

        view = View(
            state, self._names, pending, self._tsids, self._moment.now_ms(),
            record, unseal, self._moment.zone_name, self._moment.local_day,
        )  # fmt: skip
        return Admission(self._store, state, view, pending, content)

    def _admit_all(
        self, admission: Admission, jobs: list[Job], answers: list[Answer | None], broken: dict[int, Refused]
    ) -> bool:
        """Admit every job; False when the fold of one failed, which then stands in `broken`."""
        for index, job in enumerate(jobs):
            if index in broken:
                answers[index] = (job.call, broken[index])
                continue
            try:
                answers[index] = (job.call, self._admit(admission, job))
            except Refused as refused:
                answers[index] = (job.call, refused)
            except StoreIO:
                raise  # keys could not be written ahead: nothing may be written any more
            except Exception as error:  # before the commit nothing of it stands anywhere: it costs only itself
                broken[index] = self._unfolded(job.write.verb, error)
                return False
        return True

    def _unfolded(self, verb: str, error: Exception) -> Refused:
        """What the caller is told of a write whose deciding or folding failed."""
        note_damage(self._store, self._projections, error)
        return refusal_of(verb, error)

    def _admit(self, admission: Admission, job: Job) -> dict[str, Any]:
        write = job.write
        caller = job.caller
        actor = Actor(caller.uid, int(caller.role), int(caller.via))
        if write.verb == "remember_many" and not write.params.atomic and write.keyed is None:
            return {"results": self._admit_items(admission, job, actor)}
        building = Building(admission.view, write.tenant, caller.uid)
        result = decide(building, write)
        admission.admit(building, actor, write.verb, job.correlation)
        return result

    def _admit_items(self, admission: Admission, job: Job, actor: Actor) -> list[dict[str, Any]]:
        """Each item a command of its own: one that is refused leaves the others."""
        from daemon.commands import remember

        write = job.write
        results: list[dict[str, Any]] = []
        refs: list[tuple[int, int] | None] = []
        for index, item in enumerate(write.items):
            try:
                if isinstance(item, Refused):
                    raise item
                building = Building(admission.view, write.tenant, job.caller.uid)
                result = remember.decide(building, item, refs)
                admission.admit(building, actor, write.verb, job.correlation)
                refs.append(remember.ref_of(result))
                results.append(result)
            except Refused as refused:
                refused.data["index"] = index
                refs.append(None)
                results.append({"index": index, "error": error_data(refused)})
        return results


def error_data(refused: Refused) -> dict[str, Any]:
    """A refusal as it stands in the result of one item."""
    return {
        "code": refused.reason.code,
        "message": refused.message,
        "data": {
            "reason": refused.reason.wire,
            "retryable": refused.reason.retryable,
            **refused.data,
        },
    }


def _disk_full(space: Space) -> Refused:
    return Refused(
        Reason.READ_ONLY,
        "the disk is too full to write",
        free_bytes=space.free_bytes,
        needed_bytes=space.needed_bytes,
        retry_after_ms=1000,
    )


def _stopping() -> Refused:
    return Refused(Reason.UNAVAILABLE, "the daemon stops; this was not written", retry_after_ms=1000)


def unknown_outcome() -> Refused:
    return Refused(
        Reason.UNKNOWN_OUTCOME,
        "the journal could not be written; ask again with the same idempotency key",
    )
