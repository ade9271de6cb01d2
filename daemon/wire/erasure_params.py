"""The parameters of the verbs that erase, hold and tidy (contract ERASURE). Closed, as in `params.py`."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from daemon import limits
from daemon.wire.params import AnyParams, Closed, PagedParams, Selection, WriteParams
from daemon.wire.vocabulary import (
    CascadeWord,
    NoteText,
    PartitionName,
    Pattern,
    PurgeReasonWord,
    Reference,
    Seq,
    TierWord,
    Token,
)


class PurgeParams(WriteParams, frozen=True, kw_only=True):
    """Either `ids`, which acts at once, or `sel`, which first only tells."""

    ids: Annotated[list[Reference], Meta(min_length=1, max_length=limits.IDS_PER_SELECTION)] | UnsetType = UNSET
    sel: Selection | UnsetType = UNSET
    cascade: CascadeWord = "none"
    block_reingest: bool = False
    reason: PurgeReasonWord = "request"
    dry_run: bool = False
    token: Token | UnsetType = UNSET


class AddressIn(Closed, frozen=True, kw_only=True):
    """The address of a record, as answers tell it."""

    epoch: Seq
    seq: Seq


class PurgesParams(PagedParams, frozen=True, kw_only=True):
    """With `receipt`: that one, with a page of its results."""

    receipt: AddressIn | UnsetType = UNSET


class HoldParams(WriteParams, frozen=True, kw_only=True):
    sel: Selection
    on: bool = True
    note: NoteText | UnsetType = UNSET


class HoldsParams(PagedParams, frozen=True, kw_only=True):
    pass


class VacuumParams(WriteParams, frozen=True, kw_only=True):
    """Without `partition` and `tier`: all of the tenant's partitions."""

    partition: PartitionName | UnsetType = UNSET
    tier: TierWord | UnsetType = UNSET
    force: bool = False
    dry_run: bool = False


class PartitionsParams(PagedParams, frozen=True, kw_only=True):
    tier: TierWord | UnsetType = UNSET


class ResidueParams(AnyParams, frozen=True, kw_only=True):
    pattern: Pattern
