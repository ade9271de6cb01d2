"""The same twins, with sessions that are put to sleep most of the time: passes in one commit and in several, noise
taken again, notes and turns forgotten and brought back between them, with crashes and rebuilds."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.model.test_machine import ARGUMENTS, Twins

WEIGHTS = {
    "remember": 2, "talk": 5, "commit_pass": 14, "end_pass": 3, "retake": 4, "forget_note": 3, "forget": 2,
    "end_over_dead": 3, "note_outside": 2, "recover": 2, "revise": 1, "verify": 1, "weaken": 1, "session_open": 1,
    "session_close": 1, "lifecycle": 1, "end_maintenance": 4, "repeat": 2, "reuse_key": 1, "step_clock": 2,
    "restart": 1, "kill": 2, "rebuild": 1,
}  # fmt: skip
WEIGHTED = [what for what, weight in WEIGHTS.items() for _ in range(weight)]


class SleepingTwins(Twins):
    """Mostly passes."""

    @rule(data=st.data(), what=st.sampled_from(WEIGHTED))
    def step(self, data: st.DataObject, what: str) -> None:
        step = getattr(self, what)
        step(**{name: data.draw(strategy, name) for name, strategy in ARGUMENTS[what].items()})


SleepingTwins.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TestSleepingTwins = pytest.mark.timeout(600)(SleepingTwins.TestCase)
