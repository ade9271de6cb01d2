"""Events of the store, tenants and names."""

from __future__ import annotations

from journal.events.root import Event, SealedPart


class Opened(Event, frozen=True, tag=1):
    """The daemon opened the store. Housekeeping: no projection digest covers it."""

    boot_id: bytes
    version: str
    format: int
    epoch: int
    vault_nonce: bytes


class Restored(Event, frozen=True, tag=2):
    """The store was restored from a backup and continues under a new epoch."""

    boot_id: bytes
    version: str
    format: int
    epoch: int
    vault_nonce: bytes
    from_store: bytes
    from_epoch: int
    from_seq: int
    from_chain: bytes


class TenantBegan(Event, frozen=True, tag=3):
    """A tenant's first write. It begins INITIALIZING with enforcement on."""

    number: int
    name: str


class TenantChanged(Event, frozen=True, tag=4):
    """Lifecycle state or enforcement after the change; None is unchanged."""

    state: int | None = None
    enforce: bool | None = None


class ProducerNamed(Event, frozen=True, tag=5):
    """A producer stamp of the record's tenant, interned."""

    number: int
    agent: str | None
    model: str | None
    version: str | None
    extractor: str | None


class EntityNamed(Event, frozen=True, tag=6):
    """An entity of the record's tenant. Part name: msgpack [name, type]."""

    number: int
    parts: tuple[SealedPart, ...] = ()


class SessionOpened(Event, frozen=True, tag=7):
    """A session. Part name: the caller's key. Part particulars: project and subject, if given.

    Its activation is 1. `uid` is who opened it (for writes that name no session); `producer` 0 is none.
    """

    id: int
    number: int
    agent: str
    uid: int
    opened_at: int
    producer: int = 0
    parts: tuple[SealedPart, ...] = ()


class SessionReopened(Event, frozen=True, tag=8):
    """A closed or stale session lives again. `activation` is the new one.

    `defaults_before` > 0: what it gives to its writes changed. Then part particulars (project, subject) and
    `producer` are the new ones, as a whole, and this is the record that held those before.
    """

    number: int
    activation: int
    at: int
    cause: int
    producer: int = 0
    parts: tuple[SealedPart, ...] = ()
    defaults_before: int = 0


class SessionClosed(Event, frozen=True, tag=9):
    number: int
    at: int


class SessionTouched(Event, frozen=True, tag=10):
    """The lease of a live session was renewed without a write to it. Defaults as in SessionReopened."""

    number: int
    at: int
    producer: int = 0
    parts: tuple[SealedPart, ...] = ()
    defaults_before: int = 0
