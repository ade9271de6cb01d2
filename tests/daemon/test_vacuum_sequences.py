"""Any sequence of writes, deaths, passes, vacuums and days: partitions are what a small model of them says."""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from daemon.commands.partitions import ROWS_TO_CLOSE
from tests.daemon.slept import fact
from tests.daemon.vacuumed import Filled

DAY_MS = 86_400_000


class Day:
    """A day partition as the contract tells it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = "active"
        self.rows: set[str] = set()  # those that have a row
        self.dead: set[str] = set()
        self.waits: set[str] = set()  # turns that no pass has settled, dead ones too
        self.kept = 0

    @property
    def ratio(self) -> float:
        dead = len(self.rows & self.dead)
        return dead / len(self.rows) if self.rows else 0.0

    def steps(self) -> None:
        """Whatever follows from what it is now."""
        while (following := self._next()) != self.state:
            self.state = following

    def _next(self) -> str:
        due = bool(self.rows & self.dead) and self.ratio >= 0.2
        if self.state == "active":
            return "tombstoned" if due and len(self.rows) >= ROWS_TO_CLOSE else "active"
        if self.state in ("sealed", "reflectable"):
            return "tombstoned" if due else "sealed" if self.waits - self.dead else "reflectable"
        if self.state == "compacted" and self.rows & self.dead:
            return "tombstoned"
        return self.state


class Partitions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="noctuary-"))
        self.filled = Filled(self.root / "state")
        self.days: list[Day] = []
        self.where: dict[str, Day] = {}
        self.purged: set[str] = set()
        self.settled: set[str] = set()

    def teardown(self) -> None:
        try:
            assert self.filled.rebuilt_alike()
            assert self.filled.read("audit", {"rebuild": True})["findings"] == []
        finally:
            self.filled.close(True)
            shutil.rmtree(self.root)

    # --- the model ---------------------------------------------------------------------------------

    def _today(self) -> str:
        return f"{datetime.fromtimestamp(self.filled.now_ms / 1000, UTC):%Y-%m-%d}"

    def _seal_yesterday(self) -> None:
        if self.days and self.days[-1].state == "active" and self.days[-1].name[:10] < self._today():
            self.days[-1].state = "sealed"
            self.days[-1].steps()

    def _open(self) -> Day:
        self._seal_yesterday()
        if not self.days or self.days[-1].state != "active":
            today = self._today()
            part = sum(day.name[:10] == today for day in self.days)
            self.days.append(Day(f"{today}.{part}" if part else today))
        return self.days[-1]

    # --- what happens --------------------------------------------------------------------------------

    @rule(count=st.sampled_from([1, 5, 60, 110]))
    def write(self, count: int) -> None:
        items = [
            {"kind": "raw", "role": "user", "text": f"turn {self.filled.now_ms} {n}",
             "session": {"agent": "sleeper", "key": "one"}}
            for n in range(count)
        ]  # fmt: skip
        self.filled.now_ms += 1
        results = self.filled.write("remember_many", {"items": items})["results"]
        day = self._open()
        for each in results:
            day.rows.add(each["id"])
            day.waits.add(each["id"])
            self.where[each["id"]] = day

    @precondition(lambda self: self.where)
    @rule(data=st.data(), share=st.sampled_from([0.05, 0.2, 0.5]))
    def forget(self, data: st.DataObject, share: float) -> None:
        day = data.draw(st.sampled_from(self.days))
        alive = sorted(ref for ref, at in self.where.items() if at is day and ref not in day.dead)
        for ref in alive[: max(1, int(share * len(alive)))]:
            self.filled.forget(ref)
            day.dead.add(ref)
            day.steps()

    @precondition(lambda self: self.where)
    @rule(data=st.data())
    def purge(self, data: st.DataObject) -> None:
        ref = data.draw(st.sampled_from(sorted(self.where)))
        if ref in self.purged:
            return
        self.filled.purge(ref)
        self.purged.add(ref)
        self.where[ref].dead.add(ref)
        self.where[ref].steps()

    @precondition(lambda self: any(day.dead for day in self.days))
    @rule(data=st.data())
    def recover(self, data: st.DataObject) -> None:
        dead = sorted(ref for day in self.days for ref in day.dead - self.purged)
        if not dead:
            return
        ref = data.draw(st.sampled_from(dead))
        self.filled.now_ms += 1
        self.filled.write("recover", {"id": ref})
        day = self.where[ref]
        day.dead.discard(ref)
        day.rows.add(ref)
        day.steps()

    @precondition(lambda self: any(day.waits - day.dead for day in self.days))
    @rule(share=st.sampled_from([0.5, 1.0]), noise=st.booleans())
    def settle(self, share: float, noise: bool) -> None:
        waiting = sorted(ref for day in self.days for ref in day.waits - day.dead)
        chosen = waiting[: max(1, int(share * len(waiting)))]
        self.filled.now_ms += 1
        self.filled.commit([] if noise else [fact(*chosen)], noise=chosen if noise else [])
        for ref in chosen:
            self.where[ref].waits.discard(ref)
        for day in self.days:
            day.steps()

    @rule(force=st.booleans())
    def vacuum(self, force: bool) -> None:
        results = self.filled.vacuum(force=force, tier="episodic")
        for day in self.days:
            dead = day.rows & day.dead
            compacts = bool(dead) and (force or (day.state != "active" and day.ratio >= 0.2))
            told = results[day.name]
            assert told["compacted"] is compacts or (force and told["tombstones_removed"] == 0), day.name
            assert told["tombstones_removed"] == (len(dead) if compacts else 0)
            assert told["before_count"] == len(day.rows)
            if told["compacted"]:
                day.rows -= dead
                day.state = "compacted"
            assert told["after_count"] == len(day.rows)

    @rule(days=st.integers(0, 2), tick=st.booleans())
    def time(self, days: int, tick: bool) -> None:
        self.filled.now_ms += days * DAY_MS
        if tick:
            self.filled.service.roll_over()
            self._seal_yesterday()

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        self.filled.reopen(clean)

    # --- what holds ------------------------------------------------------------------------------------

    @invariant()
    def partitions_are_as_the_model_says(self) -> None:
        told = self.filled.listed(tier="episodic")
        assert {name: (row["state"], row["rows"], row["dead"]) for name, row in told.items()} == {
            day.name: (day.state, len(day.rows), len(day.rows & day.dead)) for day in self.days
        }
        self.filled.check_rows()

    @invariant()
    def every_memory_answers(self) -> None:
        for ref in sorted(self.where)[:: max(1, len(self.where) // 10)]:
            day = self.where[ref]
            status = "purged" if ref in self.purged else "forgotten" if ref in day.dead else "active"
            memory = self.filled.memory(ref)
            assert memory["status"] == status
            assert status == "purged" or memory["partition"] == day.name


Partitions.TestCase.settings = settings(
    max_examples=12, stateful_step_count=18, deadline=None, suppress_health_check=list(HealthCheck)
)
test_partitions = Partitions.TestCase
