"""Vacuums between all other commands change no answer: the reference knows nothing of them. And of what was purged no
ciphertext is left, whichever partition they come to first."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.daemon.vacuumed import shredded_left
from tests.model.test_machine import Twins
from tests.model.test_machine_purging import PICKS, PurgingMachine

DAY_MS = 86_400_000


class Vacuumed(Twins):
    """Days go by without a write, and partitions are compacted, by force and not."""

    @rule(force=st.sampled_from([True, True, False]), tenant=st.sampled_from(["default", "other"]))
    def vacuum(self, force: bool, tenant: str) -> None:
        for result in self.opened.write("vacuum", {"force": force, "tenant": tenant})["results"]:
            removed = result["before_count"] - result["after_count"]
            assert removed == result["tombstones_removed"] and (result["compacted"] or not removed)

    @rule(days=st.integers(0, 1))
    def night(self, days: int) -> None:
        self.now_ms += days * DAY_MS
        self.opened.service.roll_over()


Vacuumed.TestCase.settings = settings(
    max_examples=30, stateful_step_count=50, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
TestVacuumed = pytest.mark.timeout(600)(Vacuumed.TestCase)


class PurgedAndVacuumed(PurgingMachine):
    """Partitions are compacted one by one, in any order: so nothing leaves because all that destroys keys is gone
    through."""

    @rule(pick=PICKS)
    def vacuum(self, pick: int) -> None:
        partitions = self.partitions()
        if partitions:
            self.opened.write("vacuum", {"force": True, "partition": partitions[pick % len(partitions)]})

    @rule(days=st.integers(0, 1))
    def night(self, days: int) -> None:
        self.opened.now_ms += days * DAY_MS
        self.opened.service.roll_over()

    def partitions(self) -> list[str]:
        return [row["partition"] for row in self.opened.read("partitions", {"limit": 1000})["results"]]

    def teardown(self) -> None:
        try:
            for partition in reversed(self.partitions()):
                self.opened.write("vacuum", {"force": True, "partition": partition})
            assert shredded_left(self.opened) == set()
        finally:
            super().teardown()


PurgedAndVacuumed.TestCase.settings = settings(
    max_examples=6, stateful_step_count=25, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
TestPurgedAndVacuumed = pytest.mark.timeout(600)(PurgedAndVacuumed.TestCase)
