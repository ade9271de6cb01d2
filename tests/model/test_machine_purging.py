"""Purges with cascades between other commands, crashes and rebuilds, held against a reference that says it simply.

After each step: what is purged is what the reference says, no more; no key opens a text that nobody may read; living
memories answer in full; and at the end the state folded from the journal alone is the live one, also when every key of
the vault is destroyed.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from daemon.refusal import Reason, Refused
from journal.store import open_store
from projections.store import ProjectionStore
from tests.daemon.purged import Purging
from tests.daemon.slept import fact
from tests.model.purging import Memory, Store

TEXTS = st.sampled_from([f"text {letter}" for letter in "abcdefgh"])
SESSIONS = st.sampled_from(["one", "two"])
PICKS = st.integers(0, 1 << 30)
CASCADES = st.sampled_from(["none", "derived", "ungrounded", "versions"])
ENTITY = {"name": "everybody", "type": "person"}


def _went(told: dict[str, Any]) -> bool:
    """Whether it went by this purge: of one that went before, the receipt of that one is told."""
    return bool(told["keys_shredded"]) and told["receipt"] is None


class PurgingMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="noctuary-purging-"))
        self.opened = Purging(self.directory / "state")
        self.model = Store()

    def teardown(self) -> None:
        try:
            self.same_without_keys()
            assert self.opened.rebuilt_alike()
        finally:
            self.opened.close(True)
            shutil.rmtree(self.directory)

    def same_without_keys(self) -> None:
        live = self.opened.digests()
        self.opened.close(True)
        copy = self.directory / "copy"
        shutil.copytree(self.opened.root, copy)
        shutil.rmtree(copy / "projections")
        store = open_store(copy, version="test", now_ms=self.opened.now_ms)
        try:
            store.vault.shred(range(1, store.log.state.vault_next))
            folded = ProjectionStore.open(store.dir.projections_dir, store.boot_id)
            folded.catch_up(store.log)
            assert folded.digests() == live
            folded.close(True)
        finally:
            store.close(True)
        self.opened._open()

    def pick(self, pick: int, **wanted: bool) -> str | None:
        names = [
            name for name, memory in self.model.memories.items()
            if all(getattr(memory, field) is value for field, value in wanted.items())
        ]  # fmt: skip
        return names[pick % len(names)] if names else None

    def write(self, memory: Memory, verb: str, params: dict[str, Any]) -> None:
        """Refused when its text is blocked, else it is there."""
        self.opened.now_ms += 1
        try:
            memory.name = str(self.opened.write(verb, params)["id"])
        except Refused as refused:
            assert refused.reason is Reason.CONFLICT and memory.text in self.model.blocked, refused
            return
        assert memory.text not in self.model.blocked
        self.model.memories[memory.name] = memory

    @rule(text=TEXTS, session=SESSIONS)
    def say(self, text: str, session: str) -> None:
        params = {"kind": "raw", "role": "user", "text": text, "session": {"agent": "sleeper", "key": session}}
        known = self.opened.read("sessions", {"limit": 1000})["sessions"]
        key = next((row for row in known if row["key"] == session), None)
        self.write(Memory("", text, session=session), "remember", params)
        assert key is None or key["state"] != "purged"

    @rule(text=TEXTS, first=PICKS, second=PICKS)
    def note(self, text: str, first: int, second: int) -> None:
        sources = {each for each in (self.pick(first, purged=False), self.pick(second, purged=False)) if each}
        sources = {each for each in sources if each.startswith("raw:")}
        if not sources:
            return
        params = {"kind": "note", "origin": "inferred", "text": text, "derived_from": sorted(sources),
                  "entities": [ENTITY], "topic": text}  # fmt: skip
        self.write(Memory("", text, sources=frozenset(sources), topic=text), "remember", params)

    @rule(text=TEXTS, pick=PICKS)
    def quote(self, text: str, pick: int) -> None:
        turn = self.pick(pick, purged=False, held=False, forgotten=False)
        memory = self.model.memories[turn] if turn else None
        if turn is None or memory is None or memory.session is None:
            return
        try:
            facts = [fact(turn, text=text, quoted_from=[turn])]
            (note,) = self.opened.commit(facts, memory.session)["notes"]
        except (Refused, StopIteration):  # it is settled, or its session's key went and came again
            return
        found = frozenset([turn])
        self.model.memories[note] = Memory(note, text, session=memory.session, sources=found, quotes=found)

    @rule(text=TEXTS, pick=PICKS)
    def revise(self, text: str, pick: int) -> None:
        before = self.pick(pick, purged=False, forgotten=False)
        if before is None or any(memory.before == before for memory in self.model.memories.values()):
            return
        after = Memory("", text, before=before, topic=self.model.memories[before].topic)
        self.write(after, "revise", {"id": before, "text": text, "origin": "observed"})

    @rule(pick=PICKS, back=st.booleans())
    def forget(self, pick: int, back: bool) -> None:
        name = self.pick(pick, purged=False, forgotten=back)
        if name is not None:
            self.opened.do("recover" if back else "forget", name, note="text of a note")
            self.model.memories[name].forgotten = not back

    @rule(pick=PICKS, on=st.booleans())
    def hold(self, pick: int, on: bool) -> None:
        name = self.pick(pick, purged=False, held=not on)
        if name is not None:
            assert self.opened.hold(name, on=on, note="why")["changed"] == [name]
            self.model.memories[name].held = on

    @rule(picks=st.lists(PICKS, min_size=1, max_size=3), cascade=CASCADES, block=st.booleans(), how=st.integers(0, 3))
    def purge(self, picks: list[int], cascade: str, block: bool, how: int) -> None:
        named = {name for pick in picks if (name := self.pick(pick))}
        if not named:
            return
        block = block and how == 0
        more = {"cascade": cascade, "block_reingest": block}
        living = {name for name in named if not self.model.memories[name].purged}
        if how == 1 and living:  # as a selection
            named = living
            wanted = self.model.purge(named, cascade, block)
            self.purge_selected(named, more, wanted)
            return
        wanted = self.model.purge(named, cascade, block)
        try:
            told = self.opened.purge(*sorted(named), **more)
        except Refused as refused:
            assert wanted is None and refused.reason is Reason.LEGAL_HOLD
            return
        self.compare(told, wanted)

    def purge_selected(self, named: set[str], more: dict[str, Any], wanted: set[str] | None) -> None:
        sel = {"ids": sorted(named)}
        try:
            token = self.opened.select(sel, **more)["token"]
        except Refused as refused:
            assert wanted is None and refused.reason is Reason.LEGAL_HOLD
            return
        self.compare(self.opened.select(sel, token=token, **more), wanted)

    def compare(self, told: dict[str, Any], wanted: set[str] | None) -> None:
        assert wanted is not None
        assert {each["memory"] for each in told["results"] if _went(each) or each["memory"] in wanted} == wanted
        assert told["count"] == len(wanted)
        for each in told["results"]:
            for name in ("derived_surviving", "sources_surviving", "versions_surviving"):
                assert not any(self.model.memories[ref].purged for ref in each[name])

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        self.opened.reopen(clean)

    @rule()
    def rebuild(self) -> None:
        self.opened.rebuild()

    @invariant()
    def what_is_gone_is_gone_and_the_rest_is_there(self) -> None:
        names = list(self.model.memories)
        for start in range(0, len(names), 20):
            for row in self.opened.read("get", {"ids": names[start : start + 20]})["memories"]:
                memory = self.model.memories[row["id"]]
                assert (row["status"] == "purged") is memory.purged
                assert memory.purged or row["text"] == memory.text
        kept = self.model.readable()
        for text in {memory.text for memory in self.model.memories.values()} - kept:
            assert self.opened.readable(text) == []
        notes = any(not each.purged and each.name.startswith("note:") for each in self.model.memories.values())
        names_it = bool(self.opened.readable("everybody"))
        assert notes or not names_it

    @invariant()
    def sessions_keep_their_key_while_something_of_them_is_there(self) -> None:
        rows = self.opened.read("sessions", {"limit": 1000})["sessions"]
        assert {row["key"] for row in rows if row["key"]} == self.model.named_sessions()


PurgingMachine.TestCase.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestPurgingMachine = pytest.mark.timeout(900)(PurgingMachine.TestCase)
