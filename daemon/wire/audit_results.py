"""What `audit` answers, and what it counts of one tenant."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from daemon.wire.results import FindingOut, HeadResult, Result


class ThingsOut(msgspec.Struct):
    """Of one kind: how many, and a digest of their numbers or ids."""

    count: int
    digest: str


class TenantHoldings(msgspec.Struct, kw_only=True):
    """What one tenant has, up to the record that `head` names. Counts only."""

    tenant: str
    head: HeadResult
    records: int
    entries: dict[str, int]
    things: dict[str, ThingsOut]
    readable: dict[str, int]
    readable_seqs: list[int]
    destroyed: int


class AuditResult(Result, kw_only=True):
    """`against`: per head given, in its order: same, rewritten at N, journal behind by N, other store. `holdings`: when
    a tenant was named."""

    records: int
    head: HeadResult
    digests: dict[str, str]
    findings: list[FindingOut]
    against: list[str] | UnsetType = UNSET
    holdings: TenantHoldings | UnsetType = UNSET
