"""Writes that look before they are decided: what a selection means is found in a read, then the writer is asked.

`submit` takes as long as the looking takes, so it runs on a thread of the long questions'. A dry run is answered here.
"""

from __future__ import annotations

from secrets import randbits
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

from daemon import purge_looking
from daemon.call import Call
from daemon.commands.cohorts import done_with, parse_cohort
from daemon.commands.purging import ToPurge
from daemon.commands.table import PreparedWrite
from daemon.failures import note_damage, refusal_of
from daemon.prepare import UNSET, invalid
from daemon.reads.cohorts import Planned
from daemon.reads.comparing import compared
from daemon.reads.reading import Reading, reading
from daemon.reads.resolving import find
from daemon.selections import Resolved, bound_to, changed, check, seal, unseal
from daemon.waiting import Job
from daemon.wire import cohort_results as c
from daemon.wire.erasure_results import PurgeResult
from daemon.wire.verbs import VERBS
from journal.codes import CohortAction
from journal.errors import DamagedRecord, PartUnreadable
from projections import cohorts, idempotency
from projections.rows import DamagedRow

if TYPE_CHECKING:
    from daemon.service import Service

Looked = c.CohortResult | PurgeResult | tuple[int, Resolved | ToPurge | None]
BYTES_A_MEMBER = 1024
"""Its part of the records, and what is new in the projections."""
PAGES_BYTES_A_MEMBER = 32 << 10
"""Copies of pages of the projections: each memory changes rows in up to eight tables."""


def submit(service: Service, call: Call, write: PreparedWrite, job_bytes: int) -> None:
    """Answer a dry run, or queue the write with what was found. Raises Refused."""
    began_s = perf_counter()
    asked_s = monotonic()
    if call.rights is not None:
        call.rights.may_write(call.caller, VERBS[call.method], call.params, write.tenant)
    if call.method in ("purge", "hold"):
        purge_looking.check_asked(call.method, call.params, call.caller)
    else:
        check_asked(call.method, call.params)
    with reading(
        service.store, service.projections, service.names, (write.tenant,), service.moment.now_ms(),
        call.caller.content, None, call.asking,
    ) as view:  # fmt: skip
        try:
            found = _look(view, call.method, call.params, write)
        except (DamagedRow, DamagedRecord, PartUnreadable) as error:
            note_damage(service.store, service.projections, error)
            raise refusal_of(call.method, error) from error
    if isinstance(found, c.CohortResult | PurgeResult):
        if call.rights is not None:
            call.rights.may_be_told(call.caller, VERBS[call.method], call.params)
        service.record_crossing(call.method, call.params, call.caller, (write.tenant,))
        service.counts.read(call.method, perf_counter() - began_s)
        service.deliver([(call, found)])
        return
    members, more = found
    given: Any = {"to_purge" if isinstance(more, ToPurge) else "resolved": more}
    correlation = None if call.params.correlation is UNSET else call.params.correlation
    pages_bytes = min(PAGES_BYTES_A_MEMBER * members, service.projections.env.used_bytes())
    size_bytes = job_bytes + BYTES_A_MEMBER * members + pages_bytes
    service.writer.submit(
        Job(write._replace(**given), call.caller, correlation, call, size_bytes, asked_s, call.connection)
    )


def submit_at_once(service: Service, call: Call, write: PreparedWrite, job_bytes: int) -> None:
    """Queue a purge that needs no look. Raises Refused."""
    purge_looking.check_asked(call.method, call.params, call.caller)
    correlation = None if call.params.correlation is UNSET else call.params.correlation
    members = len(call.params.ids)
    pages_bytes = min(PAGES_BYTES_A_MEMBER * members, service.projections.env.used_bytes())
    size_bytes = job_bytes + BYTES_A_MEMBER * members + pages_bytes
    write = write._replace(to_purge=purge_looking.prepared(service.store))
    service.writer.submit(Job(write, call.caller, correlation, call, size_bytes, monotonic(), call.connection))


def check_asked(verb: str, params: Any) -> None:
    """What needs no store to be refused. Raises Refused."""
    if verb != "cohort":
        parse_cohort("cohort", params.cohort)
        return
    compares = params.action == "compare"
    check(params.sel, purged=compares)
    if not compares and params.with_ is not UNSET:
        raise invalid("with", "only a comparison has a second selection")
    if compares:
        if params.with_ is UNSET:
            raise invalid("with", "what is it to be compared with?")
        check(params.with_, "with", purged=True)
        for name in ("token", "downstream"):
            if getattr(params, name) not in (UNSET, False):
                raise invalid(name, "a comparison only tells numbers")


def _look(view: Reading, verb: str, params: Any, write: PreparedWrite) -> Looked:
    """What a dry run answers, else `(how many memories are concerned, what was found)`."""
    tenant = view.names.tenant_numbers.get(write.tenant, 0)
    keyed = write.keyed
    if keyed is not None and tenant and idempotency.find(view.state, tenant, keyed.key) is not None:
        # done before: the writer answers it
        return 0, purge_looking.prepared(view.store) if verb == "purge" else None
    if verb == "purge":
        return purge_looking.look_purge(view, params, write)
    if verb == "hold":
        return purge_looking.look_hold(view, params)
    if verb == "lift":
        row = cohorts.get(view.state, parse_cohort("cohort", params.cohort))
        return (0 if row is None or row.tenant != tenant or row.lifted_seq else row.count), None
    if params.action == "compare":
        return compared(view, (params.sel, params.with_))
    return _cohort(view, params, write.tenant, tenant)


def _cohort(view: Reading, params: Any, tenant_name: str, tenant: int) -> c.CohortResult | tuple[int, Resolved | None]:
    action = CohortAction[params.action.upper()]
    hash_key = view.store.vault.hash_key
    bound = bound_to(tenant_name, "cohort", params.action, params.downstream, params.sel)
    if params.token is UNSET:
        planned = Planned(view, find(view, params.sel, params.downstream), action)
        token = planned.token._replace(look=randbits(64))
        return planned.told(seal(token, hash_key, bound) if len(planned.touched) else None)
    token = unseal(params.token, hash_key, bound, view.store.epoch)
    seq = view.snapshot.watermark_seq()
    used = token.fingerprint(hash_key)
    again = done_with(view.state, view.record, tenant, used, token.seq)
    if again:
        return 0, Resolved(seq, token, None, again=again, used=used)
    found = find(view, params.sel, params.downstream)
    now = Planned(view, found, action).token
    if now.found != token.found:
        raise changed(now.selected_count)
    downstream = tuple(sorted(tsid for _, tsid in found.downstream.refs)) if params.downstream else ()
    selected = tuple(found.selected.tolist())
    return len(found.touched), Resolved(seq, token, found.fields, selected, downstream, used=used)
