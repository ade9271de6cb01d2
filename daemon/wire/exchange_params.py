"""The parameters of the verbs that check, move, copy and watch the store. Closed, as in `params.py`."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from daemon import limits
from daemon.wire.params import AnyParams, Closed, PagedParams, ReadParams
from daemon.wire.vocabulary import (
    ActorRoleWord,
    BackupPartWord,
    ChainHex,
    DirectoryPath,
    EventWord,
    Hex16,
    LevelWord,
    ProjectionWord,
    Reference,
    RequestIdIn,
    Seq,
    SubscribeLevelWord,
    Time,
    Uid,
)


class HeadIn(Closed, frozen=True, kw_only=True):
    """A head that somebody kept, to be held against the journal."""

    store: Hex16
    epoch: Seq
    seq: Seq
    chain: ChainHex
    at: Time | UnsetType | None = UNSET


class AuditParams(ReadParams, frozen=True, kw_only=True):
    from_seq: Seq | UnsetType = UNSET
    to_seq: Seq | UnsetType = UNSET
    rebuild: bool = False
    against: Annotated[list[HeadIn], Meta(min_length=1, max_length=limits.AUDIT_HEADS)] | UnsetType = UNSET


class HistoryParams(ReadParams, frozen=True, kw_only=True):
    id: Reference


class RecordsParams(PagedParams, frozen=True, kw_only=True):
    """`store_wide`: the records of all tenants and of the store itself; for operators."""

    since: Time | UnsetType = UNSET
    until: Time | UnsetType = UNSET
    from_seq: Seq | UnsetType = UNSET
    memory: Reference | UnsetType = UNSET
    session: Reference | UnsetType = UNSET
    types: Annotated[list[EventWord], Meta(min_length=1)] | UnsetType = UNSET
    actor: Uid | ActorRoleWord | UnsetType = UNSET
    level: LevelWord = "skeleton"
    store_wide: bool = False


class PlaceIn(Closed, frozen=True, kw_only=True):
    """A place in a journal: of a frame, a mark or a head."""

    epoch: Seq
    seq: Seq
    chain: ChainHex
    store: Hex16 | UnsetType = UNSET
    at: Time | UnsetType | None = UNSET


class SubscribeParams(ReadParams, frozen=True, kw_only=True):
    """Without `after`: what is written from now on. With seq 0 and the store id as chain: everything."""

    after: PlaceIn | UnsetType = UNSET
    level: SubscribeLevelWord = "skeleton"
    types: Annotated[list[EventWord], Meta(min_length=1)] | UnsetType = UNSET
    store_wide: bool = False


class CancelParams(AnyParams, frozen=True, kw_only=True):
    """`request` is the id of a request of the same connection."""

    request: RequestIdIn


class RebuildParams(AnyParams, frozen=True, kw_only=True):
    what: ProjectionWord = "all"


class BackupParams(AnyParams, frozen=True, kw_only=True):
    """`dir` is a path on the daemon's host, absolute, outside the state directory."""

    dir: DirectoryPath
    parts: Annotated[list[BackupPartWord], Meta(min_length=1)] | UnsetType = UNSET


class MetricsParams(ReadParams, frozen=True, kw_only=True):
    pass
