"""hello, describe, head, status: what a caller asks about the daemon itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from daemon.caller import Caller
from daemon.limits import told_limits
from daemon.reads.audit import head_result
from daemon.refusal import Reason, Refused
from daemon.service import Service, tenant_of
from daemon.wire import results as r
from daemon.wire.verbs import PROTOCOL_VERSION, VERBS
from journal.codes import PartitionState, TenantState
from journal.space import free_bytes
from projections import partitions, tables


class Operator:
    """Answers about one running daemon. Safe on any thread."""

    METHODS = frozenset({"hello", "describe", "head", "status"})

    def __init__(self, service: Service, version: str, recovery: r.RecoveryOut, socket: str | None) -> None:
        self._service = service
        self._version = version
        self._recovery = recovery
        self._socket = socket

    def read(self, method: str, params: Any, caller: Caller) -> msgspec.Struct:
        """Raises Refused."""
        if method == "describe":
            return describe(params.verb)
        tenant = tenant_of(params, caller, writes=False)
        if method == "hello":
            return self._hello(tenant, caller)
        if method == "head":
            return head_result(self._service.store, self._service.store.log.head())
        return self._status(tenant)

    def _hello(self, tenant: str, caller: Caller) -> r.HelloResult:
        store = self._service.store
        return r.HelloResult(
            version=self._version,
            protocol=PROTOCOL_VERSION,
            store=store.store_id.hex(),
            epoch=store.epoch,
            tenant=tenant,
            role=caller.role.wire,
            state="read_only" if self._read_only() else "ready",
            limits=told_limits(),
            verbs=[verb.name for verb in VERBS.values() if caller.role in verb.roles],
        )

    def _read_only(self) -> bool:
        return self._service.writer.failed is not None or self._service.writer.read_only

    def _status(self, tenant: str) -> r.StatusResult:
        service = self._service
        store = service.store
        head = store.log.head()
        number = service.names.tenant_numbers.get(tenant, 0)
        row = service.names.tenants.get(number)
        findings = []
        if service.writer.read_only:
            findings.append(
                r.FindingOut(code="disk_full", seq=head.seq, what="the disk is too full to write", action="make room")
            )
        if service.writer.failed is not None:
            findings.append(
                r.FindingOut(code="write_failed", seq=head.seq, what="a write to the journal failed", action="restart")
            )
        findings += [r.FindingOut(code=f.code, seq=f.seq, what=f.what, action=f.action) for f in store.findings]
        findings += [
            r.FindingOut(
                code="projection_damaged", seq=None, what=name, action="restart: the projections are folded anew"
            )
            for name in sorted(service.projections.damaged)
        ]
        health = "degraded" if findings else "ok"
        if service.writer.failed is not None:
            health = "failed"
        return r.StatusResult(
            health=health,
            findings=findings,
            recovery=self._recovery,
            head=head_result(store, head),
            lag=max(0, head.seq - service.projections.head.seq),
            map_bytes=store.env.map_bytes,
            disk_free_bytes=free_bytes(store.dir.root),
            oldest_reader_ms=store.env.oldest_reader_ms(),
            warmed=1.0,
            cycle=r.CyclesOut(last=None, next=None),
            partitions=self._partition_states(number),
            keys_ready=store.vault.slot_count() - store.vault.next_slot,
            tenant=tenant,
            tenant_state=(TenantState.INITIALIZING if row is None else TenantState(row.state)).wire,
            enforce=True if row is None else row.enforce,
            read_only=self._read_only(),
            socket=self._socket,
        )

    def _partition_states(self, tenant: int) -> dict[str, int]:
        states: Counter[str] = Counter()
        with self._service.projections.snapshot() as snapshot:
            for key, value in snapshot.prefix(tables.PARTITIONS, b""):
                row = partitions.unpack(bytes(key), bytes(value))
                if row.tenant == tenant:
                    states[PartitionState(row.state).wire] += 1
        return dict(states)


def describe(name: str) -> r.DescribeResult:
    """The JSON Schema of a verb, from the types that are enforced. Raises Refused."""
    verb = VERBS.get(name)
    if verb is None:
        raise Refused(Reason.NOT_FOUND, "there is no such verb", parameter="verb")
    return r.DescribeResult(params=msgspec.json.schema(verb.params), result=msgspec.json.schema(verb.result))
