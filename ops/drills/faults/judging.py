"""The judge of a fault drill: pure. It gets what callers were told and what is there, and counts faults.

Invariant: what is not known counts as a fault, never as passed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields

from ops.drills.faults.tracing import READING, Fault, Injection
from ops.drills.faults.writing import Fate, Write

LAWFUL_REFUSALS = frozenset({"read_only", "overloaded", "unavailable"})
KILLED, FINE, CANNOT_CREATE, IO_ERROR = -9, 0, 73, 74


@dataclass
class Verdict:
    """How often each thing went wrong. All are to be 0."""

    lost: int = 0  # acked, or there before, and not there; or sent again and still not there
    changed: int = 0  # acked, and there under that id with another text
    doubled: int = 0  # a text there more than once, or a second id for one key
    phantom: int = 0  # there, and refused or never sent
    gaps: int = 0  # not there, though a later write of the connection is
    torn: int = 0  # an atomic batch that is there in part
    silent: int = 0  # sent to a daemon that wasn't killed, and never answered
    unacked: int = 0  # there, and told unknown though only what comes behind the commit failed
    refused: int = 0  # for a reason that is not the caller's or the disk's
    hangs: int = 0  # no answer, no end, or no readiness within the time
    exits: int = 0  # another exit code than the contract's
    unopened: int = 0  # a daemon without faults doesn't start, or doesn't stop clean, on what was left
    findings: int = 0  # of audit with rebuild
    leaks: int = 0  # content or a traceback in the log

    @property
    def clean(self) -> bool:
        return not any(getattr(self, each.name) for each in fields(self))

    def __iadd__(self, other: Verdict) -> Verdict:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        return self


COLUMNS = tuple(each.name for each in fields(Verdict))


@dataclass
class Evidence:
    """What a run with a fault, and the clean run after it, showed."""

    base: list[str] = field(default_factory=list)  # texts from before the fault
    writes: list[Write] = field(default_factory=list)  # sent under the fault, in order
    before: list[tuple[str, str]] = field(default_factory=list)  # (id, text) after the clean start
    again: dict[str, tuple[str, ...]] = field(default_factory=dict)  # key -> ids, what wasn't refused, sent again
    after: list[tuple[str, str]] = field(default_factory=list)  # (id, text) after that


def judge_writes(seen: Evidence) -> Verdict:
    """Lost, changed, doubled, phantom, gaps, torn, refused."""
    verdict = Verdict()
    before, after = (Counter(text for _, text in there) for there in (seen.before, seen.after))
    ids = dict(seen.before)
    wanted = list(seen.base)
    for write in seen.writes:
        if write.fate is Fate.ACKED:
            wanted += write.texts
            pairs = list(zip(write.ids, write.texts, strict=False))
            verdict.lost += len(write.texts) - len(pairs)
            verdict.changed += sum(ids.get(ref, text) != text for ref, text in pairs)
            verdict.lost += sum(ref not in ids and text in before for ref, text in pairs)
        if write.fate is Fate.REFUSED:
            verdict.phantom += sum(before[text] for text in write.texts)
            verdict.refused += write.reason not in LAWFUL_REFUSALS
    verdict.lost += sum(text not in before for text in wanted)
    verdict.torn = sum(0 < sum(text in before for text in write.texts) < len(write.texts) for write in seen.writes)
    verdict.gaps = _gaps(seen.writes, before)
    sent = set(seen.base).union(*(write.texts for write in seen.writes))
    verdict.phantom += sum(many for text, many in (before | after).items() if text not in sent)
    verdict.doubled = sum(many > 1 for many in (before | after).values())
    kept = [write for write in seen.writes if write.fate is not Fate.REFUSED]
    expected = [*seen.base, *(text for write in kept for text in write.texts)]
    verdict.lost += sum(text in before and text not in after for text in wanted)
    verdict.lost += sum(text not in after for text in expected if text not in set(wanted))
    verdict.doubled += sum(_another_id(write, seen) for write in kept)
    return verdict


def judge_answers(injection: Injection, seen: Evidence) -> Verdict:
    """What a daemon that wasn't killed owes its callers: an answer to each, an ack behind the commit."""
    if injection.fault is Fault.KILL:
        return Verdict()
    unknown = [write for write in seen.writes if write.fate is Fate.UNKNOWN]
    verdict = Verdict(silent=sum(not write.reason for write in unknown))
    if injection.file.startswith(("projections", "vault")):
        there = {text for _, text in seen.before}
        verdict.unacked = sum(not there.isdisjoint(write.texts) for write in unknown)
    return verdict


def _gaps(writes: list[Write], before: Counter[str]) -> int:
    """Texts that are not there though one behind is; refused ones don't count."""
    texts = [text for write in writes if write.fate is not Fate.REFUSED for text in write.texts]
    there = [text in before for text in texts]
    last = max((at for at, here in enumerate(there) if here), default=-1)
    return there[: last + 1].count(False)


def _another_id(write: Write, seen: Evidence) -> bool:
    """Whether sending it again was answered with another id than it had, or not at all."""
    again = seen.again.get(write.key, ())
    if write.fate is Fate.ACKED:
        return again != write.ids
    had = {text: ref for ref, text in seen.before}
    known = tuple(had.get(text, "") for text in write.texts)
    return not again or (all(known) and again != known)


def lawful_exits(injection: Injection, creating: bool) -> frozenset[int]:
    """The exit codes that the contract leaves for a fault (PROTOCOL §7, DESIGN §3.3)."""
    file = injection.file
    if injection.fault is Fault.KILL:
        return frozenset({KILLED})
    if injection.fault is Fault.SHORT and not file.startswith("journal"):
        return frozenset({FINE, IO_ERROR})  # a short write may be gone on with
    if file.startswith(("projections", "reserve")):
        return frozenset({FINE, IO_ERROR})  # nothing is lost with them: going on is as good
    if injection.call in READING:
        return frozenset({FINE, IO_ERROR})  # what was not read may not have been needed
    if injection.call == "mkdir":
        return frozenset({FINE, IO_ERROR, CANNOT_CREATE} if creating else {FINE, IO_ERROR})  # it may be there
    return frozenset({IO_ERROR})
