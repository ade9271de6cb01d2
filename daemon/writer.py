"""The writer: one thread that owns every write transaction.

It takes the prepared writes that wait (at most 512, at most 8 MiB of text), admits them one by one, commits
the journal (fsync), then the projections (no fsync), publishes to the working set, and answers. After a
failed journal commit the outcome is unknown: the callers are told so and the process must end (`failed`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from time import perf_counter
from typing import Any, TypeVar

from daemon.admission import Admission, Content
from daemon.call import Call
from daemon.caller import Caller
from daemon.commands import remember
from daemon.commands.building import Building
from daemon.commands.table import decide
from daemon.counting import Counts
from daemon.decision import Draft
from daemon.failures import log_failure, note_damage, refusal_of
from daemon.leaving import Leaving
from daemon.moment import Moment
from daemon.quotas import Quotas
from daemon.refusal import Reason, Refused
from daemon.room import ALLOWED_WHEN_FULL, fitting
from daemon.view import Numbers, View
from daemon.waiting import Between, Job, Waiting, stopping
from daemon.wire.answer import error_object
from daemon.wire.verbs import VERBS
from journal.errors import StoreIO
from journal.events import Keyed, OperatorCrossed, SealedPart
from journal.record import Actor, Head, Record
from journal.space import SpaceGuard
from journal.store import Store
from journal.tsid import TsidSource
from journal.unsealing import open_sealed
from projections.state import Changes, State
from projections.store import ProjectionStore
from projections.workingset import WorkingSet

QUEUE_WRITES = 65_536

T = TypeVar("T")

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
        counts: Counts | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        self._store = store
        self._projections = projections
        self._names = names
        self._moment = moment
        self._deliver = deliver
        self._space = space
        self._counts = counts or Counts()
        self._quotas = quotas or Quotas()
        self._waiting = Waiting()
        self._tsids = TsidSource(node, projections.counters.tsid)
        self._thread = threading.Thread(target=self._run, name="writer")
        self.leaving = Leaving(moment.now_ms)
        self.failed: BaseException | None = None
        self._taking = threading.Lock()  # a job is queued, or sees that the writer failed: never neither
        self._fold_failure: Exception | None = None
        self._stopping = False
        self._ended = False
        self.beats = 0
        """How often the thread has answered `ask_beat`."""

    def start(self) -> None:
        self._thread.start()

    @property
    def read_only(self) -> bool:
        """Whether the disk is too full for anything but what the reserve is for."""
        return self._space.read_only

    def submit(self, job: Job) -> None:
        """Queue a write. Raises Refused (overloaded) when too many wait."""
        if len(self._waiting) >= QUEUE_WRITES:
            raise Refused(Reason.OVERLOADED, "too many writes wait", retry_after_ms=100)
        with self._taking:
            self._check_takes()
            self._waiting.put(job)

    @property
    def waiting(self) -> int:
        """About how many writes wait."""
        return len(self._waiting)

    def ask_beat(self) -> None:
        """Have the thread count one beat as soon as it takes something again. Returns at once."""
        self._waiting.put(Between(self._beat))

    def _beat(self) -> None:
        self.beats += 1

    def _check_takes(self) -> None:
        if self.failed is not None:
            raise unknown_outcome()
        if self._ended:
            raise stopping()

    def between(self, work: Callable[[], T]) -> T:
        """Have `work` done between two batches, and wait for it. It is to be short: writes wait meanwhile.

        Raises what it raises, and Refused when the writer ends first. Not for the writer's own thread.
        """
        waiting = Between(work)
        with self._taking:
            self._check_takes()
            self._waiting.put(waiting)
        result: T = waiting.done.result()
        return result

    def stop(self) -> None:
        """Let the batch that is under way be answered, turn away what waits, and end the thread."""
        self._stopping = True
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            first = self._waiting.take()
            if first is None or self._stopping:
                self._turn_away(first)
                return
            if isinstance(first, Between):
                first.run()
                continue
            jobs, ends = self._waiting.gather(first)
            batches = deque(_apart(jobs))
            while batches:
                if not self._do(batches.popleft(), batches):
                    return
            if ends:
                self._turn_away(None)
                return

    def _do(self, jobs: list[Job], behind: Iterable[list[Job]]) -> bool:
        """Have one batch written and answered; False when nothing may be written any more, also not those `behind`."""
        try:
            jobs = self._with_room(jobs)
            answers = self._batch(jobs)
        except BaseException as error:
            self._fail(error, [*jobs, *chain.from_iterable(behind)])
            return False
        try:
            self._answer(jobs, answers)
            self._make_ready()
        except BaseException as error:
            self._fail(error, list(chain.from_iterable(behind)))
            return False
        return True

    def _turn_away(self, first: Job | Between | None) -> None:
        """Nothing of what still waits was written."""
        with self._taking:
            self._ended = True
        waiting = self._waiting.drain(first)
        if waiting:
            self._answer(waiting, [(job.call, stopping()) for job in waiting])

    def _answer(self, jobs: Sequence[Job], answers: list[Answer]) -> None:
        """Count, then deliver: who has an answer finds it counted."""
        self._counts.write(jobs, [outcome for _, outcome in answers])
        self._deliver(answers)

    def _with_room(self, jobs: list[Job]) -> list[Job]:
        """Those that the disk has room for; the others are answered."""
        jobs, refused = fitting(self._space, self._projections.env, jobs)
        if refused:
            self._answer([job for job, _ in refused], [(job.call, told) for job, told in refused])
        return jobs

    def _make_ready(self) -> None:
        """Between batches, when nobody waits for an answer: keys ahead of use, room in the map."""
        if self._fold_failure is not None:
            raise self._fold_failure
        self._store.vault.ensure()
        self._store.env.grow_if_needed()

    def _fail(self, error: BaseException, jobs: list[Job]) -> None:
        """Nothing may be written any more: what was in flight has an unknown outcome."""
        with self._taking:
            self.failed = error
        lost = [*jobs, *self._waiting.drain()]
        try:
            self._answer(lost, [(job.call, unknown_outcome()) for job in lost])
        finally:
            log_failure("write_failed", error)

    def _batch(self, jobs: list[Job]) -> list[Answer]:
        """Admit and commit a batch; the answers, in order. Raises StoreIO."""
        answers: list[Answer | None] = [None] * len(jobs)
        broken: dict[int, Refused] = {}
        with self._projections.snapshot() as snapshot, self._store.env.read() as journal_txn:
            while True:
                self.leaving.begin()
                state = State(snapshot, self._projections.counters.copy(), self._store.log.head())
                admission = self._admission(state, journal_txn)
                if self._admit_all(admission, jobs, answers, broken):
                    break
                # Built anew without the write whose fold failed: it costs only itself.
                admission.abandon()
            if not admission.bodies:
                return [answer for answer in answers if answer is not None]
            changes = state.finish()
        self.leaving.remember()
        began_s = perf_counter()
        if any(job.write.to_purge is not None for job in jobs):
            self._destroy(admission, changes, state)
            self._counts.commit(len(jobs), len(admission.bodies), perf_counter() - began_s, 0.0)
            return [answer for answer in answers if answer is not None]
        head = admission.commit()
        committed_s = perf_counter()
        self._names.take_over(admission.pending)
        try:
            self._projections.commit(changes, state.counters, head)
            self._names.folded(head.seq, changes)
        except Exception as error:
            # The writes have happened and are acked; what was folded from them is made anew at the next open.
            self._fold_failure = error
            with suppress(OSError):  # then the watermark stands where it stood: the next open catches up
                self._projections.distrust()
        self._counts.commit(len(jobs), len(admission.bodies), committed_s - began_s, perf_counter() - committed_s)
        return [answer for answer in answers if answer is not None]

    def _destroy(self, admission: Admission, changes: Changes, state: State) -> None:
        """The end of a purge. Nothing of it is answered before all of it is done: whatever fails, the process ends, and
        the next opening finishes it before anything is served."""

        def forget(head: Head) -> None:
            self._projections.commit(changes, state.counters, head)
            self._names.take_over(admission.pending)
            self._names.folded(head.seq, changes)
            self._names.evict()

        admission.destroy(self._store, forget)

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
            self._moment.vacuum_threshold,
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
        caller = _caller_now(job)
        actor = Actor(caller.uid, int(caller.role), int(caller.via))
        if write.verb == "remember_many" and not write.params.atomic and write.keyed is None:
            return {"results": self._admit_items(admission, job, caller, actor)}
        building = Building(admission.view, write.tenant, caller.uid)
        if write.crossed:
            return self._admit_crossing(admission, building, job, actor)
        try:
            result = decide(building, write)
            self._hold_to_quota(building, write.verb)
        except Refused:
            self.leaving.say(admission, write.verb, write.tenant, job.correlation, caller, actor)
            raise
        if not self._may_keep_a_key(building, write.verb):
            return result  # it changed nothing: asked again it is answered alike, key or not
        if not building.drafts:
            self.leaving.say(admission, write.verb, write.tenant, job.correlation, caller, actor)
        self.leaving.note(building, caller, write.verb)
        admission.admit(building, actor, write.verb, job.correlation)
        return result

    def _admit_crossing(self, admission: Admission, building: Building, job: Job, actor: Actor) -> dict[str, Any]:
        """An operator's question. A tenant that never began stays so; no bound of a tenant is held against it."""
        if building.tenant:
            building.add(Draft(OperatorCrossed(job.write.crossed)))
            admission.admit(building, actor, job.write.crossed, job.correlation)
        return {}

    def _may_keep_a_key(self, building: Building, verb: str) -> bool:
        """Whether a command that goes on where room is short, and leaves nothing but its key, may leave that: however
        often it was asked, it would fill what is kept for those that destroy."""
        if verb not in ALLOWED_WHEN_FULL or any(type(draft.event) is not Keyed for draft in building.drafts):
            return True
        view = building.view
        beyond = self._quotas.is_beyond(view.state, building.tenant_name, building.tenant, building.drafts)
        return not beyond and not self._space.read_only

    def _hold_to_quota(self, building: Building, verb: str) -> None:
        """Raises Refused; the numbers that were handed out to the command are free again then."""
        view = building.view
        try:
            self._quotas.check(view.state, building.tenant_name, building.tenant, verb, building.drafts)
        except Refused:
            view.numbers = Numbers(view.state)
            raise

    def _admit_items(self, admission: Admission, job: Job, caller: Caller, actor: Actor) -> list[dict[str, Any]]:
        """Each item a command of its own: one that is refused leaves the others."""
        write = job.write
        results: list[dict[str, Any]] = []
        refs: list[tuple[int, int] | None] = []
        crossed = False
        for index, item in enumerate(write.items):
            try:
                if isinstance(item, Refused):
                    raise item
                building = Building(admission.view, write.tenant, job.caller.uid)
                result = remember.decide(building, item, refs)
                self._hold_to_quota(building, write.verb)
                crossed = crossed or self.leaving.note(building, caller, write.verb)
                admission.admit(building, actor, write.verb, job.correlation)
                refs.append(remember.ref_of(result))
                results.append(result)
            except Refused as refused:
                refused.data["index"] = index
                refs.append(None)
                results.append({"index": index, "error": error_object(refused)})
        if not crossed:
            self.leaving.say(admission, write.verb, write.tenant, job.correlation, caller, actor)
        return results


def _apart(jobs: list[Job]) -> Iterator[list[Job]]:
    """The jobs in their order, each purge in a batch of its own."""
    batch: list[Job] = []
    for job in jobs:
        if job.write.to_purge is None:
            batch.append(job)
            continue
        if batch:
            yield batch
        yield [job]
        batch = []
    if batch:
        yield batch


def _caller_now(job: Job) -> Caller:
    """The configuration may have been read since it was asked. Raises Refused for who may not any more."""
    rights = job.call.rights if isinstance(job.call, Call) else job.rights
    if rights is None:
        return job.caller
    write = job.write
    return rights.may_write(job.caller, VERBS.get(write.verb), write.params, write.tenant)


def unknown_outcome() -> Refused:
    return Refused(
        Reason.UNKNOWN_OUTCOME,
        "the journal could not be written; ask again with the same idempotency key",
    )
