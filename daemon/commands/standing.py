"""verify, reinforce, weaken, reaffirm, mark: how well a memory stands (contract §4.6).

Three numbers that are never mixed: confidence is what is believed, strength how easily it is found, importance what it
is worth. Strength 0 is a tombstone's, so nothing here reaches it or leads away from it.
"""

from __future__ import annotations

from typing import Any

from daemon.commands.attachment import find_session, join, noted
from daemon.commands.building import Building
from daemon.commands.targets import (
    Target,
    flagged_children,
    grounds,
    refs,
    require,
    require_alive,
    support_of,
    unflagged_children,
    words,
)
from daemon.decision import Draft
from daemon.prepare import UNSET, invalid
from daemon.refusal import Reason, Refused
from daemon.wire.times import format_ms
from journal import events
from journal.codes import Mark
from journal.tsid import memory_ref
from projections import flags

VERIFIED_CONFIDENCE = 0.1
VERIFIED_STRENGTH = 0.1
SOURCE_BOOST = 0.02
REINFORCED_TOP = 0.99
REINFORCED_SHARE = 0.05
REINFORCED_SLOWS = 0.1
WEAKENED_DEFAULT = 0.1
WEAKENED_FLOOR = 0.01
DORMANT_BELOW = 0.2
"""A source that comes below flags what was made from it; one that comes back clears."""
DIGITS = 12
"""Decimal places that are kept: .3 less .1 is .2, not a little below, where it would be dormant."""


def moved(number: float, by: float) -> float:
    """A number that was raised or lowered."""
    return round(number + by, DIGITS)


def verify(building: Building, params: Any) -> dict[str, Any]:
    """Somebody has looked at it, and it is so: it and what it stands on gain. Raises Refused."""
    building.refuse_in_maintenance()
    target = require_alive(building, params.id)
    support = support_of(building, params, target)
    row = target.row
    confidence = min(1.0, moved(row.confidence, VERIFIED_CONFIDENCE))
    strength = min(1.0, moved(row.strength, VERIFIED_STRENGTH))
    boosted = _boosts(building, target)
    came_back = _cleared_by_boosts(building, target, boosted)
    back = row.strength < DORMANT_BELOW <= strength
    cleared = flagged_children(building, target.tsid) if back else ()
    own = [source for source, _ in flags.of_child(building.view.state, target.tsid)]
    event = events.Verified(
        memory=target.ref, old_confidence=row.confidence, new_confidence=confidence, old_strength=row.strength,
        new_strength=strength, verifications=row.verifications + 1, boosted=boosted, evidence=support.evidence,
        externals=support.externals, cleared=cleared, boost_cleared=came_back,
    )  # fmt: skip
    building.add(Draft(event, support.plain))
    unflagged = dict.fromkeys([*cleared, *(child for _, child in came_back), *([target.ref] if own else [])])
    return {
        "confidence": {"old": row.confidence, "new": confidence},
        "strength": {"old": row.strength, "new": strength},
        "boosted": [{"id": memory_ref(each.kind, each.id), "old": each.old, "new": each.new} for each in boosted],
        "verified_at": format_ms(building.view.now_ms),
        "verifications": row.verifications + 1,
        "flags_cleared": refs(tuple(unflagged)),
    }


def _boosts(building: Building, target: Target) -> tuple[events.Change, ...]:
    """Every live source once, also one that can't gain any more; none that a cohort holds back."""
    sources = grounds(building, target)
    living = [source for source in sources if not source.row.dead and not source.row.has(Mark.QUARANTINED)]
    return tuple([events.Change(kind, tsid, row.strength, _boosted(row.strength)) for kind, tsid, row in living])


def _cleared_by_boosts(
    building: Building, target: Target, boosted: tuple[events.Change, ...]
) -> tuple[tuple[events.Ref, events.Ref], ...]:
    """`(source, child)` of the flags of sources that are no longer dormant. Those of the memory itself go anyway."""
    back = [each for each in boosted if each.old < DORMANT_BELOW <= each.new]
    return tuple(
        [
            ((source.kind, source.id), child)
            for source in back
            for child in flagged_children(building, source.id)
            if child != target.ref
        ]
    )


def _boosted(strength: float) -> float:
    return min(1.0, moved(strength, SOURCE_BOOST))


def reinforce(building: Building, params: Any) -> dict[str, Any]:
    """It was met again: believed a little more, each time less so. Raises Refused."""
    building.refuse_in_maintenance()
    _refuse_amount(params, "reinforce")
    target = require_alive(building, params.id)
    support = support_of(building, params, target)
    row = target.row
    times = row.reinforcements + 1
    gain = (REINFORCED_TOP - row.confidence) * REINFORCED_SHARE / (1 + REINFORCED_SLOWS * times)
    confidence = row.confidence + max(0.0, gain)
    event = events.Reinforced(
        memory=target.ref, old_confidence=row.confidence, new_confidence=confidence, reinforcements=times,
        evidence=support.evidence, externals=support.externals,
    )  # fmt: skip
    building.add(Draft(event, support.plain))
    return _changed(target, confidence=confidence)


def weaken(building: Building, params: Any) -> dict[str, Any]:
    """It is to be found less easily. Coming to be dormant flags what was made from it. Raises Refused."""
    building.refuse_in_maintenance()
    target = require_alive(building, params.id)
    row = target.row
    if row.has(Mark.PROTECTED):
        raise Refused(Reason.CONFLICT, "a protected memory can't be weakened", parameter="id", ids=[params.id])
    support = support_of(building, params, target)
    amount = WEAKENED_DEFAULT if params.amount is UNSET else params.amount
    strength = min(row.strength, max(WEAKENED_FLOOR, moved(row.strength, -amount)))
    falls = strength < DORMANT_BELOW <= row.strength
    flagged = unflagged_children(building, target.tsid) if falls else ()
    event = events.Weakened(
        memory=target.ref, old_strength=row.strength, new_strength=strength, flagged=flagged,
        evidence=support.evidence, externals=support.externals,
    )  # fmt: skip
    building.add(Draft(event, support.plain))
    return {**_changed(target, strength=strength), "flags_set": refs(flagged)}


def reaffirm(building: Building, params: Any) -> dict[str, Any]:
    """It still holds: its confidence decays from now on. No number changes. Raises Refused."""
    building.refuse_in_maintenance()
    _refuse_amount(params, "reaffirm")
    target = require_alive(building, params.id)
    named = find_session(building, params.session)
    support = support_of(building, params, target)
    session, notes = join(building, named)
    event = events.Reaffirmed(
        memory=target.ref, session=session, evidence=support.evidence, externals=support.externals
    )
    building.add(Draft(event, support.plain))
    return {**_changed(target), **noted(notes)}


def mark(building: Building, params: Any) -> dict[str, Any]:
    """Put a mark on it, or take it off. What stands that way already is no change, in whatever session it is said.
    Raises Refused."""
    building.refuse_in_maintenance()
    target = require(building, params.id)
    named = find_session(building, params.session)
    wanted = Mark[params.mark.upper()]
    row, said = target.row, {}
    if row.has(wanted) != params.on:
        session, notes = join(building, named)
        event = events.Marked(memory=target.ref, mark=int(wanted), on=params.on, session=session)
        building.add(Draft(event, words(params.note)))
        row, said = row._replace(marks=row.marks ^ 1 << wanted), noted(notes)
    return {"marks": [each.wire for each in Mark if row.has(each)], **said}


def _refuse_amount(params: Any, verb: str) -> None:
    if params.amount is not UNSET:
        raise invalid("amount", f"{verb} takes no amount; only weaken does")


def _changed(target: Target, confidence: float | None = None, strength: float | None = None) -> dict[str, Any]:
    row = target.row
    return {
        "confidence": {"old": row.confidence, "new": row.confidence if confidence is None else confidence},
        "strength": {"old": row.strength, "new": row.strength if strength is None else strength},
        "flags_set": [],
        "flags_cleared": [],
    }
