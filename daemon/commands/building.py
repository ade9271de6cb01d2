"""A command in the making: its drafts, the numbers it takes, and the names it learns.

Looks in what the command itself has learned first, then in the batch, then in the working set. Nothing
outside changes until the command is admitted.
"""

from __future__ import annotations

from typing import Any

from daemon.decision import Draft
from daemon.refusal import Reason, Refused
from daemon.view import View
from journal import events
from journal.codes import Kind, Part, SessionCause, TenantState, Tier
from projections.kinds import KINDS
from projections.names import TenantRow
from projections.rows import SessionRow
from projections.workingset import ProducerKey, WorkingSet

LEASE_MS = 24 * 3_600_000


class Building:
    """One command's growing outcome for one tenant."""

    def __init__(self, view: View, tenant_name: str, uid: int) -> None:
        self.view = view
        self.uid = uid
        self.tenant_name = tenant_name
        self.tenant = view.tenant_number(tenant_name)
        self.drafts: list[Draft] = []
        self.learned = WorkingSet()
        self.fresh_texts: list[tuple[int, bytes]] = []  # (seq, fingerprint) of texts it brought
        self.keys: dict[bytes, tuple[bytes | None, dict[str, Any]]] = {}  # answers this very command has given
        self.kinds: dict[int, int] = {}  # memories made by this very command: TSID → kind
        self._sessions: dict[int, SessionRow] = {}

    @property
    def next_seq(self) -> int:
        return self.view.next_seq + len(self.drafts)

    def add(self, draft: Draft) -> None:
        self.drafts.append(draft)

    # --- the tenant ------------------------------------------------------------------------------

    def tenant_row(self) -> TenantRow | None:
        number = self.tenant
        view = self.view
        return self.learned.tenants.get(number) or view.pending.tenants.get(number) or view.base.tenants.get(number)

    def begin_tenant(self) -> None:
        """Give the tenant its number when this is its first write."""
        if self.tenant:
            return
        self.view.numbers.tenant += 1
        self.tenant = self.view.numbers.tenant
        self.add(Draft(events.TenantBegan(number=self.tenant, name=self.tenant_name)))
        self.learned.tenant_numbers[self.tenant_name] = self.tenant
        self.learned.tenants[self.tenant] = TenantRow(self.tenant_name, int(TenantState.INITIALIZING), True)

    def change_tenant(self, state: TenantState | None, enforce: bool | None) -> None:
        row = self.tenant_row()
        if row is None:
            raise LookupError("a tenant is changed after it began")
        code = None if state is None else int(state)
        self.add(Draft(events.TenantChanged(state=code, enforce=enforce)))
        self.learned.tenants[self.tenant] = TenantRow(
            row.name, row.state if code is None else code, row.enforce if enforce is None else enforce
        )

    def refuse_in_maintenance(self) -> None:
        row = self.tenant_row()
        if row is not None and row.state == TenantState.MAINTENANCE:
            raise Refused(
                Reason.LIFECYCLE, "the tenant is in MAINTENANCE: nothing of it may be changed",
                current="maintenance",
            )  # fmt: skip

    # --- names -----------------------------------------------------------------------------------

    def producer(self, agent: str | None, model: str | None, version: str | None, extractor: str | None) -> int:
        """The number of a producer stamp, interned on first sight; 0 when nothing is stamped."""
        if agent is None and model is None and version is None and extractor is None:
            return 0
        key: ProducerKey = (self.tenant, agent, model, version, extractor)
        view = self.view
        found = view.base.producers.get(key) or view.pending.producers.get(key) or self.learned.producers.get(key)
        if found:
            return found
        view.numbers.producer += 1
        number = view.numbers.producer
        self.add(
            Draft(events.ProducerNamed(number=number, agent=agent, model=model, version=version, extractor=extractor))
        )
        self.learned.producers[key] = number
        return number

    def entity(self, name: str, entity_type: str, plaintext: bytes) -> int:
        """The number of an entity of the tenant, named on first sight. `plaintext` is its sealed name."""
        view = self.view
        key = (self.tenant, view.keyed_hash(b"entity", self.tenant.to_bytes(4, "big"), plaintext))
        found = view.base.entities.get(key) or view.pending.entities.get(key) or self.learned.entities.get(key)
        if found:
            return found
        view.numbers.entity += 1
        number = view.numbers.entity
        self.add(Draft(events.EntityNamed(number=number), ((int(Part.NAME), plaintext),)))
        self.learned.entities[key] = number
        return number

    # --- partitions ------------------------------------------------------------------------------

    def partition(self, kind: int) -> int:
        """The partition that a new memory of `kind` goes to, opened when there is none for today."""
        tier = KINDS[Kind(kind)].tier
        view = self.view
        key = (self.tenant, int(tier))
        found = (
            self.learned.open_partitions.get(key)
            or view.pending.open_partitions.get(key)
            or view.base.open_partitions.get(key)
        )
        if tier is not Tier.EPISODIC:
            return found[0] if found else self._open_partition(key, None)
        day = view.local_day(view.now_ms)
        if found and found[1] is not None and found[1] >= day:
            return found[0]
        return self._open_partition(key, day, closes=found[0] if found else 0)

    def _open_partition(self, key: tuple[int, int], day: int | None, closes: int = 0) -> int:
        view = self.view
        if closes:
            self._seal_partition(closes)
        view.numbers.partition += 1
        number = view.numbers.partition
        zone = view.zone if day is not None else None
        self.add(Draft(events.PartitionOpened(number=number, tier=key[1], day=day, part=0, zone=zone)))
        self.learned.open_partitions[key] = (number, day)
        return number

    def _seal_partition(self, number: int) -> None:
        from journal.codes import PartitionState
        from projections.partitions import load

        row = load(self.view.state, number)
        self.add(
            Draft(
                events.PartitionChanged(
                    number=number, old=int(PartitionState.ACTIVE), new=int(PartitionState.SEALED),
                    rows=row.rows, dead=row.dead,
                )
            )
        )  # fmt: skip

    # --- sessions --------------------------------------------------------------------------------

    def session(self, number: int) -> SessionRow:
        row = self._sessions.get(number)
        return row if row is not None else self.view.session(number)

    def set_session(self, number: int, row: SessionRow) -> None:
        """What the command itself has done to a session: its later parts see it."""
        self._sessions[number] = row

    def next_turn(self, number: int) -> int:
        row = self.session(number)
        turn = row.turns + 1
        self._sessions[number] = row._replace(turns=turn, last_at=max(row.last_at, self.view.now_ms))
        return turn

    def find_session(self, agent: str, key: str) -> tuple[int, bytes]:
        """`(number or 0, keyed hash)` of a session by its natural key."""
        view = self.view
        key_hash = view.keyed_hash(b"session", self.tenant.to_bytes(4, "big"), agent.encode(), b"\0", key.encode())
        name = (self.tenant, agent, key_hash)
        found = view.base.sessions.get(name) or view.pending.sessions.get(name) or self.learned.sessions.get(name, 0)
        return found, key_hash

    def is_stale(self, row: SessionRow) -> bool:
        return row.closed_at < 0 and self.view.now_ms - row.last_at >= LEASE_MS

    def revive(self, number: int, cause: SessionCause, at_ms: int) -> SessionRow:
        row = self.session(number)
        activation = row.activation + 1
        self.add(Draft(events.SessionReopened(number=number, activation=activation, at=at_ms, cause=int(cause))))
        row = row._replace(activation=activation, closed_at=-1, last_at=max(row.last_at, at_ms))
        self._sessions[number] = row
        return row

    def agent_of(self, number: int) -> str:
        view = self.view
        return (
            view.base.session_agents.get(number)
            or view.pending.session_agents.get(number)
            or self.learned.session_agents[number]
        )

    def live_sessions(self, agent: str) -> list[int]:
        """The live sessions that the caller's uid opened for `agent`."""
        key = (self.tenant, self.uid, agent)
        view = self.view
        numbers = (
            view.base.live.get(key, frozenset())
            | view.pending.live.get(key, frozenset())
            | self.learned.live.get(key, frozenset())
        )
        rows = ((number, self.session(number)) for number in numbers)
        return [number for number, row in rows if row.closed_at < 0 and not self.is_stale(row)]

    def open_session(
        self,
        agent: str,
        key: str,
        key_hash: bytes,
        opened_at: int,
        producer: int,
        particulars: bytes | None,
    ) -> tuple[int, SessionRow]:
        """A new session with its drafts; `(number, row)`."""
        view = self.view
        view.numbers.session += 1
        number = view.numbers.session
        tsid = view.new_tsid()
        plain = [(int(Part.NAME), key.encode())]
        if particulars is not None:
            plain.append((int(Part.PARTICULARS), particulars))
        row = SessionRow(tsid, opened_at, opened_at, -1, self.next_seq, self.tenant, 0, 1, self.uid)
        self.add(
            Draft(
                events.SessionOpened(
                    id=tsid, number=number, agent=agent, uid=self.uid, opened_at=opened_at, producer=producer
                ),
                tuple(plain),
            )
        )
        self._sessions[number] = row
        self.learned.sessions[self.tenant, agent, key_hash] = number
        self.learned.session_agents[number] = agent
        live = (self.tenant, self.uid, agent)
        known = view.pending.live.get(live) or view.base.live.get(live, frozenset())
        self.learned.live[live] = self.learned.live.get(live, known) | {number}
        return number, row
