"""The generated sections of `ops/docs/reference.md`: what the code knows of kinds, configuration, limits and errors.

Invariant: every member of a closed set has its row; the words beside it are written here, and a member without
words fails the generation instead of being left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

import msgspec

from daemon import config, limits
from daemon.cli.exits import of_reason
from daemon.cli.serving import FLAGS
from daemon.exits import Exit
from daemon.refusal import Reason
from daemon.wire.verbs import VERBS
from journal.codes import SUBTYPES, CallerRole, Happening, Kind, Mark, Origin, Role, Status
from ops.docs import metric_table
from ops.docs.schema_tables import inner_sections, verb_sections
from projections.kinds import KINDS, ORIGINS, PROTECTED_GOALS, ROLE_ORIGIN, Assertable, may_assert

ORIGIN_WORDS = {
    Origin.RECORDED: "read from a system of record",
    Origin.STATED: "said by the person it is about",
    Origin.EXPERIENCED: "the agent's own, at first hand",
    Origin.TOLD: "said by somebody else",
    Origin.OBSERVED: "read in a document or on the web",
    Origin.DERIVED: "reasoned from other memories",
    Origin.CONSOLIDATED: "made by sleep out of turns",
    Origin.INFERRED: "taken by a model from loose text",
    Origin.SEEDED: "put there when the agent was set up",
}

ASSERTABLE_WORDS = {
    "yes": "yes",
    "as_theirs": "yes, as their own words",
    "with_source": "yes, naming the source",
    "as_sources": "yes, as the weakest of its sources",
    "hedged": "only with the hedge",
}

MARK_WORDS = {
    Mark.SUPERSEDED: "a newer version took its place",
    Mark.ARCHIVED: "put away by somebody",
    Mark.PRUNED: "tombstoned by sleep; still grounds what was made of it",
    Mark.FORGOTTEN: "tombstoned by `forget`; no longer grounds what was made of it",
    Mark.QUARANTINED: "kept out of default reads with its cohort",
    Mark.PURGED: "its keys are destroyed",
    Mark.PROTECTED: "confidence doesn't decay, `forget` is a `conflict`",
    Mark.PINNED: "held at its importance by sleep",
    Mark.HELD: "under a legal hold",
    Mark.RESOLVED: "settled: a task that is done, a question that is answered",
    Mark.CONSOLIDATED: "a pass of sleep has settled this turn",
}

HAPPENING_WORDS = {
    Happening.CREATE: "it was written, or made by a pass",
    Happening.IMPORT: "it was imported: its origin lies elsewhere",
    Happening.REVISE: "it was filed anew (`revise` with disposition move)",
    Happening.SUPERSEDE: "a successor took its place; the edge between them names the proposal, if it came of one",
    Happening.RESOLVE: "it was marked as resolved; `proposal` when it came of one",
    Happening.UNRESOLVE: "that mark was lifted",
    Happening.ARCHIVE: "it was archived; `proposal` when it came of one",
    Happening.UNARCHIVE: "that mark was lifted",
    Happening.EMBED_FAILED: "no vector could be made for it",
    Happening.REAFFIRM: "`reaffirm`",
    Happening.VERIFY: "`verify`",
    Happening.REINFORCE: "`reinforce`",
    Happening.WEAKEN: "`weaken`",
    Happening.FORGET: "`forget`",
    Happening.RECOVER: "`recover`",
    Happening.PRUNE: "sleep took it out",
    Happening.PURGE: "its keys were destroyed",
    Happening.PROTECT: "it was marked as protected",
    Happening.UNPROTECT: "that mark was lifted",
    Happening.RELATE: "`relate`: an edge begins at it",
    Happening.HOLD: "it was put under a legal hold",
    Happening.RELEASE: "the hold was lifted",
    Happening.QUARANTINE: "a cohort quarantined it",
    Happening.DEMOTE: "a cohort halved its importance",
    Happening.REDERIVE: "a cohort had it made anew",
    Happening.LIFT: "a cohort that it was in was lifted",
}

CONFIG_WORDS = {
    "state": "the state directory",
    "socket": "the socket's path",
    "socket_group": "the group that may connect; without it the socket keeps the daemon's own group",
    "zone": "the zone whose days partition episodic memories",
    "node": "the node part of new ids; give each daemon its own where stores may meet",
    "log_level": "the least severe line that is logged",
    "half_line_s": "how long a line may stay half sent before the client is dropped",
    "stuck_client_s": "how long a client may leave answers untaken before it is dropped",
    "copy_every_records": "so many records after the last copy of the projections another is left for the next boot",
    "stop_within_s": "how long a stopping daemon waits for open answers",
    "vacuum_threshold": "from this share of dead rows on a partition is tombstoned, and compacted by `vacuum`",
    "read_only_below_bytes": "free bytes beyond the reserve below which the store is read-only; it is writable again "
    "from twice as many",
    "master_key": "a file with the master key that wraps the keys of the store; see [master key](#the-master-key)",
    "tenant": "what a tenant may keep; see [tenants](#what-a-tenant-may-keep)",
    "peer": "who may connect; see [peers](#who-may-connect)",
}

CONFIG_DEFAULTS = {
    "state": "`$STATE_DIRECTORY`; root: `/var/lib/noctuary`; "
    "else `$XDG_STATE_HOME/noctuary` (`~/.local/state/noctuary`)",
    "socket": "`$RUNTIME_DIRECTORY/noctuary.sock`; else `$XDG_RUNTIME_DIR/noctuary/noctuary.sock` (`/run/user/UID`); "
    "where that directory is missing `/run/noctuary/noctuary.sock`",
    "master_key": "`$CREDENTIALS_DIRECTORY/noctuary-master-key` if there is one; else none",
}

CONFIG_RANGES = {"socket": "at most 107 bytes", "socket_group": "an existing group", "zone": "an IANA zone"}

LIMIT_WORDS = {
    "line_bytes": "bytes of one line, request or answer",
    "text_bytes": "UTF-8 bytes of a `text`",
    "metadata_bytes": "bytes of `metadata`, as JSON",
    "metadata_depth": "levels of nesting in `metadata`",
    "idempotency_key_bytes": "UTF-8 bytes of an `idempotency_key`",
    "correlation": "characters of a `correlation`",
    "topic": "characters of a `topic`",
    "tag": "characters of one tag",
    "tags": "tags of a memory",
    "entities": "entities of a memory",
    "references": "items of `derived_from`, and of `evidence`",
    "key": "characters of a session's key",
    "reason": "characters of a reason",
    "note": "characters of a `note`",
    "subject": "characters of a `subject`",
    "source_entity": "characters of a `source_entity`",
    "facts": "facts of a memory",
    "ids_per_get": "ids in one `get`",
    "ids_per_get_with_provenance": 'the same with `include: ["provenance"]`',
    "batch": "items of `remember_many`",
    "pipelined": "requests of one connection in flight; then the daemon stops reading",
    "pipelined_bytes": "bytes of them; then the daemon stops reading",
    "connections": "connections, fewer where the process may open fewer files",
    "subscriptions": "subscriptions of one connection at a time",
    "memories_per_action": "memories of a selection that one action takes, with what derives from them",
    "open_proposals": "proposals that may wait about one memory",
    "facts_accepted": "facts that a memory may be given by proposals",
    "limit": "the largest `limit` of a paged read",
    "limit_default": "the `limit` when none is given",
    "depth": "the largest `depth` of `trace`",
}

REASON_WORDS = {
    Reason.PARSE_ERROR: ("the line is no JSON in UTF-8", "Mend the program that writes it."),
    Reason.INVALID_REQUEST: (
        "JSON, but no JSON-RPC 2.0 request with an id",
        "Mend the envelope; `parameter` says where.",
    ),
    Reason.UNKNOWN_METHOD: ("there is no such verb", "Ask `hello` for the verbs of this version."),
    Reason.INVALID_INPUT: (
        "a parameter is unknown, missing, out of range or of the wrong form",
        "Change what `parameter` names; `limit` and `allowed` say to what.",
    ),
    Reason.INTERNAL: ("a mistake in the daemon", "Look up `error_id` in its log and report it."),
    Reason.NOT_FOUND: (
        "what was asked about, or the tenant, is not there for this caller",
        "Check the reference and the tenant. What belongs to others looks the same.",
    ),
    Reason.CONFLICT: (
        "it contradicts what is there: a key with another request, a protected memory",
        "Read again, then decide; `current` and `ids` say what is in the way.",
    ),
    Reason.PROVENANCE: (
        "a source is missing, doesn't fit the kind, or is gone",
        "Name sources that exist and that the kind may derive from; `allowed` lists those kinds.",
    ),
    Reason.LIFECYCLE: ("the tenant's state forbids it", "Wait for, or ask an operator to end, maintenance."),
    Reason.LEGAL_HOLD: ("a hold forbids erasing it", "Ask who set the hold."),
    Reason.DENIED: ("this user, or its role, may not", "Have the operator change `[[peer]]`."),
    Reason.TOO_LARGE: ("a text, line, batch or answer is too large", "Split it, or ask for less at once."),
    Reason.READ_ONLY: (
        "the disk is almost full; or, with `limit`, the tenant keeps as much as it may",
        "Free `needed_bytes`; the daemon comes back by itself. With `limit`: have the operator raise `max_bytes`.",
    ),
    Reason.DAMAGED: ("something at rest can't be read", "Run `noctuary audit`; see `status` for the findings."),
    Reason.QUARANTINED: (
        "a [cohort](#cohorts) has quarantined the memory",
        "Have an operator `lift` the cohorts that the message names.",
    ),
    Reason.OVERLOADED: ("too much is waiting", "Try again after `retry_after_ms`, with less in flight."),
    Reason.UNKNOWN_OUTCOME: (
        "the journal's commit failed: the write may be there or not",
        "Repeat it with the same `idempotency_key` once the daemon is back. Without a key, look first.",
    ),
    Reason.UNAVAILABLE: ("the projections are being folded", "Try again after `retry_after_ms`."),
}

EXIT_WORDS = {
    Exit.OK: "done",
    Exit.NOT_FOUND: "`not_found`, any id in `not_found[]`, `forget` that found nothing, no store where one is wanted",
    Exit.USAGE: "an unknown command or option, an argument that is missing, a file that can't be read",
    Exit.UNREACHABLE: "nobody answers on the socket",
    Exit.REFUSED: "refused for any other reason, also single items of a batch or an import",
    Exit.DAMAGED: "damage: `audit` has findings, or the daemon would not open the store",
    Exit.INTERNAL: "a mistake in the program",
    Exit.CANNOT_CREATE: "the store, or the file, can't be made there",
    Exit.IO_ERROR: "reading or writing failed; `unknown_outcome`",
    Exit.UNAVAILABLE: "`unavailable`, `overloaded`, `read_only`, or another process has the store open",
    Exit.DENIED: "`denied`",
    Exit.CONFIGURATION: "the configuration can't be used, and why; or a master key is missing, wrong or not wanted",
    Exit.INTERRUPTED: "a command that SIGINT ended; what it had asked for is cancelled, a write may be done",
}


def table(*columns: str) -> list[str]:
    """The first two lines of a table."""
    return [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]


def kinds() -> str:
    rows = table("kind", "tier", "may derive from", "confidence at first", "decay: rate / days / floor", "subtypes")
    for kind, rule in KINDS.items():
        sources = ", ".join(source.wire for source in sorted(rule.sources)) or "nothing: a root"
        decay = "never" if rule.decay is None else " / ".join(f"{number:g}" for number in rule.decay)
        guarded = " (protected from birth: never)" if rule.protected else ""
        names = ", ".join(f"**{name}**" if name == rule.subtype else name for name in SUBTYPES[kind]) or "none"
        rows.append(f"| {kind.wire} | {rule.tier.wire} | {sources} | {rule.confidence} | {decay}{guarded} | {names} |")
    goals = " and ".join(name for place, name in enumerate(SUBTYPES[Kind.GOAL], 1) if place in PROTECTED_GOALS)
    return "\n".join(rows) + f"\n\nGoals of subtype {goals} are protected from birth too."


def origins() -> str:
    rows = table("origin", "is", "may be asserted", "hedge", "`assertable` in answers")
    for origin, rule in ORIGINS.items():
        hedge = f'"{rule.hedge}"' if rule.hedge else "none"
        told = "as they" if rule.assertable is Assertable.AS_SOURCES else str(may_assert(origin)).lower()
        may = ASSERTABLE_WORDS[rule.assertable.value]
        rows.append(f"| {origin.wire} | {ORIGIN_WORDS[origin]} | {may} | {hedge} | {told} |")
    roles = ", ".join(f"{role.wire} {ROLE_ORIGIN[role].wire}" for role in Role if role in ROLE_ORIGIN)
    return "\n".join(rows) + f"\n\nA turn that gives no origin takes that of its role: {roles}."


def happenings() -> str:
    return "\n".join(table("event", "says") + [f"| {each.wire} | {HAPPENING_WORDS[each]} |" for each in Happening])


def marks() -> str:
    rows = table("mark", "says")
    rows += [f"| {mark.wire} | {MARK_WORDS[mark]} |" for mark in Mark]
    order = ", ".join(status.wire for status in Status)
    return "\n".join(rows) + f"\n\n`status` shows the first of these that applies: {order}."


def roles() -> str:
    order = list(CallerRole)[:3]
    rows = table("verb", *(role.wire for role in order))
    for name, verb in VERBS.items():
        may = " | ".join("yes" if role in verb.roles else "" for role in order)
        rows.append(f"| [{name}](#{name}) | {may} |")
    return "\n".join(rows)


def configuration() -> str:
    rows = table("key", "type", "default", "range", "environment", "flag", "SIGHUP", "is")
    types = {field.name: field for field in msgspec.structs.fields(config.Config)}
    for key in config.KEYS:
        field = types[key]
        kind, span = _config_type(field.type)
        unit = " in seconds" if key.endswith("_s") else " in bytes" if key.endswith("_bytes") else ""
        environ = "" if key in config.TABLES else f"`{config.PREFIX}{key.upper()}`"
        flag = f"`--{key.replace('_', '-')}`" if key in FLAGS else ""
        reloads = "yes" if key in config.RELOADABLE else "needs a restart"
        cells = (key, kind + unit, _config_default(field), CONFIG_RANGES.get(key, span), environ, flag, reloads)
        rows.append(f"| {' | '.join(cells)} | {CONFIG_WORDS[key]} |")
    return "\n".join(rows)


def _config_default(field: msgspec.structs.FieldInfo) -> str:
    if field.name in CONFIG_DEFAULTS:
        return CONFIG_DEFAULTS[field.name]
    if field.default_factory is not msgspec.NODEFAULT:
        return "none"
    return "none" if field.default is None else f"`{field.default}`"


def _config_type(kind: Any) -> tuple[str, str]:
    """A key's type and its range."""
    if get_origin(kind) is Literal:
        return "text", ", ".join(get_args(kind))
    if kind in (str, str | None):
        return "text", ""
    meta = next((part for part in getattr(kind, "__metadata__", ()) if isinstance(part, msgspec.Meta)), None)
    if meta is not None:
        if get_args(kind)[0] is int:
            return "integer", f"{meta.ge}..{meta.le}"
        return "number", f"{meta.ge:g}..{meta.le:g}"
    return ("tables", "") if get_origin(kind) is list else ("name or number", "")


def told_limits() -> str:
    rows = table("limit", "value", "of")
    rows += [f"| {name} | {value} | {LIMIT_WORDS[name]} |" for name, value in limits.told_limits().items()]
    return "\n".join(rows)


def reasons() -> str:
    rows = table("reason", "code", "retryable", "exit", "what happened", "what to do")
    for reason in Reason:
        happened, todo = REASON_WORDS[reason]
        again = "yes" if reason.retryable else "no"
        rows.append(f"| {reason.wire} | {reason.code} | {again} | {of_reason(reason.wire)} | {happened} | {todo} |")
    return "\n".join(rows)


def exit_codes() -> str:
    return "\n".join(table("code", "means") + [f"| {code.value} | {EXIT_WORDS[code]} |" for code in Exit])


SECTIONS: dict[str, Callable[[], str]] = {
    "kinds": kinds,
    "origins": origins,
    "marks": marks,
    "happenings": happenings,
    "roles": roles,
    "configuration": configuration,
    "metrics": metric_table.table,
    "limits": told_limits,
    "reasons": reasons,
    "exit codes": exit_codes,
    "verbs": verb_sections,
    "sent": lambda: inner_sections(sent=True),
    "answered": lambda: inner_sections(sent=False),
}
