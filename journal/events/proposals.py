"""Events of proposals and cohorts."""

from __future__ import annotations

from journal.events.root import Change, Event, FactHead, Ref, SealedPart


class ProposalMade(Event, frozen=True, tag=48):
    """Something that waits for a decision. Words part: the rationale. Particulars part: a fact's words.

    | kind | `memory` | `other` | and |
    |---|---|---|---|
    | edge | where the edge starts: the newer one, the successor | where it ends | `edge_type` |
    | fact | whose fact it would be | None | `fact`, whose `id` and `proposal` are 0: it gets them when it is accepted |
    | resolution | what would be resolved | None | `action` resolve |
    | retention | what would leave | its successor, for `action` supersede | `action` archive or supersede |
    """

    id: int
    kind: int
    memory: Ref
    other: Ref | None = None
    edge_type: int = 0
    action: int = 0
    fact: FactHead | None = None
    cycle: int = 0
    parts: tuple[SealedPart, ...] = ()


class ProposalDecided(Event, frozen=True, tag=49):
    """Once. What came of it stands in the records of the same command, each of which names its proposal: `edges` and
    `facts` by id, records that mark a memory by their number in `seqs`. All are empty when the edge was there already.
    `cycle`: the one that decided it, where nobody did: a revert of that cycle.
    """

    id: int
    accepted: bool
    edges: tuple[int, ...] = ()
    facts: tuple[int, ...] = ()
    seqs: tuple[int, ...] = ()
    parts: tuple[SealedPart, ...] = ()
    cycle: int = 0


class CohortMade(Event, frozen=True, tag=50):
    """An action on many memories; a large one takes several records with one `id`, numbered by `part` from 0, of which
    the one with `last` is the end.

    `changes` are importances for demote; for quarantine and rederive they hold the same number twice. Turns that
    rederive opens again stand in TurnsReopened, old notes that a new pass replaces in Superseded and Marked, all with
    this cohort. `producers`, `origins`, `kinds`, `since`, `until`, `statuses` and `session` are what of the selection
    may be told, and `sealed` says that content was asked for too: the first record has them. `downstream`: the last
    `downstream` memories of the cohort were added because they derive from the others. `token` is a keyed BLAKE2b-128
    of what of the token is ids and numbers, and `held_by_others` how many of all its memories another cohort held the
    same way: the first record has them too.
    """

    id: int
    action: int
    changes: tuple[Change, ...]
    part: int = 0
    last: bool = True
    downstream: int = 0
    not_rederivable: tuple[Ref, ...] = ()
    producers: tuple[int, ...] = ()
    origins: tuple[int, ...] = ()
    kinds: tuple[int, ...] = ()
    since: int | None = None
    until: int | None = None
    statuses: tuple[int, ...] = ()
    session: int = 0
    sealed: bool = False
    token: bytes = b""
    held_by_others: int = 0


class CohortLifted(Event, frozen=True, tag=51):
    """A cohort's action is undone; in several records like CohortMade.

    `changes` name all its memories, with their importance before and after: the same number twice where it stays.
    `unmarked`: whose mark quarantined goes, because no other cohort holds them. `reopened`: superseded by the cohort,
    with the valid_to they get back. `settled`: turns that nobody has settled meanwhile, as
    (session number, TSID, promoted).
    """

    id: int
    changes: tuple[Change, ...]
    part: int = 0
    last: bool = True
    unmarked: tuple[Ref, ...] = ()
    reopened: tuple[tuple[Ref, int | None], ...] = ()
    unarchived: tuple[Ref, ...] = ()
    settled: tuple[tuple[int, int, bool], ...] = ()
