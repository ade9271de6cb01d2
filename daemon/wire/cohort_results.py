"""What the verbs of cohorts answer."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from daemon.wire.results import Producer, Result, WriteResult


class Compared(Result, kw_only=True):
    """Numbers of one side of a comparison, over the memories that its selection finds. Rates are 0..1, null of none."""

    count: int
    by_origin: dict[str, int]
    by_kind: dict[str, int]
    superseded_rate: float | None
    rejected_rate: float | None
    unresolvable_rate: float | None
    forgotten_rate: float | None
    mean_confidence: float | None
    mean_importance: float | None


class CohortResult(WriteResult, kw_only=True):
    """Without a token: what would be touched, and the token to do it with, from `count` to `token`. With one: `cohort`
    and `done`; of rederive also what was left. Of a comparison only `compared`, the selection's side first.

    `count` is complete; of `ids` there are at most 1,000, with `ids_cut`. `token` is null when nothing would be
    touched.
    """

    count: int | UnsetType = UNSET
    ids: list[str] | UnsetType = UNSET
    ids_cut: bool | UnsetType = UNSET
    downstream: list[str] | UnsetType = UNSET
    downstream_cut: bool | UnsetType = UNSET
    not_rederivable: list[str] | UnsetType = UNSET
    not_rederivable_cut: bool | UnsetType = UNSET
    token: str | UnsetType | None = UNSET
    cohort: str | UnsetType = UNSET
    done: int | UnsetType = UNSET
    held_by_others: int | UnsetType = UNSET
    compared: list[Compared] | UnsetType = UNSET


class CohortRow(Result, kw_only=True):
    """What of the selection may be told is told, from `producers` to `session`. `sealed`: it asked for content too.

    `ids` are its first 20 memories.
    """

    cohort: str
    action: str
    count: int
    downstream: int
    at: str
    lifted_at: str | None
    producers: list[Producer]
    origins: list[str]
    kinds: list[str]
    since: str | None
    until: str | None
    statuses: list[str]
    session: str | None
    sealed: bool
    ids: list[str]


class CohortsResult(Result, kw_only=True):
    cohorts: list[CohortRow]
    next_cursor: str | None
    total: int


class LiftResult(WriteResult, kw_only=True):
    """`already`: it was lifted before, and nothing was done."""

    cohort: str
    already: bool
    done: int
    held_by_others: int | UnsetType = UNSET
