"""The table of verbs: what each takes, what it answers, whether it writes and who may ask it."""

from __future__ import annotations

import msgspec

from daemon.wire import audit_results as a
from daemon.wire import cohort_results as c
from daemon.wire import erasure_params as n
from daemon.wire import erasure_results as o
from daemon.wire import exchange_params as q
from daemon.wire import exchange_results as x
from daemon.wire import params as p
from daemon.wire import proposal_results as d
from daemon.wire import provenance_results as e
from daemon.wire import results as r
from daemon.wire import review_results as v
from journal.codes import CallerRole

PROTOCOL_VERSION = 1

_OPERATOR = frozenset({CallerRole.OPERATOR})
_AGENT = _OPERATOR | {CallerRole.AGENT}
_ALL = _AGENT | {CallerRole.AUDITOR}


class Verb(msgspec.Struct, frozen=True):
    """`writes` sends the call to the writer; otherwise it is a read that never changes the journal."""

    name: str
    params: type[p.Closed]
    result: type[r.Result]
    writes: bool
    roles: frozenset[CallerRole]
    looks: bool = False
    """A write that has to look at much before it is decided: that is done on a thread of the reads'."""


_ROWS = (
    Verb("hello", p.HelloParams, r.HelloResult, False, _ALL),
    Verb("describe", p.DescribeParams, r.DescribeResult, False, _ALL),
    Verb("remember", p.RememberParams, r.RememberResult, True, _AGENT),
    Verb("remember_many", p.RememberManyParams, r.RememberManyResult, True, _AGENT),
    Verb("get", p.GetParams, r.GetResult, False, _AGENT),
    Verb("list", p.ListParams, r.ListResult, False, _ALL),
    Verb("forget", p.ForgetParams, r.ForgetResult, True, _AGENT),
    Verb("recover", p.RecoverParams, r.RecoverResult, True, _AGENT),
    Verb("verify", p.VerifyParams, r.VerifyResult, True, _AGENT),
    Verb("reinforce", p.RecoverParams, r.RecoverResult, True, _AGENT),
    Verb("weaken", p.RecoverParams, r.RecoverResult, True, _AGENT),
    Verb("reaffirm", p.ReaffirmParams, r.RecoverResult, True, _AGENT),
    Verb("mark", p.MarkParams, r.MarkResult, True, _AGENT),
    Verb("relate", p.RelateParams, r.RelateResult, True, _AGENT),
    Verb("revise", p.ReviseParams, r.ReviseResult, True, _AGENT),
    Verb("session_open", p.SessionOpenParams, r.SessionOpenResult, True, _AGENT),
    Verb("session_close", p.SessionCloseParams, r.SessionCloseResult, True, _AGENT),
    Verb("sessions", p.SessionsParams, r.SessionsResult, False, _ALL),
    Verb("session", p.SessionParams, r.SessionResult, False, _ALL),
    Verb("trace", p.TraceParams, r.TraceResult, False, _ALL),
    Verb("explain", p.ExplainParams, e.ExplainResult, False, _ALL),
    Verb("session_provenance", p.SessionProvenanceParams, e.SessionProvenanceResult, False, _ALL),
    Verb("review", p.ReviewParams, v.ReviewResult, False, _AGENT),
    Verb("propose", p.ProposeParams, d.ProposeResult, True, _AGENT),
    Verb("decide", p.DecideParams, d.DecideResult, True, _AGENT),
    Verb("proposals", p.ProposalsParams, d.ProposalsResult, False, _ALL),
    Verb("cohort", p.CohortParams, c.CohortResult, True, _OPERATOR, True),
    Verb("cohorts", p.CohortsParams, c.CohortsResult, False, _OPERATOR | {CallerRole.AUDITOR}),
    Verb("lift", p.LiftParams, c.LiftResult, True, _OPERATOR, True),
    Verb("purge", n.PurgeParams, o.PurgeResult, True, _AGENT, True),
    Verb("purges", n.PurgesParams, o.PurgesResult, False, _OPERATOR | {CallerRole.AUDITOR}),
    Verb("hold", n.HoldParams, o.HoldResult, True, _OPERATOR, True),
    Verb("holds", n.HoldsParams, o.HoldsResult, False, _OPERATOR | {CallerRole.AUDITOR}),
    Verb("partitions", n.PartitionsParams, o.PartitionsResult, False, _ALL),
    Verb("vacuum", n.VacuumParams, o.VacuumResult, True, _OPERATOR, True),
    Verb("residue", n.ResidueParams, o.ResidueResult, False, _OPERATOR),
    Verb("lifecycle", p.LifecycleParams, r.LifecycleResult, True, _OPERATOR),
    Verb("audit", q.AuditParams, a.AuditResult, False, frozenset({CallerRole.OPERATOR, CallerRole.AUDITOR})),
    Verb("history", q.HistoryParams, x.HistoryResult, False, _ALL),
    Verb("records", q.RecordsParams, x.RecordsResult, False, _ALL),
    Verb("subscribe", q.SubscribeParams, x.SubscribeResult, False, _AGENT),
    Verb("cancel", q.CancelParams, x.CancelResult, False, _ALL),
    Verb("rebuild", q.RebuildParams, x.RebuildResult, False, _OPERATOR),
    Verb("backup", q.BackupParams, x.BackupResult, False, _OPERATOR),
    Verb("metrics", q.MetricsParams, x.MetricsResult, False, frozenset({CallerRole.OPERATOR, CallerRole.AUDITOR})),
    Verb("head", p.HeadParams, r.HeadResult, False, _ALL),
    Verb("status", p.StatusParams, r.StatusResult, False, _AGENT),
)

VERBS: dict[str, Verb] = {row.name: row for row in _ROWS}
