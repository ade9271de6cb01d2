"""purge by ids: what it destroys, what it tells, what it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from msgspec import Raw

from daemon.refusal import Reason
from journal.purges import read_purges
from journal.tsid import parse_memory_ref
from projections.warming import warm
from projections.workingset import WorkingSet
from tests.daemon.cohorted import refused
from tests.daemon.purged import Purging
from tests.daemon.slept import fact

BOB = {"name": "canary bob", "type": "person"}


@pytest.fixture
def purging(tmp_path: Path) -> Iterator[Purging]:
    opened = Purging(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def one(result: dict[str, Any]) -> dict[str, Any]:
    (found,) = result["results"]
    return dict(found)


def test_whatever_was_sealed_about_a_memory_can_be_opened_no_more(purging: Purging) -> None:
    ref = purging.capture(
        "canary text", topic="canary topic", tags=["canary"], entities=[BOB], speaker="canary", subject="canary",
        metadata=Raw(b'{"canary": 1}'), source={"kind": "url", "id": "canary://x"},
        vector={"model": "m", "values": [0.5]},
        facts=[{"subject": "canary", "predicate": "p", "value": "canary"}], idempotency_key="k",
    )  # fmt: skip
    other = purging.capture("other")
    purging.do("verify", ref, note="canary", evidence=[{"kind": "url", "id": "canary://y"}])
    purging.do("reaffirm", ref, note="canary")
    purging.do("revise", ref, disposition="move", fields={"topic": "canary moved"})
    purging.do("mark", ref, mark="archived", note="canary", idempotency_key="marked")
    purging.do("forget", ref, note="canary")
    proposal = {"proposal_kind": "edge", "memory": other, "other": ref, "edge": "extends", "note": "canary"}
    purging.write("propose", proposal)
    assert len(purging.readable("canary")) >= 10
    result = purging.purge(ref)
    assert purging.readable("canary") == []
    assert purging.store.vault.state(1).name == "SHREDDED"
    assert result["totals"]["keys_shredded"] == one(result)["keys_shredded"] >= 11
    assert purging.memory(other)["text"] == "other"
    assert purging.rebuilt_alike()
    purging.reopen(False)
    assert purging.readable("canary") == [] and purging.status(ref) == "purged"


def test_every_field_of_a_result_says_what_was_done(purging: Purging) -> None:
    source, note = purging.capture("source text"), ""
    note = purging.note(None, source, text="the note", topic="t", entities=[BOB])
    belief = purging.belief(note)
    later = purging.do("revise", note, text="later", origin="inferred")["id"]
    purging.now_ms += 5
    result = purging.purge(note, reason="privacy")
    told = one(result)
    event = purging.records("Purged")[-1].event
    assert told.pop("disclosure").startswith("The keys of all that was sealed") and told.pop("purged_at").endswith("Z")
    assert len(told.pop("retained_header_fields")) == 10 and "edges" in told.pop("retained_journal_fields")
    assert told.pop("unreachable_copies") == [
        "dr_exports", "replica_disks", "cold_tier_objects", "filesystem_snapshots_and_backups",
        "wal_segments_prior_to_the_last_checkpoint", "os_page_cache_and_ssd_wear_levelling_remnants",
    ]  # fmt: skip
    assert told == {
        "memory": note, "tenant": "default", "found": True, "keys_shredded": 2,
        "payload_bytes": sum(part.length for part in event.parts), "text_bytes": 8, "text_retained_shared": 0,
        "text_shared_with": 0, "text_destroyed": True, "has_local_retention": False, "hebbian_edges_removed": 0,
        "temporal_unlinked": False, "entity_links_removed": 1, "hyperedges_removed": 0, "quoting_purged": [],
        "derived_surviving": [belief], "sources_surviving": [source], "versions_surviving": [later],
        "fingerprint_retained": False, "quoting_purged_count": 0, "derived_surviving_count": 1,
        "sources_surviving_count": 1, "versions_surviving_count": 1, "receipt": None, "damaged": False,
    }  # fmt: skip
    assert (result["count"], result["totals"]["memories"], result["totals"]["found"]) == (1, 1, 1)
    assert event.reason == 1 and event.file_system


def test_a_second_purge_does_nothing_and_tells_what_the_first_one_said(purging: Purging) -> None:
    ref, twin = purging.capture("once"), purging.capture("once")
    source = purging.note(None, ref)
    done = purging.purge(ref, block_reingest=True)
    first = one(done)
    assert first["has_local_retention"] and first["fingerprint_retained"] and first["derived_surviving"] == [source]
    head = purging.store.log.head().seq
    purging.now_ms += 1000
    for more in ({}, {"dry_run": True}, {"cascade": "versions"}):
        again = purging.purge(ref, **more)
        assert one(again) == {**first, "receipt": done["receipt"]}
        assert (again["receipt"], again["count"], again["totals"]["keys_shredded"]) == (None, 0, 0)
        assert (again["totals"]["memories"], again["totals"]["found"]) == (0, 1)
    assert purging.store.log.head().seq == head and len(purging.records("Purged")) == 1
    for more in ({"dry_run": True}, {}, {}):
        both = purging.purge(twin, source, ref, **more)["results"]
        assert both[0]["text_destroyed"] and both[2]["receipt"] == done["receipt"]
        left = both[2]["text_retained_shared"], both[2]["text_destroyed"], both[2]["derived_surviving_count"]
        assert left == (0, True, 0) and both[2]["derived_surviving"] == [], "another purge has taken that since"
    (receipt,) = purging.read("purges", {"receipt": both[2]["receipt"]})["purges"]
    assert receipt["memories"] == [ref] and receipt["results"] == [first], "a receipt says what it said"


def test_what_is_not_there_is_told_with_what_no_purge_reaches(purging: Purging) -> None:
    ref = purging.capture("here")
    unknown, wrong_kind = "raw:0000000000001", ref.replace("raw", "note")
    result = purging.purge(unknown, wrong_kind, ref, unknown)
    assert [(each["memory"], each["found"]) for each in result["results"]] == [
        (unknown, False), (wrong_kind, False), (ref, True),
    ]  # fmt: skip
    told = result["results"][0]
    assert told["purged_at"] is None and told["disclosure"] and len(told["unreachable_copies"]) == 6
    assert told["retained_header_fields"] == [] and result["totals"]["found"] == 1
    assert purging.write("purge", {"ids": [unknown], "tenant": "nobody"})["results"][0]["found"] is False


def test_co_tenants_of_a_text_keep_it_until_the_last_is_purged(purging: Purging) -> None:
    """The story of the seed: M2 goes and the text stays; a forgotten one counts; the last one takes it along."""
    text = "System initialized"
    m1, m2, m3 = (purging.capture(text, topic=f"topic of {number}") for number in range(3))
    purging.do("forget", m3)
    told = one(purging.purge(m2))
    assert (told["text_retained_shared"], told["text_shared_with"]) == (18, 2)
    assert (told["has_local_retention"], told["text_destroyed"], told["text_bytes"]) == (True, False, 0)
    assert purging.readable("topic of 1") == [] and purging.memory(m1)["text"] == text
    told = one(purging.purge(m1))  # whose record owns the text
    assert (told["text_retained_shared"], told["text_shared_with"]) == (18, 1)
    purging.do("recover", m3)
    assert purging.memory(m3)["text"] == text
    told = one(purging.purge(m3))
    assert (told["text_retained_shared"], told["text_destroyed"], told["has_local_retention"]) == (0, True, False)
    assert purging.readable("System") == [] and purging.rebuilt_alike()


def test_co_tenants_that_go_together_take_their_text_along_once(purging: Purging) -> None:
    refs = [purging.capture("twin") for _ in range(3)]
    result = purging.purge(*refs)
    assert [each["text_destroyed"] for each in result["results"]] == [True] * 3
    assert (result["totals"]["keys_shredded"], result["totals"]["text_bytes"]) == (1, 4)
    assert purging.readable("twin") == []


def test_a_text_that_was_purged_is_sealed_anew_when_it_comes_again(purging: Purging) -> None:
    """Spector #404: nothing shares a part whose key is gone, at once or after a restart."""
    purging.purge(purging.capture("phoenix"))
    again = purging.capture("phoenix")
    assert purging.memory(again)["text"] == "phoenix"
    purging.reopen(True)
    assert purging.memory(again)["text"] == "phoenix"
    assert purging.memory(purging.capture("phoenix"))["text"] == "phoenix"


def test_a_blocked_text_is_refused_for_its_tenant_in_every_write_and_after_restarts(purging: Purging) -> None:
    ref = purging.capture("never again")
    told = one(purging.purge(ref, block_reingest=True))
    assert told["fingerprint_retained"] and "test guesses" in told["disclosure"]
    note = purging.note(None)

    def tried() -> None:
        for call in (
            lambda: purging.capture("never again"),
            lambda: purging.turn("never again"),
            lambda: purging.do("revise", note, text="never again", origin="inferred"),
            lambda: purging.capture("x", facts=[{"subject": "s", "predicate": "p", "value": "never again"}]),
            lambda: purging.write("propose", {
                "proposal_kind": "fact", "memory": note,
                "fact": {"subject": "s", "predicate": "p", "value": "never again"},
            }),
            lambda: purging.write("remember_many", {"items": [
                {"kind": "raw", "origin": "stated", "text": "never again"},
            ]}),
        ):  # fmt: skip
            assert refused(Reason.CONFLICT, call).data["current"] == "purged"
        assert purging.capture("never again", tenant="other") and purging.capture("never  again")

    tried()
    purging.reopen(True)
    tried()
    purging.rebuild()
    tried()
    assert one(purging.purge(purging.capture("not blocked")))["fingerprint_retained"] is False


def test_the_purges_file_carries_what_blocks_a_text(purging: Purging) -> None:
    purging.purge(purging.capture("a"))
    purging.purge(purging.capture("b"), block_reingest=True)
    first, second = read_purges(purging.root / "purges").directives
    assert (first.fingerprint_key, first.fingerprints) == (None, ())
    assert second.fingerprint_key is not None and len(second.fingerprints) == 1


def test_keys_answer_purged_afterwards_and_write_nothing(purging: Purging) -> None:
    ref = purging.capture("keyed", idempotency_key="one")
    first = purging.purge(ref, idempotency_key="the purge", block_reingest=True)
    head = purging.store.log.head().seq
    again = purging.write("remember", {"kind": "raw", "origin": "stated", "text": "keyed", "idempotency_key": "one"})
    assert (again["duplicate"], again["state"], again["id"]) == (True, "purged", ref)
    told = purging.purge(ref, idempotency_key="the purge", block_reingest=True)
    assert (told["duplicate"], told["state"], told["receipt"]) == (True, "purged", first["receipt"])
    assert told["results"] == first["results"] and purging.store.log.head().seq == head


def test_a_session_goes_with_its_last_memory(purging: Purging) -> None:
    purging.write(
        "session_open", {"agent": "sleeper", "key": "canary key", "project": "canary", "idempotency_key": "o"}
    )
    turns = purging.turns(2, "canary key")
    purging.write("session_open", {"agent": "sleeper", "key": "canary key", "subject": "canary subject"})
    session = purging.ref("canary key")
    purging.purge(turns[0])
    assert purging.readable("canary key") and not purging.records("SessionClosed")
    result = purging.purge(turns[1])
    assert purging.readable("canary") == []
    told = purging.read("purges", {"receipt": result["receipt"]})["purges"][0]
    assert told["sessions"] == [session]
    listed = purging.read("sessions", {})["sessions"]
    assert [(row["session"], row["key"], row["state"]) for row in listed] == [(session, None, "purged")]
    opened = purging.write("session_open", {"agent": "sleeper", "key": "canary key"})
    assert opened["created"] and opened["session"] != session
    again = purging.write(
        "session_open", {"agent": "sleeper", "key": "canary key", "project": "canary", "idempotency_key": "o"}
    )
    assert (again["duplicate"], again["state"]) == (True, "purged")
    assert purging.rebuilt_alike()


def test_an_entity_keeps_its_name_until_the_last_that_names_it_goes(purging: Purging) -> None:
    first, second = (purging.capture(f"text {number}", entities=[BOB]) for number in range(2))
    purging.purge(first)
    assert len(purging.readable("canary bob")) == 2  # the entity's, and the other's particulars
    purging.purge(second)
    assert purging.readable("canary bob") == []
    third = purging.capture("text", entities=[BOB])
    assert purging.memory(third)["entities"] == [BOB]


def test_a_copy_goes_with_what_it_quotes_whatever_the_cascade(purging: Purging) -> None:
    turns = purging.turns(3)
    copied, other = purging.commit(
        [fact(*turns[:2], text="one 1", quoted_from=[turns[0]]), fact(turns[2], text="fact")]
    )["notes"]
    result = purging.purge(turns[0])
    assert [each["memory"] for each in result["results"]] == [turns[0], copied]
    assert result["results"][0]["quoting_purged"] == [copied] and result["count"] == 2
    assert purging.status(other) == purging.status(turns[1]) == "active" and purging.readable("one 1") == []
    assert purging.row(copied)["state"] == "tombstone" and purging.rebuilt_alike()


def test_a_purged_memory_is_told_as_the_contract_says_everywhere(purging: Purging) -> None:
    ref = purging.capture("gone")
    note = purging.note(None, ref)
    purging.purge(ref)
    shown = purging.memory(ref)
    assert shown["status"] == "purged" and shown["purged_at"] and "text" not in shown
    assert purging.explain(note)["sources"][0]["state"] == "purged"
    assert purging.listed() == [note] and purging.listed(status=["purged"]) == [ref]
    traced = purging.read("trace", {"id": note})["nodes"]
    assert [node["status"] for node in traced] == ["active", "purged"]
    assert [each["type"] for each in purging.read("history", {"id": ref})["events"]][-1] == "purged"
    assert refused(Reason.CONFLICT, purging.do, "recover", ref).data["current"] == "purged"
    assert purging.do("forget", ref)["found"] is True
    assert refused(Reason.PROVENANCE, purging.note, None, ref).data["ids"] == [ref]
    grounds = purging.read("review", {"what": ["ungrounded"]})["items"]
    assert [item["id"] for item in grounds] == [note]


def test_a_proposal_about_it_loses_its_words_and_is_rejected(purging: Purging) -> None:
    ref = purging.capture("about")
    note = purging.note(None, ref)
    words = {"subject": "canary", "predicate": "p", "value": "canary"}
    made = purging.write("propose", {"proposal_kind": "fact", "memory": note, "fact": words, "note": "canary"})
    accepted = purging.write("propose", {"proposal_kind": "fact", "memory": note, "fact": {**words, "value": "2"}})
    purging.write("decide", {"proposal": accepted["proposal"], "accept": True})
    purging.purge(note)
    assert purging.readable("canary") == []
    assert purging.read("proposals", {})["proposals"] == []
    (row,) = purging.read("proposals", {"status": "rejected"})["proposals"]
    assert (row["proposal"], row["fact"], row["note"]) == (made["proposal"], None, None)
    (row,) = purging.read("proposals", {"status": "applied"})["proposals"]
    assert row["fact"] is None


def test_usage_counts_no_part_that_is_gone_and_none_twice(purging: Purging) -> None:
    a, b = purging.capture("aaaa"), purging.capture("bbbb")
    proposal = {"proposal_kind": "edge", "memory": a, "other": b, "edge": "extends", "note": "words"}
    purging.write("propose", proposal)
    before = usage(purging)
    purging.purge(a)
    assert usage(purging) == before - len("aaaa") - len("words")
    purging.purge(b)
    assert usage(purging) == 0


def usage(purging: Purging) -> int:
    from projections import usage as counted

    with purging.projections.snapshot() as snapshot:
        return counted.find(snapshot, 1).content_bytes


@pytest.mark.parametrize(
    ("params", "parameter"),
    [
        ({}, "ids"), ({"ids": [], "cascade": "none"}, "ids"), ({"sel": {}}, "sel"), ({"ids": ["x"]}, "ids"),
        ({"ids": ["raw:0000000000001"], "sel": {"kinds": ["raw"]}}, "sel"),
        ({"ids": ["raw:0000000000001"], "token": "abc"}, "token"),
        ({"sel": {"kinds": ["raw"]}, "token": "abc"}, "token"),
        ({"sel": {"kinds": ["raw"]}, "token": "abc", "dry_run": True}, "token"),
        ({"sel": {"status": ["purged"]}}, "sel.status"), ({"sel": {"producer": {}}}, "sel"),
        ({"sel": {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}}, "sel.until"),
    ],
)  # fmt: skip
def test_what_says_no_memories_or_too_much_is_refused(purging: Purging, params: dict[str, Any], parameter: str) -> None:
    import msgspec

    if params.get("ids") == []:
        with pytest.raises(msgspec.ValidationError, match="ids"):
            purging.write("purge", params)
        return
    assert refused(Reason.INVALID_INPUT, purging.write, "purge", params).data["parameter"] == parameter


def test_the_working_set_lets_go_of_it_before_the_answer(purging: Purging) -> None:
    purging.write("session_open", {"agent": "sleeper", "key": "gone", "project": "p"})
    ref = purging.turn("a turn", key="gone", tags=["canary"], entities=[BOB])
    kept = purging.capture("kept", tags=["canary"])
    names = purging.service.names
    known = len(names.texts), len(names.sessions), len(names.entities), len(names.session_defaults)
    assert known == (2, 1, 1, 1) and blooms(purging)[parse_memory_ref(ref)[1]] != 0
    purging.purge(ref)
    known = len(names.texts), len(names.sessions), len(names.entities), len(names.session_defaults)
    assert known == (1, 0, 0, 0) and names.gone is None
    assert blooms(purging)[parse_memory_ref(ref)[1]] == 0 != blooms(purging)[parse_memory_ref(kept)[1]]
    purging.reopen(True)
    assert (len(purging.service.names.sessions), len(purging.service.names.entities)) == (0, 0)


def blooms(purging: Purging) -> dict[int, int]:
    """By memory, once the columns are filled."""
    columns = purging.service.columns
    deadline = monotonic() + 20
    while (view := columns.at(purging.store.log.head().seq)) is None or view.unknown:
        assert monotonic() < deadline
        sleep(0.01)  # between two looks at what another thread does
    return {
        int(tsid): int(bloom)
        for partition in view.partitions()
        for segment in view.segments(partition)
        for tsid, bloom in zip(segment.rows["tsid"], segment.blooms, strict=True)
    }


def test_what_a_rebuild_warms_beside_lets_go_of_what_is_purged_meanwhile(purging: Purging) -> None:
    ref = purging.capture("a text", entities=[BOB])
    names = purging.service.names
    names.keep()
    beside = WorkingSet()
    warm(beside, purging.store, purging.projections, purging.now_ms)
    assert len(beside.entities) == 1
    purging.purge(ref, block_reingest=True)
    names.teach(beside)
    names.keep_no_more()
    assert len(beside.entities) == 0 and beside.is_blocked(1, b"a text") and not beside.is_blocked(2, b"a text")
