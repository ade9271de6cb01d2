"""What happens in the golden store, and the questions that are asked of it afterwards.

Everything that writes an event today is used at least once: two tenants, sessions that are opened, closed,
reopened and touched, every kind and every field of a memory, forgetting, recovering, keyed answers, a second
day, two passes of sleep with a procedure made from one of their notes, a purge, and a relation between two memories.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from daemon.commands.passes import PassParams
from daemon.wire.verbs import VERBS
from journal.codes import EdgeType
from journal.events import AnyEvent, Related
from journal.record import Actor, Cause, Record, encode_body
from journal.store import open_store
from journal.tsid import parse_memory_ref
from tests.model.opened import OPERATOR, OpenedService

START_MS = 1_790_000_000_000
MINUTE_MS = 60_000
DAY_MS = 86_400_000
AGENT = {"agent": "gardener", "key": "spring"}
PRODUCER = {"agent": "gardener", "model": "m-1", "version": "1.2", "extractor": "x/1"}
FULL_NOTE: dict[str, Any] = {
    "kind": "note", "subtype": "observation", "origin": "inferred", "text": "Ada painted the gate — twice ✓",
    "topic": "garden", "tags": ["gate", "paint"], "importance": 2.5, "valence": -0.25, "arousal": 0.5,
    "interest": 0.1, "challenge": 0.2, "urgency": 0.3, "confidence": 0.625, "protected": True,
    "entities": [{"name": "Ada", "type": "person"}], "vector": {"model": "v-1", "values": [0.5, -1.0, 0.25]},
    "producer": PRODUCER, "subject": "Ada", "project": "house", "source_entity": "camera 1",
    "facts": [{"subject": "gate", "predicate": "colour", "value": "green", "confidence": 0.5}],
    "valid_from": "2026-09-01T00:00:00Z", "valid_to": "2027-09-01T00:00:00Z",
    "occurred_at": "2026-09-20T08:15:00+02:00", "metadata": msgspec.Raw(b'{"z": 1, "a": [1.50, null]}'),
    "imported": {"format": "turns", "foreign_id": "old-7", "created_at": "2026-01-02T03:04:05Z"},
}  # fmt: skip
EXTERNAL = {"kind": "document", "id": "manual p. 12", "resolvable": True}


class Story:
    """Tells itself into a new store at `root`. `ids` are the memories, in the order they were made."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now_ms = START_MS
        self.ids: list[str] = []
        self.theirs = ""  # the memory of the other tenant
        self._opened = OpenedService(root, lambda: self.now_ms)
        self._closed = False

    def tell(self) -> None:
        self._first_day()
        self._second_day()
        self._opened.reopen(True)
        self._other_tenant()
        self.close()
        self._by_hand()

    def close(self) -> None:
        """A second time does nothing: the telling closes it, unless it ended early."""
        if not self._closed:
            self._closed = True
            self._opened.close(True)

    def _write(self, verb: str, **params: Any) -> dict[str, Any]:
        self.now_ms += MINUTE_MS
        return self._opened.write(verb, params)

    def _remember(self, **params: Any) -> str:
        self.ids.append(self._write("remember", **params)["id"])
        return self.ids[-1]

    def _first_day(self) -> None:
        self._write("session_open", **AGENT, project="house", subject="Ada", producer=PRODUCER, idempotency_key="s1")
        turns = [
            self._remember(kind="raw", role=role, text=text, session=AGENT, speaker="Ada", idempotency_key=f"t{number}")
            for number, (role, text) in enumerate(
                [("user", "the gate is green"), ("assistant", "noted"), ("tool", '{"ok": true}'), ("user", "noted")]
            )
        ]
        self._write("session_open", **AGENT)
        self._remember(**FULL_NOTE, derived_from=[*turns[:2], EXTERNAL], evidence=[turns[3], EXTERNAL])
        self._write("session_close", session=self._session())
        self._write("session_open", **AGENT)
        self._remember(kind="raw", role="user", text="x" * 6000, session=AGENT)  # spans overflow pages
        self._write("forget", id=turns[0], note="by mistake", idempotency_key="f1")
        self._write("recover", id=turns[0], note="it was needed")
        self._write("forget", id=turns[1])
        self._remember(kind="raw", subtype="capture", origin="observed", text="a capture")

    def _second_day(self) -> None:
        self.now_ms += DAY_MS
        items = [
            {"kind": "raw", "subtype": "capture", "origin": "stated", "text": f"seen {number}"} for number in range(70)
        ]
        results = self._write("remember_many", items=items, idempotency_key="many")["results"]
        self.ids += [each["id"] for each in results]
        self._write("lifecycle", state="active")
        self._night()

    def _night(self) -> None:
        """A pass of two commits, and one that takes noise again."""
        self._pass([{"text": "the gate is green", "turns": [self.ids[0], self.ids[3]], "quoted_from": [self.ids[0]]}],
                   noise=[self.ids[2]], last=False)  # fmt: skip
        self._pass([{"text": "Ada notes everything", "turns": [self.ids[5]], "tags": ["gate"], "arousal": 0.5}])
        self._remember(kind="raw", role="user", text="the gate is open", session=AGENT)
        turns = [self.ids[2], self.ids[-1]]
        score = {"turn": turns[1], "importance": 3.5, "surprise": 0.25, "distance": 0.5}
        (made,) = self._pass([{"text": "the gate was opened", "turns": turns}], scores=[score])
        self._remember(kind="procedure", origin="derived", text="close the gate", derived_from=[made])
        self._write("forget", id=made)

    def _pass(self, facts: list[dict[str, Any]], **more: Any) -> list[str]:
        """One commit of a pass over the first session; its notes."""
        self.now_ms += MINUTE_MS
        params = {"session": self._session(), "facts": facts, "producer": PRODUCER, **more}
        notes: list[str] = self._opened.service.commit_pass(msgspec.convert(params, PassParams), "default")["notes"]
        self.ids += notes
        return notes

    def _other_tenant(self) -> None:
        self.theirs = self._remember(kind="raw", subtype="capture", origin="stated", text="theirs", tenant="other")
        self._write("lifecycle", tenant="other", enforce=False, idempotency_key="l1", correlation="audit-9")
        self._write("session_open", agent="second", key="of another", tenant="other")

    def _session(self) -> str:
        found: str = self._opened.read("sessions", {})["sessions"][0]["session"]
        return found

    def _by_hand(self) -> None:
        """What no verb writes: a relation of an id of its own. Then the first capture of the second day is purged."""
        store = open_store(self.root, version="golden", now_ms=self.now_ms)
        try:
            target, source = parse_memory_ref(self.ids[8]), parse_memory_ref(self.ids[9])
            related = Related(source=source, target=target, edge_type=int(EdgeType.CONTRADICTS), edge=77)
            store.log.append([self._body(store.log.head().seq + 1, related)], [], store.log.state)
        finally:
            store.close(clean=True)
        opened = OpenedService(self.root, lambda: self.now_ms)
        try:
            opened.write("purge", {"ids": [self.ids[8]]})
        finally:
            opened.close(True)

    def _body(self, seq: int, event: AnyEvent) -> bytes:
        return encode_body(Record(seq, self.now_ms, 1, Actor(1000, 0, 0), Cause(seq, "by_hand"), event))


def questions(ids: list[str], session: str) -> list[tuple[str, dict[str, Any]]]:
    """What is asked of the golden store. `ids` as the story made them, `session` its first one."""
    return [
        ("get", {"ids": ids[:12]}),
        ("get", {"ids": ids[:12], "tenant": "other"}),
        ("list", {"limit": 1000}),
        ("list", {"limit": 1000, "full": True, "tenant": "other"}),
        ("list", {"limit": 1000, "sel": {"status": ["purged", "forgotten"]}}),
        ("sessions", {"limit": 100}),
        ("sessions", {"limit": 100, "tenant": "other"}),
        ("trace", {"id": ids[4], "direction": "sources"}),
        ("trace", {"id": ids[0], "direction": "dependents"}),
        ("explain", {"id": ids[0]}),
        *(("explain", {"id": ref}) for ref in ids if ref.startswith(("note", "procedure"))),
        ("session_provenance", {"session": session, "include_clients": True}),
        ("session", {"session": session, "include": ["turns", "passes", "derived"]}),
    ]


def asked(opened: OpenedService, verb: str, params: dict[str, Any]) -> Any:
    """The answer as it stands on the wire, read as JSON whose numbers stay as they are written."""
    answer = opened.service.read(verb, msgspec.convert(params, VERBS[verb].params), OPERATOR)
    return json.loads(msgspec.json.encode(answer), parse_float=str)


def answers(root: Path, ids: list[str], now_ms: int) -> dict[str, Any]:
    """The digests of the projections, folded anew, and the answers. Opens the store, which writes to it."""
    opened = OpenedService(root, lambda: now_ms)
    try:
        seq = opened.store.log.head().seq - 1  # without the record of this opening; a question may leave one too
        digests = opened.digests()
        session = opened.read("sessions", {})["sessions"][0]["session"]
        rows = [
            {"verb": verb, "params": params, "result": asked(opened, verb, params)}
            for verb, params in questions(ids, session)
        ]
        return {"now_ms": now_ms, "records": seq, "digests": digests, "answers": rows}
    finally:
        opened.close(False)
