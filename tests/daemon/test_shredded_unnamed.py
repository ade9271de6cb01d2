"""A vault slot that is shredded without a PURGE record reads as purged everywhere, and is a finding (contract §3.2)."""

from __future__ import annotations

from typing import Any

from daemon.refusal import Reason
from journal.events import MemoryCreated
from journal.tsid import parse_memory_ref
from tests.daemon.slept import Slept, fact
from tests.daemon.told import reason_of


def shred(slept: Slept, ref: str) -> None:
    """Destroy the keys of a memory's parts; no record says so."""
    tsid = parse_memory_ref(ref)[1]
    slots = [
        part.slot
        for chunk in slept.store.log.chunks()
        for record in chunk
        if isinstance(record.event, MemoryCreated) and record.event.id == tsid
        for part in record.event.parts
    ]
    slept.store.vault.shred(slots)


def test_every_read_verb_answers_and_tells_it_purged(slept: Slept) -> None:
    gone, here = slept.turn("the gate is green"), slept.turn("other words")
    (note,) = slept.commit([fact(gone, here)])["notes"]
    shred(slept, gone)
    memory = slept.memory(gone)
    assert (memory["status"], memory["purged_at"], memory.get("text")) == ("purged", None, None)
    then = slept.read("get", {"ids": [gone], "as_known_at": "2030-01-01T00:00:00Z"})["memories"]
    assert then == [memory]
    listed = {each["id"]: each for full in (False, True) for each in slept.read("list", {"full": full})["memories"]}
    assert listed[gone]["status"] == "purged" and set(listed) == {gone, here, note}
    turns = slept.session(include=["turns"])["memories"]
    assert [each["status"] for each in turns] == ["purged", "active"]
    source = slept.explain(note)["sources"][0]
    assert (source["state"], source["text"], source["purged_at"]) == ("purged", None, None)
    assert slept.explain(gone)["id"] == gone
    for verb in ("trace", "history"):
        assert slept.read(verb, {"id": gone})
    assert slept.read("records", {"memory": gone})["total"] >= 2
    assert slept.read("session_provenance", {"session": slept.ref()})["derived"]
    assert slept.read("review", {})["total"] == 0
    codes = [finding["code"] for finding in slept.read("audit", {})["findings"]]
    assert codes == ["shredded_unnamed"]


def test_what_can_not_be_read_any_more_supports_no_stated_words_and_is_not_revised(slept: Slept) -> None:
    gone = slept.turn("the gate is green", topic="t")
    shred(slept, gone)
    note = {"kind": "note", "text": "gate is green", "origin": "stated", "producer": {"model": "m"}}
    reason, data = reason_of(lambda: slept.write("remember", {**note, "derived_from": [gone]}))
    assert (reason, data["parameter"]) == (Reason.PROVENANCE, "origin")

    def refusal(**params: Any) -> tuple[Reason, Any]:
        reason, data = reason_of(lambda: slept.write("revise", {"id": gone, **params}))
        return reason, data["current"]

    assert refusal(text="anew", origin="told") == (Reason.CONFLICT, "purged")
    assert refusal(disposition="move", fields={"topic": "x"}) == (Reason.CONFLICT, "purged")
