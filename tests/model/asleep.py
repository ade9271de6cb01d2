"""The steps of the state machine that put a session to sleep, and what is asked of passes afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from journal.tsid import parse_memory_ref, parse_tsid
from projections import passes as folded
from projections.sessions import number_of
from projections.state import State
from tests.model import domain, passes
from tests.model.comparing import Comparing
from tests.model.domain import Name

PICKS = st.integers(0, 999)
FACTS = st.lists(st.lists(PICKS, min_size=1, max_size=3), max_size=3)
FACT_TEXTS = st.sampled_from(["the gate is green", "it rains", "noon", "the gate was painted green"])


def arguments(tenants: st.SearchStrategy[str], keys: st.SearchStrategy[str | None]) -> dict[str, Any]:
    """What the steps here draw."""
    return {
        "talk": {"tenant": tenants, "pick": PICKS, "count": st.integers(1, 5)},
        "commit_pass": {
            "tenant": tenants, "key": keys, "pick": PICKS, "facts": FACTS, "noise": st.lists(PICKS, max_size=2),
            "last": st.sampled_from([False, True]), "text": FACT_TEXTS,
            "number": st.sampled_from([None, None, None, None, 1, 2]),
            "choice": st.sampled_from([*["waiting"] * 6, *["noise"] * 4, "settled", "turns", "anything", "careless"]),
        },
        "end_pass": {"tenant": tenants, "pick": PICKS},
        "retake": {"tenant": tenants, "pick": PICKS, "last": st.booleans()},
        "forget_note": {"tenant": tenants, "pick": PICKS},
        "end_over_dead": {"tenant": tenants, "pick": PICKS},
        "note_outside": {"tenant": tenants, "pick": PICKS},
    }  # fmt: skip


class Asleep(Comparing):
    """Mixed into the state machine."""

    def talk(self, tenant: str, pick: int, count: int) -> None:
        """Turns in one of the tenant's sessions, or in its first one."""
        known = self.model.tenants.get(tenant)
        names = list(known.sessions) if known else []
        session: Any = names[pick % len(names)] if names else {"agent": "alpha", "key": "one"}
        turn = {"kind": "raw", "role": "user", "text": "the gate was painted green", "session": session}
        self.both(tenant, "remember_many", {"items": [dict(turn) for _ in range(count)]}, None)

    def commit_pass(
        self, tenant: str, key: str | None, pick: int, facts: list[list[int]], noise: list[int], last: bool,
        text: str, number: int | None, choice: str,
    ) -> None:  # fmt: skip
        session = self._session(tenant, pick)
        if session is None:
            return
        pool = self._pool(session, choice)
        if not pool:
            return
        chosen = [[pool[each % len(pool)] for each in fact] for fact in facts]
        left = [pool[each % len(pool)] for each in noise]
        if choice != "careless":
            chosen = [list(dict.fromkeys(fact)) for fact in chosen]
            taken = {name for fact in chosen for name in fact}
            left = [name for name in dict.fromkeys(left) if name not in taken]
        args: dict[str, Any] = {
            "session": session.name,
            "facts": [
                {"text": f"{text} {place}", "turns": turns, "quoted_from": turns[: len(turns) // 2]}
                for place, turns in enumerate(chosen)
            ],
            "noise": left,
            "last": last,
        }
        self.both(tenant, "commit_pass", args | ({} if number is None else {"number": number}), key)

    def end_pass(self, tenant: str, pick: int) -> None:
        session = self._session(tenant, pick)
        if session is not None:
            args = {"session": session.name, "facts": [], "noise": [], "last": True}
            self.both(tenant, "commit_pass", args, None)

    def retake(self, tenant: str, pick: int, last: bool) -> None:
        """A fact from noise that there is and a turn that waits, if one does: noise of an earlier pass comes back, of
        the open one it must not."""
        known = self.model.tenants.get(tenant)
        found = []
        for session in known.sessions.values() if known else ():
            noise = [name for name, (promoted, _) in session.settled.items() if not promoted]
            if noise:
                found.append((session, [noise[pick % len(noise)], *self._pool(session, "waiting")[:1]]))
        if found:
            session, turns = found[pick % len(found)]
            facts = [{"text": "it was no noise", "turns": turns}]
            self.both(tenant, "commit_pass", {"session": session.name, "facts": facts, "noise": [], "last": last}, None)

    def forget_note(self, tenant: str, pick: int) -> None:
        """Forget a note that a pass made, or bring it back."""
        known = self.model.tenants.get(tenant)
        made = [row.note for session in known.sessions.values() for row in session.rows] if known else []
        if known and made:
            name = made[pick % len(made)]
            dead = known.memories[name].forgotten_at is not None
            self.both(tenant, "recover" if dead else "forget", {"id": name}, None)

    def end_over_dead(self, tenant: str, pick: int) -> None:
        """The last commit of a pass, with one more fact, while the note of an earlier one is forgotten."""
        known = self.model.tenants.get(tenant)
        for session in known.sessions.values() if known else ():
            made = [row.note for row in session.rows if row.number == session.open_pass]
            left = [name for name in self._pool(session, "waiting") if known and not known.memories[name].forgotten_at]
            if made and left:
                facts = [{"text": "one more", "turns": left[:1]}]
                args = {"session": session.name, "facts": facts, "noise": [], "last": True}
                self.both(tenant, "forget", {"id": made[pick % len(made)]}, None)
                self.both(tenant, "commit_pass", args, None)
                return

    def note_outside(self, tenant: str, pick: int) -> None:
        """A client's note that carries no session, made from a turn of one."""
        session = self._session(tenant, pick)
        if session is not None and session.turns:
            turn = session.turns[pick % len(session.turns)]
            note = {"kind": "note", "text": "from outside", "origin": "observed", "derived_from": [turn]}
            self.both(tenant, "remember", note, None)

    def _session(self, tenant: str, pick: int) -> domain.Session | None:
        """Mostly one of the tenant's own."""
        mine = self.model.tenants.get(tenant)
        known = list(mine.sessions.values()) if mine else []
        if pick % 16 == 7:
            known = [each for other in self.model.tenants.values() for each in other.sessions.values()]
        return known[pick // 16 % len(known)] if known else None

    def _pool(self, session: domain.Session, choice: str) -> list[Name]:
        if choice in ("waiting", "careless"):
            return passes.unsettled(session)
        if choice == "noise":
            return [name for name in session.turns if not session.settled.get(name, (False, 0))[0]]
        if choice == "settled":
            return list(session.settled)
        return list(session.turns) if choice == "turns" else list(self.kinds)

    # --- comparing -------------------------------------------------------------------------------

    def compare_sleep(self, tenant_name: str, tenant: domain.Tenant, session: domain.Session) -> None:
        """What a session says of its passes, row by row and turn by turn."""
        asked = {"tenant": tenant_name, "session": self.names[session.name]}
        got = self.opened.read("session", {**asked, "include": ["passes"]})
        promoted = sum(how for how, _ in session.settled.values())
        waiting = passes.waiting(tenant, session)
        self.match(
            {"promoted": promoted, "noise": len(session.settled) - promoted, "unsettled": len(waiting)}, got["sleep"]
        )
        self.match(
            [
                {
                    "pass": number, "facts": sum(row.number == number for row in session.rows), "turns": done.turns,
                    "partial": done.open, "at": domain.when(done.at),
                }
                for number, done in sorted(session.passes.items())
            ],
            got["passes"],
        )  # fmt: skip
        unsettled = [self.names[name] for name in passes.unsettled(session)]
        assert self._folded(session.name) == (unsettled, [self.names[name] for name in waiting])
        rows = [self.row(tenant, session, row.note) for row in session.rows]
        notes = passes.by_clients(tenant, session)
        counted = {"derived": rows, "truncated": False, "client_notes": len(notes)}
        self.match(counted, self.opened.read("session_provenance", asked))
        told = self.opened.read("session_provenance", {**asked, "include_clients": True})
        self.match({"derived": [*rows, *(self._client_row(tenant, session, note) for note in notes)]}, told)
        assert [row["content_hash_hi"] != 0 for row in told["derived"]] == [
            row["state"] != "tombstone" for row in told["derived"]
        ]

    def _folded(self, session: Name) -> tuple[list[str], list[str]]:
        """The unsettled turns of a session, and those of them that wait, as they were folded."""
        opened = self.opened
        with opened.projections.snapshot() as snapshot:
            state = State(snapshot, opened.projections.counters, opened.projections.head)
            number = number_of(state, parse_tsid(self.names[session].partition(":")[2]))
            assert number is not None
            unsettled, waiting = folded.unsettled_turns(state, number), folded.waiting_turns(state, number)
            return self._refs(unsettled), self._refs(waiting)

    def _refs(self, turns: Iterable[tuple[int, int]]) -> list[str]:
        known = {parse_memory_ref(ref)[1]: ref for ref in self.names.values() if ref.startswith("raw:")}
        return [known[tsid] for _, tsid in turns]

    def row(self, tenant: domain.Tenant, session: domain.Session, note: Name) -> dict[str, Any]:
        """The row of a note that a pass made, as it is to be told."""
        place = next(place for place, row in enumerate(session.rows) if row.note == note)
        row = session.rows[place]
        return {
            "id": note, "session": session.name, "state": passes.states(tenant, session)[place], "pass": row.number,
            "fact_index": row.index, "batch_count": row.count, "turn_count": len(row.turns),
            "first_seq": row.turns[0], "last_seq": row.turns[-1], "at": domain.when(row.at), "source": None,
        }  # fmt: skip

    def _client_row(self, tenant: domain.Tenant, session: domain.Session, note: domain.Memory) -> dict[str, Any]:
        standing = domain.standing_on(tenant, note.name)
        places = sorted(session.turns.index(name) + 1 for name in standing if name in session.turns)
        return {
            "id": note.name, "session": session.name,
            "state": "live" if note.forgotten_at is None else "tombstone", "pass": None, "fact_index": None,
            "turn_count": len(places), "first_seq": places[0] if places else None,
            "last_seq": places[-1] if places else None,
        }  # fmt: skip

    def compare_explained(self, tenant_name: str, tenant: domain.Tenant, memory: domain.Memory) -> None:
        made = {row.note: session for session in tenant.sessions.values() for row in session.rows}
        how = {"consolidated": "consolidated", "seeded": "seeded"}.get(memory.origin, "written")
        expected: dict[str, Any] = {
            "id": memory.name,
            "how": how,
            "origin": memory.origin,
            "session": memory.session,
            "turn": memory.turn,
            "sources": [self._source(tenant, name) for name in memory.sources],
            "evidence": [self._source(tenant, name) for name in memory.evidence],
            "quoted_from": memory.quoted,
        }
        if memory.name in made:
            expected["row"] = self.row(tenant, made[memory.name], memory.name)
        got = self.opened.read("explain", {"tenant": tenant_name, "id": self.names[memory.name]})
        self.match(expected, got)
        if memory.name not in made and memory.kind != "procedure":
            assert got["row"] is None

    def _source(self, tenant: domain.Tenant, name: Name) -> dict[str, Any]:
        source = tenant.memories[name]
        state = "live" if source.forgotten_at is None else "forgotten"
        return {"ref": name, "state": state, "text": source.text}
