"""A command in the making: its drafts, the numbers it takes, and the names it learns.

Looks in what the command itself has learned first, then in the batch, then in the working set. Nothing
outside changes until the command is admitted.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from daemon.decision import Draft
from daemon.prepare import NaturalKey
from daemon.refusal import Reason, Refused
from daemon.view import View
from daemon.wire.times import FIRST_MS, LAST_MS
from journal import events
from journal.codes import Kind, Part, PartitionState, SessionCause, TenantState, Tier
from journal.errors import DamagedRecord
from journal.events import SealedPart
from journal.particulars import Particulars, encode
from projections import partitions
from projections.kinds import KINDS
from projections.livesessions import LEASE_MS, candidates
from projections.names import TenantRow
from projections.rows import NO_TIME, SessionRow
from projections.workingset import ProducerKey, SessionDefaults, WorkingSet

_ZONES_MS = 2 * 86_400_000
"""So much a local date may lie beyond."""
_NOTHING = WorkingSet()
"""What a command has learned that has learned nothing. Never written to."""


class Building:
    """One command's growing outcome for one tenant."""

    def __init__(self, view: View, tenant_name: str, uid: int) -> None:
        """Raises Refused while the clock stands where no time can be said."""
        if not FIRST_MS + _ZONES_MS <= view.now_ms <= LAST_MS - _ZONES_MS:
            raise Refused(Reason.UNAVAILABLE, "the daemon's clock is beyond the years that times can say")
        self.view = view
        self.uid = uid
        self.tenant_name = tenant_name
        self.tenant = view.tenant_number(tenant_name)
        view.bind(self.tenant)
        self.drafts: list[Draft] = []
        self.learned = _NOTHING
        self.fresh_texts: list[tuple[int, bytes]] = []  # (seq, fingerprint) of texts it brought
        self.keys: dict[bytes, tuple[bytes | None, dict[str, Any]]] = {}  # answers this very command has given
        self.kinds: dict[int, int] = {}  # memories made by this very command: TSID → kind
        self.spoken: dict[int, str] = {}  # user turns made by this very command: TSID → text
        self._sessions: dict[int, SessionRow] = {}

    @property
    def next_seq(self) -> int:
        return self.view.next_seq + len(self.drafts)

    @property
    def has_learned(self) -> bool:
        return self.learned is not _NOTHING

    def learn(self) -> WorkingSet:
        """The names that this command adds, for adding one. Most commands learn none, so it is made late."""
        if self.learned is _NOTHING:
            self.learned = WorkingSet()
        return self.learned

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
        self.view.bind(self.tenant)
        self.add(Draft(events.TenantBegan(number=self.tenant, name=self.tenant_name)))
        self.learn().tenant_numbers[self.tenant_name] = self.tenant
        self.learn().tenants[self.tenant] = TenantRow(self.tenant_name, int(TenantState.INITIALIZING), True)

    def activate(self) -> None:
        """The first write that isn't seeded ends INITIALIZING."""
        row = self.tenant_row()
        if row is not None and row.state == TenantState.INITIALIZING:
            self.change_tenant(TenantState.ACTIVE, None)

    def change_tenant(self, state: TenantState | None, enforce: bool | None) -> None:
        row = self.tenant_row()
        if row is None:
            raise LookupError("a tenant is changed after it began")
        code = None if state is None else int(state)
        self.add(Draft(events.TenantChanged(state=code, enforce=enforce)))
        self.learn().tenants[self.tenant] = TenantRow(
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
        self.learn().producers[key] = number
        return number

    def entity(self, plaintext: bytes, hashed: bytes) -> int:
        """The number of an entity of the tenant, named on first sight. `plaintext` is its name to be sealed."""
        view = self.view
        key = (self.tenant, hashed)
        found = view.base.entities.get(key) or view.pending.entities.get(key) or self.learned.entities.get(key)
        if found:
            return found
        view.numbers.entity += 1
        number = view.numbers.entity
        self.add(Draft(events.EntityNamed(number=number), ((int(Part.NAME), plaintext),)))
        self.learn().entities[key] = number
        return number

    # --- texts -----------------------------------------------------------------------------------

    def text(self, hashed: bytes, text: bytes) -> tuple[list[tuple[int, bytes]], tuple[SealedPart, ...]]:
        """`(plain parts, shared parts)` of the text of the memory that is added next: one that the tenant has already
        is shared, not sealed anew. Raises Refused for one that a purge keeps out."""
        self.refuse_blocked("text", text, hashed)
        shared = self.view.pending.texts.get(hashed) or self.view.base.texts.get(hashed)
        if shared is not None:
            return [], (shared,)
        self.fresh_texts.append((self.next_seq, hashed))
        return [(int(Part.TEXT), text)], ()

    def refuse_blocked(self, parameter: str, text: bytes, hashed: bytes | None = None) -> None:
        """What was purged, and is not to come again, is a conflict."""
        if self.tenant and self.view.base.is_blocked(self.tenant, text, hashed):
            message = "this was purged, and is not to come again"
            raise Refused(Reason.CONFLICT, message, parameter=parameter, current="purged")

    # --- partitions ------------------------------------------------------------------------------

    def partition(self, kind: int) -> int:
        """The partition that a new memory of `kind` goes to, opened when there is none for today."""
        tier = KINDS[Kind(kind)].tier
        view = self.view
        found = self.open_partition(int(tier))
        if tier is not Tier.EPISODIC:
            return found[0] if found else self._open_partition(int(tier), None, 0)
        day = view.local_day(view.now_ms)
        if found and found[1] is not None and found[1] >= day:
            return found[0]
        if found:
            self._seal_partition(found[0])
        return self._open_partition(int(tier), *self._day_and_part(day))

    def open_partition(self, tier: int) -> tuple[int, int | None] | None:
        """`(number, day)` of the partition that accepts memories of a tier, None when there is none."""
        key = (self.tenant, tier)
        view = self.view
        found = (
            self.learned.open_partitions.get(key)
            or view.pending.open_partitions.get(key)
            or view.base.open_partitions.get(key)
        )
        return found if found and found[0] else None

    def _day_and_part(self, day: int) -> tuple[int, int]:
        """Of the next day partition: days never go back, whatever clock and zone do, and no two have one name. What
        this command opened has no row yet, and is no day partition: a command opens one of these at most."""
        for number in reversed(self._partitions(self.view.pending, self.view.base)):
            row = partitions.load(self.view.state, number)
            if row.tier == Tier.EPISODIC and row.day is not None:
                return (day, 0) if row.day < day else (row.day, row.part + 1)
        return day, 0

    def _open_partition(self, tier: int, day: int | None, part: int) -> int:
        view = self.view
        view.numbers.partition += 1
        number = view.numbers.partition
        key = (self.tenant, tier)
        zone = view.zone if day is not None else None
        self.add(Draft(events.PartitionOpened(number=number, tier=tier, day=day, part=part, zone=zone)))
        self.learn().open_partitions[key] = (number, day)
        known = self._partitions(self.learned, view.pending, view.base)
        self.learn().partitions[self.tenant] = (*known, number)
        return number

    def _partitions(self, *levels: WorkingSet) -> tuple[int, ...]:
        """All of the tenant's, of the first of these levels that knows any."""
        for level in levels:
            found = level.partitions.get(self.tenant)
            if found is not None:
                return found
        return ()

    def _seal_partition(self, number: int) -> None:
        row = partitions.load(self.view.state, number)
        self.add(
            Draft(
                events.PartitionChanged(
                    number=number, old=int(PartitionState.ACTIVE), new=int(PartitionState.SEALED),
                    rows=row.count, dead=row.dead,
                )
            )
        )  # fmt: skip

    # --- sessions --------------------------------------------------------------------------------

    def session(self, number: int) -> SessionRow:
        row = self._sessions.get(number)
        if row is None:
            row = self._sessions[number] = self.view.session(number)
        return row

    @property
    def session_numbers(self) -> tuple[int, ...]:
        """The sessions that this command looked at, or changed."""
        return tuple(self._sessions)

    def next_turn(self, number: int) -> int:
        row = self.session(number)
        turn = row.turns + 1
        self._sessions[number] = replace(row, turns=turn, last_at=max(row.last_at, self.view.now_ms))
        return turn

    def find_session(self, key: NaturalKey) -> int:
        """The number of a session by its natural key, 0 when there is none."""
        view = self.view
        name = (self.tenant, key.agent, key.hashed)
        return view.base.sessions.get(name) or view.pending.sessions.get(name) or self.learned.sessions.get(name, 0)

    def is_stale(self, row: SessionRow) -> bool:
        return not row.closed and self.view.now_ms - row.last_at >= LEASE_MS

    def revive(
        self, number: int, cause: SessionCause, at_ms: int, defaults: SessionDefaults | None = None
    ) -> SessionRow:
        """The session lives again; `defaults`, if given, are its new ones."""
        row = self.session(number)
        activation = row.activation + 1
        event = events.SessionReopened(
            number=number, activation=activation, at=at_ms, cause=int(cause),
            producer=0 if defaults is None else defaults.producer,
            defaults_before=0 if defaults is None else row.defaults_seq,
        )  # fmt: skip
        row = self._draft_defaults(number, row, event, defaults)
        row = replace(row, activation=activation, closed_at=NO_TIME, last_at=max(row.last_at, self.view.now_ms))
        self._sessions[number] = row
        live = (self.tenant, row.uid, self.agent_of(number))
        self.learn().live.add(live, number)
        return row

    def touch_session(self, number: int, at_ms: int, defaults: SessionDefaults | None) -> None:
        """Its lease is renewed; `defaults`, if given, are its new ones."""
        row = self.session(number)
        event = events.SessionTouched(
            number=number, at=at_ms, producer=0 if defaults is None else defaults.producer,
            defaults_before=0 if defaults is None else row.defaults_seq,
        )  # fmt: skip
        row = self._draft_defaults(number, row, event, defaults)
        self._sessions[number] = replace(row, last_at=max(row.last_at, self.view.now_ms))

    def _draft_defaults(
        self, number: int, row: SessionRow, event: events.AnyEvent, defaults: SessionDefaults | None
    ) -> SessionRow:
        """Add the event, with its defaults sealed; the row as it is then."""
        if defaults is None:
            self.add(Draft(event))
            return row
        row = replace(row, defaults_seq=self.next_seq)
        self.add(Draft(event, self._defaults_plain(defaults)))
        self.learn().session_defaults[number] = defaults
        return row

    def _defaults_plain(self, defaults: SessionDefaults | None) -> tuple[tuple[int, bytes], ...]:
        if defaults is None or (defaults.project is None and defaults.subject is None):
            return ()
        return ((int(Part.PARTICULARS), encode(Particulars(project=defaults.project, subject=defaults.subject))),)

    def close_session(self, number: int, at_ms: int) -> None:
        row = self.session(number)
        self.add(Draft(events.SessionClosed(number=number, at=at_ms)))
        self._sessions[number] = replace(row, closed_at=at_ms)
        live = (self.tenant, row.uid, self.agent_of(number))
        self.learn().live.close(live, number)

    def defaults_of(self, number: int) -> SessionDefaults | None:
        view = self.view
        return (
            self.learned.session_defaults.get(number)
            or view.pending.session_defaults.get(number)
            or view.base.session_defaults.get(number)
        )

    def agent_of(self, number: int) -> str:
        view = self.view
        return (
            view.base.session_agents.get(number)
            or view.pending.session_agents.get(number)
            or self.learned.session_agents.get(number)
            or self._recorded_agent(number)
        )

    def _recorded_agent(self, number: int) -> str:
        """For a session whose record could not be read when names were warmed. Raises DamagedRecord."""
        owner_seq = self.session(number).owner_seq
        record = self.view.record(owner_seq)
        if record is None or not isinstance(record.event, events.SessionOpened):
            raise DamagedRecord(owner_seq, "event")
        return record.event.agent

    def live_sessions(self, agent: str) -> list[int]:
        """The live sessions that the caller's uid opened for `agent`: at most two of them. Stale ones are set aside."""
        key = (self.tenant, self.uid, agent)
        found: list[int] = []
        for number in candidates(
            (self.learned.live, self.view.pending.live, self.view.base.live), key, self.view.now_ms
        ):
            if not self._is_live(number):
                self.learn().live.set_aside(key, number, self.session(number).last_at)
                continue
            if number not in self.view.base.live.added.get(key, {}):
                self.learn().live.add(key, number)  # the clock went back: it is live again
            found.append(number)
            if len(found) == 2:
                break
        return found

    def _is_live(self, number: int) -> bool:
        row = self.session(number)
        return not row.closed and not self.is_stale(row)

    def open_session(
        self,
        key: NaturalKey,
        opened_at: int,
        defaults: SessionDefaults | None = None,
    ) -> tuple[int, SessionRow]:
        """A new session with its drafts; `(number, row)`."""
        agent = key.agent
        view = self.view
        view.numbers.session += 1
        number = view.numbers.session
        tsid = view.new_tsid()
        if (self.tenant, agent) in view.base.unreadable:
            raise Refused(
                Reason.DAMAGED, "a session of this agent has a key that can't be read: this may be that session",
                parameter="key",
            )  # fmt: skip
        producer = defaults.producer if defaults is not None else 0
        plain = [(int(Part.NAME), key.plaintext), *self._defaults_plain(defaults)]
        if defaults is not None:
            self.learn().session_defaults[number] = defaults
        row = SessionRow(
            tsid, opened_at, view.now_ms, NO_TIME, self.next_seq, self.next_seq, self.tenant, 0, 1, self.uid
        )
        self.add(
            Draft(
                events.SessionOpened(
                    id=tsid, number=number, agent=agent, uid=self.uid, opened_at=opened_at, producer=producer
                ),
                tuple(plain),
            )
        )
        self._sessions[number] = row
        self.learn().sessions[self.tenant, agent, key.hashed] = number
        self.learn().session_agents[number] = agent
        live = (self.tenant, self.uid, agent)
        self.learn().live.add(live, number)
        return number, row
