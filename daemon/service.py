"""The service: what every front of the daemon calls. Writes go to the writer, reads are answered here.

A verb reaches its code through this one place, whether it came over the socket or from a test.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import Any

import msgspec

from daemon import backup, feed, looking, rebuilding, vacuum
from daemon.asking import Asking, Tell
from daemon.call import Call, Deliver
from daemon.caller import Caller
from daemon.commands.partitions import ROLL_OVER, is_due
from daemon.commands.passes import PassParams
from daemon.commands.table import CROSSED, PreparedWrite, prepare, prepare_pass, prepare_resolvable
from daemon.counting import Counts
from daemon.crossing import Crossed, Crossings
from daemon.failures import log_failure, log_unavailable, note_damage, refusal_of
from daemon.forks import Forks
from daemon.moment import Moment
from daemon.prepare import UNSET, invalid
from daemon.purge_looking import acts_at_once
from daemon.quotas import Quotas
from daemon.reads import (
    audit,
    cohorts,
    explaining,
    history,
    holds,
    lineage,
    listing,
    memories,
    partitions,
    proposals,
    provenance,
    purges,
    records,
    residue,
    review,
    sessions,
)
from daemon.reads.holdings import holdings
from daemon.reads.reading import Met, NotBrief, Reading, reading
from daemon.refusal import Reason, Refused
from daemon.waiting import Job
from daemon.wire.audit_results import TenantHoldings
from daemon.wire.verbs import VERBS
from daemon.writer import Writer
from journal.codes import CallerRole, Via
from journal.errors import DamagedRecord, PartUnreadable
from journal.space import SpaceGuard
from journal.store import Store
from journal.verify import Finding
from projections.filling import Filling
from projections.header_columns import HeaderColumns
from projections.rows import DamagedRow
from projections.state import State
from projections.store import ProjectionStore
from projections.warming import Step, nothing, warm
from projections.workingset import WorkingSet

BYTES_A_MEMORY = 8192
"""Its record, rows, vault slots, and what its parts leave free of their last pages."""

_READS: dict[str, Callable[[Reading, Any], msgspec.Struct]] = {
    "get": memories.get,
    "list": listing.list_memories,
    "trace": lineage.trace,
    "sessions": sessions.session_list,
    "session": sessions.session,
    "history": history.history,
    "explain": explaining.explain,
    "session_provenance": provenance.session_provenance,
    "review": review.review,
    "proposals": proposals.proposal_list,
    "cohorts": cohorts.cohort_list,
    "purges": purges.purge_list,
    "holds": holds.hold_list,
    "partitions": partitions.partition_list,
}


class Service:
    """One opened store, serving. `start` begins the writer, `stop` answers all that waits."""

    def __init__(
        self, store: Store, projections: ProjectionStore, moment: Moment, deliver: Deliver, node: int = 0,
        space: SpaceGuard | None = None, counts: Counts | None = None, quotas: Quotas | None = None,
        step: Step = nothing,
    ) -> None:  # fmt: skip
        self.store = store
        self.projections = projections
        self.moment = moment
        self.deliver = deliver
        self._ending = threading.Event()
        self._long_work = threading.Lock()
        self.columns = HeaderColumns()
        self.names = WorkingSet(self.columns)
        self.forks = Forks(store.log)
        warm(self.names, store, projections, moment.now_ms(), step)
        self._filling = Filling(self.columns, store, projections, partial(log_failure, "filling_failed"))
        self.space = space or SpaceGuard(store.dir.root, store.dir.reserve_file)
        self.space.watch()
        self.counts = counts or Counts()
        self.quotas = quotas or Quotas()
        self.writer = Writer(
            store, projections, self.names, moment, self._answer, node, self.space, self.counts, self.quotas
        )
        self.crossings = Crossings(lambda name: bool(self.names.tenant_numbers.get(name)), self._commit_crossing)
        self.writer.leaving.crossings = self.crossings

    def start(self) -> None:
        self.writer.start()
        self._filling.start()

    def end_long_reads(self) -> None:
        """The daemon stops: what is being read (an audit, a list) is to end at its next step, as `unavailable`."""
        self._ending.set()

    def stop(self) -> None:
        self._filling.end()
        self.writer.stop()
        self.space.make_room(0)  # for the head file of a clean end

    def submit(self, call: Call) -> None:
        """Prepare a write and queue it; one that looks first does so here. Raises Refused for what is refused before it
        is queued."""
        params = call.params
        tenant = tenant_of(params, call.caller, writes=True)
        write = prepare(call.method, params, tenant, call.caller, self.store.vault.hash_key)
        if call.method == "vacuum":
            vacuum.submit(self, call, write)
            return
        if VERBS[call.method].looks:
            submit = looking.submit_at_once if acts_at_once(call.method, params) else looking.submit
            submit(self, call, write, _size_bytes(write, call.line_bytes))
            return
        correlation = None if params.correlation is UNSET else params.correlation
        size_bytes = _size_bytes(write, call.line_bytes)
        self.writer.submit(Job(write, call.caller, correlation, call, size_bytes, monotonic(), call.connection))

    def commit_pass(self, params: PassParams, tenant: str) -> dict[str, Any]:
        """Have one commit of a pass written, and wait for it. Not for the writer's own thread. Raises Refused."""
        write = prepare_pass(params, tenant, self.store.vault.hash_key)
        return self._await(write, sum(2 * len(fact.text) + BYTES_A_MEMORY for fact in write.params.facts))

    def roll_over(self) -> None:
        """Have the day partitions sealed whose day is over, and changed what is due. What keeps it from one tenant is
        raised when the others are done. Not for the writer's own thread. Raises Refused."""
        today = self.moment.local_day(self.moment.now_ms())
        days = list(self.names.open_partitions.items())
        tenants = {tenant for (tenant, _), (number, day) in days if number and day is not None and day < today}
        tenants.update(self._with_changes_due())
        first: Refused | None = None
        for tenant in sorted(tenants):
            try:
                self._await(PreparedWrite(ROLL_OVER, self.names.tenants[tenant].name, None), 0)
            except Refused as refused:
                first = first or refused
        if first is not None:
            raise first

    def _with_changes_due(self) -> Iterator[int]:
        """The tenants with a partition that is to be changed, or that is damaged: the writer says so then."""
        threshold = self.moment.vacuum_threshold
        with self.projections.snapshot() as snapshot:
            state = State(snapshot, self.projections.counters, snapshot.head)
            for tenant, numbers in list(self.names.partitions.items()):
                try:
                    due = any(is_due(state, number, threshold) for number in numbers)
                except DamagedRow as error:
                    note_damage(self.store, self.projections, error)
                    due = True
                if due:
                    yield tenant

    def set_resolvable(self, memory: str, index: int, resolvable: bool, tenant: str) -> dict[str, Any]:
        """Have it written that the external source at `index` of a memory can, or can't, be followed now; whether that
        changed anything is `changed`. Not for the writer's own thread. Raises Refused."""
        return self._await(prepare_resolvable(memory, index, resolvable, tenant), 0)

    def _await(self, write: PreparedWrite, more_bytes: int) -> dict[str, Any]:
        """The outcome of a write of the daemon's own. Raises Refused."""
        awaited: Future[dict[str, Any]] = Future()
        caller = Caller(os.geteuid(), CallerRole.DAEMON, Via.RELAY)
        self.writer.submit(Job(write, caller, None, awaited, BYTES_A_MEMORY + more_bytes, monotonic()))
        return awaited.result()

    def _commit_crossing(self, crossed: Crossed) -> None:
        """Have it written that an operator asks something of a tenant, and wait for it. Raises Refused."""
        awaited: Future[dict[str, Any]] = Future()
        write = PreparedWrite(CROSSED, crossed.tenant, None, crossed=crossed.verb)
        self.writer.submit(Job(write, crossed.caller, crossed.correlation, awaited, BYTES_A_MEMORY, monotonic()))
        awaited.result()

    def _answer(self, answers: list[tuple[Any, Any]]) -> None:
        done: list[tuple[Call, Any]] = []
        for call, outcome in answers:
            if isinstance(call, Future):
                _settle(call, outcome)
                continue
            if isinstance(outcome, Refused):
                done.append((call, outcome))
                continue
            try:
                done.append((call, _as_result(call.method, outcome)))
            except Exception as error:  # the write stands; only this answer can't be given
                done.append((call, refusal_of(call.method, error)))
        self.deliver(done)

    def asking(self, tell: Tell | None = None) -> Asking:
        """A question to this service: it ends when the daemon does."""
        return Asking(self._ending.is_set, tell)

    def read(
        self, method: str, params: Any, caller: Caller, budget: int | None = None, asking: Asking | None = None
    ) -> Any:
        """Answer a question. Safe on any thread. Raises Refused; NotBrief when it needs more looks than `budget`."""
        asking = self.asking() if asking is None else asking
        if method in _WORKS:
            return self._work(method, params, asking)
        if method == "residue":
            return self._residue(params, caller, asking)
        tenants = tenants_of(params, caller)
        if method == "audit":
            return self._audit(params, caller, tenants[0], asking)
        self.record_crossing(method, params, caller, tenants, budget)
        if method == "subscribe":
            found = feed.subscribe(self, params, caller, tenants, asking)
            if records.tells_what_is_sealed(params):
                self._note_told(method, params, caller, tuple(self.names.tenant_numbers))
            return found
        if method == "records":
            page = records.records(self, params, caller, tenants, asking)
            if records.tells_what_is_sealed(params):
                self._note_told(method, params, caller, {frame.tenant for frame in page.frames if frame.tenant})
            return page
        content = caller.content or caller.role is not CallerRole.AUDITOR
        now_ms = self.moment.now_ms()
        with reading(self.store, self.projections, self.names, tenants, now_ms, content, budget, asking) as view:
            try:
                answer = _READS[method](view, params)
                self._keep_met(view.met)
                return answer
            except (DamagedRow, DamagedRecord, PartUnreadable) as error:
                note_damage(self.store, self.projections, error)
                raise refusal_of(method, error) from error

    def record_crossing(
        self, method: str, params: Any, caller: Caller, tenants: tuple[str, ...], budget: int | None = None
    ) -> None:
        """Before an operator is told what another tenant has. Raises NotBrief: that takes a commit."""
        if getattr(params, "store_wide", False):
            return
        now_ms = self.moment.now_ms()
        if budget is not None and self.crossings.is_due(method, caller, tenants, now_ms):
            raise NotBrief
        self._note_told(method, params, caller, tenants)

    def _note_told(self, method: str, params: Any, caller: Caller, tenants: Collection[str]) -> None:
        """Leave it in these tenants that an operator is told what they have."""
        correlation = None if params.correlation is UNSET else params.correlation
        self.crossings.record(method, caller, tenants, self.moment.now_ms(), correlation)

    def _keep_met(self, met: Met) -> None:
        """What a question went on from in spite of: damage is kept and logged, what led out of a tenant counted."""
        for section, memory, error in met.unavailable:
            note_damage(self.store, self.projections, error)
            log_unavailable(section, memory, error)
        if met.foreign:
            self.counts.pass_over(met.foreign)

    def _audit(self, params: Any, caller: Caller, tenant: str, asking: Asking) -> msgspec.Struct:
        """What it finds in the journal is kept: `status` tells it from then on. What it finds in the projections is
        mended beside the service, and told until then. Raises Refused."""
        if params.rebuild:
            rebuilding.require_room(self)
        sees = audit.everything if caller.role is CallerRole.OPERATOR else partial(self._is_open_to, caller)
        result = audit.audit(self.store, self.projections, params, asking, sees)
        for found in result.findings:
            if found.code not in audit.FOLDED_AGAIN:
                self.store.note(Finding(found.code, found.seq, found.what, found.action))
        if params.tenant is not UNSET:
            self.record_crossing("audit", params, caller, (tenant,))
            result.holdings = self._holdings(tenant, asking)
        return result

    def _holdings(self, tenant: str, asking: Asking) -> TenantHoldings:
        """Raises Refused."""
        number = self.names.tenant_numbers.get(tenant, 0)
        try:
            return holdings(self.store, self.projections, tenant, number, asking)
        except (DamagedRow, DamagedRecord) as error:
            note_damage(self.store, self.projections, error)
            raise refusal_of("audit", error) from error

    def _is_open_to(self, caller: Caller, tenant: int) -> bool:
        row = self.names.tenants.get(tenant)
        return row is not None and caller.may_read(row.name)

    def _residue(self, params: Any, caller: Caller, asking: Asking) -> msgspec.Struct:
        """Raises Refused."""
        try:
            result = residue.residue(self.store, self.projections, params, asking)
            told = residue.tenants_told(self.store, result)
            names = {self.names.tenants[number].name for number in told if number}
            self._note_told("residue", params, caller, names)
            return result
        except (DamagedRow, DamagedRecord) as error:
            note_damage(self.store, self.projections, error)
            raise refusal_of("residue", error) from error

    @contextmanager
    def long_work(self) -> Iterator[None]:
        """What takes the whole store, or goes through it in many steps: one at a time. Raises Refused."""
        if not self._long_work.acquire(blocking=False):
            raise Refused(Reason.CONFLICT, "a backup, rebuild or vacuum is at work already", retry_after_ms=1000)
        try:
            yield
        finally:
            self._long_work.release()

    def _work(self, method: str, params: Any, asking: Asking) -> Any:
        """What takes the whole store: one at a time. Raises Refused."""
        began_s = monotonic()
        with self.long_work():
            done = _WORKS[method](self, params, asking)
        self.counts.work(method, monotonic() - began_s)
        return done


_WORKS: dict[str, Callable[[Service, Any, Asking], msgspec.Struct]] = {
    "backup": backup.backup,
    "rebuild": rebuilding.rebuild,
}


def _settle(awaited: Future[dict[str, Any]], outcome: dict[str, Any] | Refused) -> None:
    if isinstance(outcome, Refused):
        awaited.set_exception(outcome)
    else:
        awaited.set_result(outcome)


def _as_result(method: str, outcome: dict[str, Any]) -> msgspec.Struct:
    """The dict that a decision made, as the verb's result struct."""
    return msgspec.convert(outcome, VERBS[method].result)


def _size_bytes(write: PreparedWrite, line_bytes: int) -> int:
    """At most what a write adds to journal, vault and projections beside pages that are copied: its line holds all
    that is kept of it, some of it twice (a fact in the record and sealed), each part in pages of its own."""
    memories = 3 if write.verb == "decide" else max(1, len(write.items))  # a fact's words are sealed again
    return 2 * line_bytes + BYTES_A_MEMORY * memories


def tenants_of(params: Any, caller: Caller) -> tuple[str, ...]:
    """The tenants that a question is about. One outside the caller's lists is `not_found`. Raises Refused."""
    if params.tenants is UNSET:
        return (tenant_of(params, caller, writes=False),)
    if params.tenant is not UNSET:
        raise invalid("tenants", "give either tenant or tenants")
    for name in params.tenants:
        if name != caller.tenant and not caller.may_read(name):
            raise Refused(Reason.NOT_FOUND, "no such tenant", parameter="tenants")
    return tuple(dict.fromkeys(params.tenants))


def tenant_of(params: Any, caller: Caller, *, writes: bool) -> str:
    """The tenant a request is about. Outside the caller's lists is `not_found`. Raises Refused."""
    if params.tenant is UNSET or params.tenant == caller.tenant:
        return caller.tenant
    allowed = caller.may_write(params.tenant) if writes else caller.may_read(params.tenant)
    if not allowed:
        raise Refused(Reason.NOT_FOUND, "no such tenant", parameter="tenant")
    tenant: str = params.tenant
    return tenant
