"""What an operator's writes leave in tenants that are not its own, for one batch after the other.

A write says so in its own command. One that is refused or changes nothing tells something of the tenant all the same,
as a question does, and leaves as much: a record of its own, where none was left lately (`crossing.py`). It is committed
with the batch, so before it is answered. Invariant: what a batch leaves is remembered only when it is about to be
committed, for a batch may be built several times. Of the writer's thread only.
"""

from __future__ import annotations

from collections.abc import Callable

from daemon.admission import Admission
from daemon.caller import Caller
from daemon.commands.building import Building
from daemon.crossing import Crossings, crosses
from daemon.decision import Draft
from journal.events import OperatorCrossed
from journal.record import Actor


class Leaving:
    """`crossings` None: nobody looks after what was left lately, and only writes that change something leave it."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.crossings: Crossings | None = None
        self._now_ms = now_ms
        self._left: set[tuple[int, str, str]] = set()

    def begin(self) -> None:
        """A batch is built, perhaps anew."""
        self._left.clear()

    def note(self, building: Building, caller: Caller, verb: str) -> bool:
        """Have a command say so that changes something in another tenant; whether it does."""
        if not building.drafts or not crosses(caller, building.tenant_name):
            return False
        building.add(Draft(OperatorCrossed(verb)))
        self._left.add((caller.uid, building.tenant_name, verb))
        return True

    def say(
        self, admission: Admission, verb: str, tenant: str, correlation: str | None, caller: Caller, actor: Actor
    ) -> None:
        """Leave it in a tenant, if it has begun, of a command that left nothing else."""
        place = (caller.uid, tenant, verb)
        if self.crossings is None or place in self._left:
            return
        building = Building(admission.view, tenant, caller.uid)
        if building.tenant and self.crossings.is_due(verb, caller, (tenant,), self._now_ms()):
            building.add(Draft(OperatorCrossed(verb)))
            self._left.add(place)
            admission.admit(building, actor, verb, correlation)

    def remember(self) -> None:
        """The batch is about to be committed: the next question of each kind need not say it again."""
        if self.crossings is not None:
            for uid, tenant, verb in self._left:
                self.crossings.remember(uid, tenant, verb, self._now_ms())
