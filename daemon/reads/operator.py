"""hello, describe, head, status, metrics: what a caller asks about the daemon itself."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import msgspec

from daemon.caller import Caller
from daemon.counting import Counts
from daemon.failures import note_damage
from daemon.limits import told_limits
from daemon.peers import may_use
from daemon.reads.audit import head_result
from daemon.refusal import Reason, Refused
from daemon.service import Service, tenant_of
from daemon.wire import results as r
from daemon.wire.exchange_results import MetricsResult
from daemon.wire.schema import schemas_of
from daemon.wire.verbs import PROTOCOL_VERSION, VERBS
from journal.codes import CallerRole, PartitionState, TenantState
from journal.space import free_bytes
from journal.store import Store
from projections import partitions, tables, usage
from projections.rows import DamagedRow


class Operator:
    """Answers about one running daemon. Safe on any thread."""

    METHODS = frozenset({"hello", "describe", "head", "status", "metrics"})

    def __init__(self, store: Store, version: str, socket: str | None, counts: Counts | None = None) -> None:
        self._store = store
        self._version = version
        self._socket = socket
        self._counts = counts or Counts()
        self._service: Service | None = None
        self.folded = (0, 0)
        """How far the fold of the start is: (record, the last one)."""
        self._recovery = r.RecoveryOut(
            clean=store.clean, boot_changed=store.boot_changed, from_seq=0, to_seq=0, rebuilt=[], took_ms=0
        )

    def folding(self, seq: int, to_seq: int) -> None:
        """The fold has come to record `seq` of `to_seq`."""
        self.folded = (seq, to_seq)
        self._recovery = msgspec.structs.replace(self._recovery, to_seq=seq)

    def begin(self, service: Service, recovery: r.RecoveryOut) -> None:
        """The fold is done, the service answers."""
        self._recovery = recovery
        self._service = service

    def read(self, method: str, params: Any, caller: Caller) -> Any:
        """Raises Refused."""
        if method == "describe":
            return describe(params.verb)
        tenant = tenant_of(params, caller, writes=False)
        if method == "metrics":
            from daemon import metrics  # late: prometheus_client takes a tenth of a second, and many never ask

            codes = [finding.code for finding in self.findings()]
            text = metrics.text_of(self._store, self._service, self._counts, self.health(), codes)
            return MetricsResult(text=text)
        if method == "hello":
            return self._hello(tenant, caller)
        if method == "head":
            return head_result(self._store, self._store.log.head())
        return self._status(tenant, caller)

    def _hello(self, tenant: str, caller: Caller) -> r.HelloResult:
        store = self._store
        return r.HelloResult(
            version=self._version,
            protocol=PROTOCOL_VERSION,
            store=store.store_id.hex(),
            epoch=store.epoch,
            tenant=tenant,
            role=caller.role.wire,
            state=self._state(),
            limits=told_limits(),
            verbs=[verb.name for verb in VERBS.values() if may_use(verb, caller)],
        )

    def _state(self) -> str:
        if self._service is None:
            return "folding"
        return "read_only" if self._read_only() else "ready"

    def _read_only(self) -> bool:
        service = self._service
        return service is not None and (service.writer.failed is not None or service.writer.read_only)

    def _status(self, tenant: str, caller: Caller) -> r.StatusResult:
        """What is the store's as a whole is told to operators only: a tenant learns nothing of the others."""
        store, service = self._store, self._service
        head = store.log.head()
        number = 0 if service is None else service.names.tenant_numbers.get(tenant, 0)
        row = None if service is None else service.names.tenants.get(number)
        whole = caller.role is not CallerRole.AGENT
        findings = self.findings() if whole else []
        folded_seq = self._recovery.to_seq if service is None else service.projections.head.seq
        return r.StatusResult(
            health=self.health(),
            findings=findings,
            recovery=self._recovery,
            head=head_result(store, head),
            lag=max(0, head.seq - folded_seq),
            map_bytes=store.env.map_bytes if whole else None,
            disk_free_bytes=free_bytes(store.dir.root) if whole else None,
            oldest_reader_ms=store.env.oldest_reader_ms() if whole else None,
            warmed=0.0 if service is None else service.columns.warmed(),
            cycle=r.CyclesOut(last=None, next=None),
            partitions={} if service is None else self._partition_states(service, number),
            keys_ready=store.vault.slot_count() - store.vault.next_slot if whole else None,
            tenant=tenant,
            tenant_state=(TenantState.INITIALIZING if row is None else TenantState(row.state)).wire,
            enforce=True if row is None else row.enforce,
            usage=None if service is None else _usage(self._store, service, tenant, number),
            read_only=self._read_only(),
            socket=self._socket,
        )

    def health(self) -> str:
        """ok, degraded or failed."""
        service = self._service
        if service is not None and service.writer.failed is not None:
            return "failed"
        return "degraded" if self.findings() else "ok"

    def findings(self) -> list[r.FindingOut]:
        """What was found odd or damaged, and what keeps the daemon from writing."""
        found = [r.FindingOut(code=f.code, seq=f.seq, what=f.what, action=f.action) for f in self._store.findings]
        service = self._service
        if service is None:
            return found
        seq = self._store.log.head().seq
        if service.writer.read_only:
            what = "the disk is too full to write"
            found.append(r.FindingOut(code="disk_full", seq=seq, what=what, action="make room"))
        if service.writer.failed is not None:
            what = "a write to the journal failed"
            found.append(r.FindingOut(code="write_failed", seq=seq, what=what, action="restart"))
        found += [
            r.FindingOut(
                code="projection_damaged", seq=None, what=name, action="wait: it is being folded anew; see the log"
            )
            for name in sorted(service.projections.damaged)
        ]
        return found

    def _partition_states(self, service: Service, tenant: int) -> dict[str, int]:
        """None of them when one is damaged: they are being folded anew then."""
        states: Counter[str] = Counter()
        try:
            with service.projections.snapshot() as snapshot:
                for key, value in snapshot.prefix(tables.PARTITIONS, b""):
                    row = partitions.unpack(bytes(key), bytes(value))
                    if row.tenant == tenant:
                        states[PartitionState(row.state).wire] += 1
        except DamagedRow as error:
            note_damage(self._store, service.projections, error)
            return {}
        return dict(states)


def _usage(store: Store, service: Service, tenant: str, number: int) -> r.UsageOut | None:
    """What the tenant keeps; None when that is damaged: it is being folded anew then."""
    try:
        with service.projections.snapshot() as snapshot:
            found = usage.find(snapshot, number)
    except DamagedRow as error:
        note_damage(store, service.projections, error)
        return None
    return r.UsageOut(records=found.records, bytes=found.total_bytes, max_bytes=service.quotas.of(tenant))


def describe(name: str) -> r.DescribeResult:
    """The JSON Schema of a verb, from the types that are enforced. Raises Refused."""
    if name not in VERBS:
        raise Refused(Reason.NOT_FOUND, "there is no such verb", parameter="verb")
    return _schema(name)


@cache
def _schema(name: str) -> r.DescribeResult:
    """Made once: it takes milliseconds, and is asked for on the loop."""
    return r.DescribeResult(**schemas_of(name))
