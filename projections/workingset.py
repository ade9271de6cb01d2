"""What is kept in memory only and decides writes: names of tenants, producers, sessions, entities, texts.

It is never the truth: everything here is warmed from the projections and the sealed parts. A batch adds to
`pending`; `publish` takes it over after the journal commit, `discard` drops it. Sealed names are held as
keyed hashes.

Where what it was warmed from is folded anew, another one is warmed beside it: what batches teach meanwhile is kept for
that one too (`keep`), and the lowest level goes on with its names (`renew`).
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from journal.events import SealedPart
from journal.sealing import keyed_hash
from projections import tables
from projections.header_columns import HeaderColumns
from projections.livesessions import LiveSessions
from projections.names import TenantRow
from projections.numbered import Numbered
from projections.recent import Recent
from projections.state import Changes

ProducerKey = tuple[int, str | None, str | None, str | None, str | None]
SessionKey = tuple[int, str, bytes]  # (tenant, agent, keyed hash of the key)
EntityKey = tuple[int, bytes]


class SessionDefaults(NamedTuple):
    """What a session gives to its writes that don't say it themselves. `producer` 0 is none; `names_model`
    is whether that producer stamp has a model."""

    producer: int
    names_model: bool
    project: str | None
    subject: str | None


TextKey = bytes

MAX_TEXTS = 65_536
"""How many fingerprints of texts are kept, so that memory is bounded: a miss costs space only."""


class Gone(NamedTuple):
    """What a purge takes out: texts by fingerprint, sessions and entities by number. `slots` are those of texts whose
    fingerprint is not known, because they could not be read."""

    texts: tuple[TextKey, ...] = ()
    sessions: frozenset[int] = frozenset()
    entities: frozenset[int] = frozenset()
    slots: frozenset[int] = frozenset()

    def and_also(self, other: Gone | None) -> Gone:
        if other is None:
            return self
        return Gone(
            self.texts + other.texts, self.sessions | other.sessions, self.entities | other.entities,
            self.slots | other.slots,
        )  # fmt: skip


def session_hash(hash_key: bytes, tenant: str, agent: str, key: bytes) -> bytes:
    """What a session is found by: its natural key, hashed."""
    return keyed_hash(hash_key, b"session", tenant.encode(), agent.encode(), key)


def entity_hash(hash_key: bytes, tenant: str, name: bytes) -> bytes:
    """What an entity is found by; `name` is the plaintext of its name part."""
    return keyed_hash(hash_key, b"entity", tenant.encode(), name)


def text_hash(hash_key: bytes, tenant: str, text: bytes) -> bytes:
    """What an identical text of the tenant is found by."""
    return keyed_hash(hash_key, b"text", tenant.encode(), text)


_STAYS = frozenset({"columns", "blooms", "texts", "_kept"})
"""What `renew` leaves: it is not warmed from the projections of names."""

NO_DEFAULTS = SessionDefaults(0, False, None, None)


class WorkingSet:
    """One level of names; `pending` is another, above it."""

    def __init__(self, columns: HeaderColumns | None = None) -> None:
        self.columns = columns  # of the lowest level only
        self.blooms: dict[int, int] = {}  # of memories that were written and are not in the columns yet
        self.tenant_numbers: dict[str, int] = {}
        self.tenants: dict[int, TenantRow] = {}
        self.producers: dict[ProducerKey, int] = {}
        self.sessions: Numbered[SessionKey] = Numbered()
        self.session_agents: dict[int, str] = {}
        self.entities: Numbered[EntityKey] = Numbered()
        self.unreadable: set[tuple[int, str]] = set()  # (tenant, agent) with a session whose key is damaged
        self.session_defaults: dict[int, SessionDefaults] = {}
        self.live = LiveSessions()
        self.texts: Recent[TextKey, SealedPart] = Recent(MAX_TEXTS)
        self.partitions: dict[int, tuple[int, ...]] = {}  # of a tenant, all of them
        self.open_partitions: dict[tuple[int, int], tuple[int, int | None]] = {}
        self.blocked: dict[int, set[bytes]] = {}  # of a tenant, what texts are found by that are not to come again
        self.hash_key = b""  # of the lowest level only
        self.gone: Gone | None = None  # of a batch only
        self._kept: deque[WorkingSet] | None = None

    def publish(self, pending: WorkingSet) -> None:
        """Take over what a committed batch has learned, and let go of what it purged."""
        for tenant, blocked in pending.blocked.items():
            self.blocked.setdefault(tenant, set()).update(blocked)
        if pending.gone is not None:
            self._let_go(pending.gone)
            self.gone = pending.gone.and_also(self.gone)
        for name, added in vars(pending).items():
            if name in ("blocked", "gone"):
                continue
            if isinstance(added, LiveSessions):
                self.live.absorb(added)
            elif isinstance(added, Recent):
                for key, value in added.items():
                    self.texts[key] = value
            elif added:
                getattr(self, name).update(added)

    def _let_go(self, gone: Gone) -> None:
        for key in gone.texts:
            self.texts.drop(key)
        if gone.slots:
            self.texts.drop_where(lambda part: part.slot in gone.slots)
        self.sessions.drop(gone.sessions)
        for number in gone.sessions:
            self.session_defaults.pop(number, None)
        self.entities.drop(gone.entities)

    def is_blocked(self, tenant: int, text: bytes, found_by: bytes | None = None) -> bool:
        """Whether a purge keeps this text from coming again: one look, however many purges do. `found_by`: its
        `text_hash`, where that is known already."""
        blocked = self.blocked.get(tenant)
        if not blocked:
            return False
        return (found_by or text_hash(self.hash_key, self.tenants[tenant].name, text)) in blocked

    def folded(self, seq: int, changes: Changes) -> None:
        """A batch that ends with record `seq` stands in the projections: the columns follow."""
        blooms, self.blooms = self.blooms, {}
        if self.columns is not None:
            self.columns.publish(seq, changes[tables.ROWS], blooms)

    def evict(self) -> None:
        """What a purge took is folded: no column has it behind this."""
        if self.columns is not None:
            self.columns.evict()

    def take_over(self, pending: WorkingSet) -> None:
        """`publish` for the lowest level, after the journal commit."""
        self.publish(pending)
        self.gone = None
        self.live.settle()
        kept = self._kept  # looked at once: it may be taken away just now
        if kept is not None:
            kept.append(pending)

    def keep(self) -> None:
        """From here on, what batches teach is kept for another one that is warmed: it is to begin with a record that
        the journal had no earlier than now."""
        self._kept = deque()

    def keep_no_more(self) -> None:
        self._kept = None

    def teach(self, made: WorkingSet) -> None:
        """Give `made` what was kept, in order: what it knew already does no harm."""
        while self._kept:
            made.take_over(self._kept.popleft())

    def renew(self, made: WorkingSet) -> None:
        """Go on with the names of `made`. To be called where batches are taken over, between two of them."""
        for name, names in vars(made).items():
            if name not in _STAYS:
                setattr(self, name, names)
