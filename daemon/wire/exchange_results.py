"""What the verbs answer that look at the journal itself, or move it: history, records, subscribe, backup, rebuild,
metrics. Open like all results; times as in `results.py`.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from daemon.wire.results import Actor, HeadResult, Producer, Result


class Revision(Result, kw_only=True):
    """One version of a memory, oldest first. `disposition`: how it took the place of `predecessor`."""

    id: str
    predecessor: str | None
    disposition: str | None
    at: str
    status: str
    actor: Actor | None
    producer: Producer


class HistoryEvent(Result, kw_only=True):
    """One record that touches a memory. `about` is the memory that it speaks of: another one when that is a source
    that was forgotten, say, and flags this memory. Of a record that can't be read only its number is told; its type is
    `damaged`."""

    seq: int
    at: str | None
    type: str
    version: int
    actor: Actor | None
    about: str | None = None


class NumberChange(Result, kw_only=True):
    """How a number of a memory changed. `old` is null where it began."""

    seq: int
    at: str
    old: float | None
    new: float
    reason: str


class HistoryResult(Result, kw_only=True):
    """`truncated`: there are more revisions than are told."""

    revisions: list[Revision]
    events: list[HistoryEvent]
    confidence: list[NumberChange]
    strength: list[NumberChange]
    truncated: bool = False


class FramePart(Result, kw_only=True):
    """`state`: sealed, content, purged or damaged. `ciphertext` and binary `content` are base64; `digest` is that of
    the content, BLAKE2b-128 in hex."""

    part: str
    state: str
    owner_seq: int
    length: int
    ciphertext: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    encoding: str | UnsetType = UNSET
    digest: str | UnsetType = UNSET


class FrameCause(Result, kw_only=True):
    """What ties the records of one command together."""

    first_seq: int
    verb: str
    correlation: str | None


class Frame(Result, kw_only=True):
    """One record. `body` with `prev` and `chain` lets anyone verify it alone."""

    store: str
    epoch: int
    seq: int
    at: str
    tenant: str | None
    actor: Actor
    cause: FrameCause
    type: str
    version: int
    event: dict[str, Any]
    body: str
    prev: str
    chain: str
    parts: list[FramePart]


class RecordsResult(Result, kw_only=True):
    """`hash_key` is there at level content for who may export: an import keeps its digests equal with it."""

    frames: list[Frame]
    next_cursor: str | None
    total: int
    hash_key: str | UnsetType = UNSET


class SubscribeResult(Result, kw_only=True):
    """From here on `record` and `mark` notifications come, until `cancel` or the end of the connection."""

    head: HeadResult


class CancelResult(Result, kw_only=True):
    cancelled: bool


class RebuildResult(Result, kw_only=True):
    rebuilt: list[str]
    took_ms: int


class BackupFile(Result, kw_only=True):
    name: str
    bytes: int
    digest: str


class BackupPart(Result, kw_only=True):
    """`seq`: the record that the part stands at; for the vault, up to which every purge is carried out in it."""

    epoch: int
    seq: int
    chain: str
    vault_next: int
    at: str
    files: list[BackupFile]
    master_key: bool


class BackupResult(Result, kw_only=True):
    """The manifest, as it lies in the directory. `leftover`: files of before that could not be removed."""

    backup: int
    store: str
    format: int
    version: str
    journal: BackupPart | None
    vault: BackupPart | None
    leftover: list[str] | UnsetType = UNSET


class MetricsResult(Result, kw_only=True):
    text: str
