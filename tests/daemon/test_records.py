"""`records` against a filter that is as plain as the contract: every frame there is, one condition after another."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from daemon.asking import Asking
from daemon.caller import Caller
from daemon.reads import records as records_verb
from daemon.refusal import Reason, Refused
from daemon.wire.times import format_ms
from daemon.wire.verbs import VERBS
from journal.codes import CallerRole
from journal.events import Keyed, Marked
from journal.frames import Frame, FrameMaker, Level, decode_frame, encode_frame, rows_between, verify_frame
from journal.record import Actor, Cause, Record, encode_body
from journal.store import open_store
from journal.tsid import parse_memory_ref
from journal.verify import Finding
from tests.model.opened import OPERATOR, OpenedService

START_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
EXPORTER = replace(OPERATOR, export=True)
AUDITOR = Caller(uid=7, role=CallerRole.AUDITOR, content=False, export=True)
AGENT = Caller(uid=8, role=CallerRole.AGENT, tenants_read=frozenset({"other"}))


class Clock:
    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms


class Filled:
    """A store with two tenants, and what is needed to ask about it."""

    def __init__(self, root: Path) -> None:
        self.clock = Clock()
        self.opened = OpenedService(root, self.clock)
        self.ids: list[str] = []
        self.sessions: list[str] = []
        self._fill()
        store, names = self.opened.store, self.opened.service.names
        maker = FrameMaker(store.log, store.vault, store.sealer, lambda number: names.tenants[number].name)
        with store.env.read() as txn:
            rows = rows_between(store.log, txn, 1, store.log.head().seq)
            self.frames = [maker.frame(txn, row, Level.CONTENT) for row in rows]

    def _fill(self) -> None:
        write = self.opened.write
        for number in range(280):
            self.clock.now_ms += HOUR_MS
            params: dict[str, Any] = {"tenant": "other" if number % 4 == 3 else "default", "text": f"text {number}"}
            if number % 5 == 4 and number % 4 != 3:
                params |= {"kind": "note", "origin": "observed", "derived_from": self.ids[-1:]}
            else:
                params |= {"kind": "raw", "role": "user", "session": {"agent": "a", "key": str(number % 2)}}
            made = write("remember", params)["id"]
            if params["tenant"] == "default":
                self.ids.append(made)
            if number % 7 == 6:
                write("forget", {"id": self.ids[0], "note": "words"})
                write("recover", {"id": self.ids[0]})
            if number % 30 == 29:
                self.sessions = [row["session"] for row in self.opened.read("sessions", {})["sessions"]]
                write("session_close", {"session": self.sessions[0]})
                write("session_open", {"agent": "a", "key": "0"})
            if number == 60:  # another block, and store records in the midst of it
                self._by_hand()
                self.opened.reopen(True)
        self.clock.now_ms += HOUR_MS  # the newest record is the store's own, later than any other
        self.opened.reopen(True)

    def _by_hand(self) -> None:
        """Records of other actors: an auditor's uid and an operator's."""
        self.opened.close(True)
        store = open_store(self.opened.root, version="", now_ms=self.clock.now_ms)
        memory = parse_memory_ref(self.ids[0])
        marked = Marked(memory=memory, mark=7, on=True, session=1)
        for uid, event in ((4711, marked), (4712, Keyed(key=bytes(16), result=b"", sessions=(1,)))):
            seq = store.log.head().seq + 1
            record = Record(seq, self.clock.now_ms, 1, Actor(uid, CallerRole.AGENT, 0), Cause(seq, "mark"), event)
            store.log.append([encode_body(record)], [], store.log.state)
        store.close(True)
        self.opened._open()

    def members(self, number: int) -> set[str]:
        """The memories of a session."""
        made = (f.event for f in self.frames if f.type == "memory_created" and f.event["session"] == number)
        return {str(event["id"]) for event in made}

    def ask(self, caller: Caller = EXPORTER, **params: Any) -> Any:
        if caller.role is CallerRole.OPERATOR and "tenant" in params:
            caller = replace(caller, tenant=params["tenant"])  # its own: that it asks leaves no record among these
        return self.opened.service.read("records", msgspec.convert(params, VERBS["records"].params), caller)

    def pages(self, caller: Caller = EXPORTER, **params: Any) -> list[Any]:
        found = [self.ask(caller, **params)]
        while found[-1].next_cursor is not None:
            found.append(self.ask(caller, **params, cursor=found[-1].next_cursor))
        return found


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    filled = Filled(tmp_path_factory.mktemp("records") / "state")
    yield filled
    filled.opened.close(True)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[OpenedService]:
    """A store of one's own, closed as a killed process leaves it."""
    opened = OpenedService(tmp_path / "state", Clock())
    yield opened
    opened.close(False)


def seqs(pages: list[Any]) -> list[int]:
    return [frame.seq for page in pages for frame in page.frames]


def refused(ask: Callable[[], Any]) -> Refused:
    with pytest.raises(Refused) as caught:
        ask()
    return caught.value


# --- the filters -----------------------------------------------------------------------------------

CHOICES: dict[str, list[Any]] = {
    "since": [None, 30, 60],
    "until": [None, 60],
    "from_seq": [None, 300],
    "types": [None, ["memory_created"], ["forgotten", "recovered", "session_closed"]],
    "actor": [None, "operator", "daemon", 4711],
    "tenant": [None, "other", "store_wide"],
}


def at(hours: int) -> str:
    return format_ms(START_MS + hours * HOUR_MS)


def matches(frame: Frame, asked: dict[str, Any]) -> bool:
    tenant = asked.get("tenant", "default")
    return (
        (asked.get("store_wide", False) or frame.tenant == tenant)
        and ("since" not in asked or frame.at >= asked["since"])
        and ("until" not in asked or frame.at < asked["until"])
        and frame.seq >= asked.get("from_seq", 1)
        and ("types" not in asked or frame.type in asked["types"])
        and ("actor" not in asked or asked["actor"] in (frame.actor.uid, frame.actor.role))
    )


def questions() -> Iterator[dict[str, Any]]:
    for values in itertools.product(*CHOICES.values()):
        asked = {name: value for name, value in zip(CHOICES, values, strict=True) if value is not None}
        for name in ("since", "until"):
            if name in asked:
                asked[name] = at(asked[name])
        if asked.get("tenant") == "store_wide":
            del asked["tenant"]
            asked["store_wide"] = True
        yield asked


def test_every_combination_of_conditions_finds_what_a_plain_filter_finds(filled: Filled) -> None:
    found_any = set()
    for asked in questions():
        expected = [frame.seq for frame in filled.frames if matches(frame, asked)]
        pages = filled.pages(**asked, limit=1000)
        assert seqs(pages) == expected, asked
        assert {page.total for page in pages} == {len(expected)}, asked
        found_any |= {name for name in asked if expected}
    assert found_any == {"since", "until", "from_seq", "types", "actor", "tenant", "store_wide"}


def test_there_is_more_than_one_block_to_leave_out(filled: Filled) -> None:
    assert filled.frames[-1].seq > 300


def test_times_at_the_ends_of_blocks_belong_to_them(filled: Filled) -> None:
    """A block is left out by the times of its records: the bounds themselves are within."""
    ends = {frame.at for frame in filled.frames if frame.seq % 256 in (0, 1, 254, 255)}
    for block in itertools.groupby(filled.frames, lambda frame: frame.seq // 256):
        times = [frame.at for frame in block[1] if frame.tenant is not None]
        ends |= {min(times), max(times)}
    for name, time in itertools.product(("since", "until"), ends):
        expected = [frame.seq for frame in filled.frames if matches(frame, {name: time})]
        assert seqs(filled.pages(**{name: time}, limit=1000)) == expected, (name, time)  # type: ignore[arg-type]


def test_records_of_the_store_itself_are_found_by_time_and_actor(filled: Filled) -> None:
    last = filled.frames[-1]
    assert last.type == "opened" and last.at > filled.frames[-2].at
    assert seqs(filled.pages(since=last.at, store_wide=True)) == [last.seq]
    assert filled.ask(since=last.at).total == 0


def test_the_records_of_a_memory(filled: Filled) -> None:
    ref = filled.ids[0]
    changes = ("forgotten", "recovered", "marked")
    expected = [
        frame.seq
        for frame in filled.frames
        if frame.event.get("id") == ref or (frame.type in changes and frame.event["memory"] == ref)
    ]
    assert seqs(filled.pages(memory=ref)) == seqs(filled.pages(memory=ref, limit=2)) == expected and len(expected) > 60
    forgotten = [seq for seq in expected if filled.frames[seq - 1].type == "forgotten"]
    assert seqs(filled.pages(memory=ref, types=["forgotten"])) == forgotten
    later = [seq for seq in expected if matches(filled.frames[seq - 1], {"since": at(90), "until": at(200)})]
    assert seqs(filled.pages(memory=ref, since=at(90), until=at(200))) == later and later


def test_the_records_of_a_session(filled: Filled) -> None:
    opened = next(f for f in filled.frames if f.type == "session_opened" and f.event["id"] == filled.sessions[0])
    number = opened.event["number"]

    def names_it(frame: Frame) -> bool:
        named = frame.event.get("number") if frame.type.startswith("session_") else frame.event.get("session")
        ends = [frame.event[name] for name in ("memory", "source", "target") if isinstance(frame.event.get(name), str)]
        done_to = bool(filled.members(number).intersection(ends))
        return bool(named == number or number in (frame.event.get("sessions") or ()) or done_to)

    expected = [frame.seq for frame in filled.frames if names_it(frame)]
    types = {filled.frames[seq - 1].type for seq in expected}
    assert {"session_opened", "session_closed", "session_reopened", "memory_created", "keyed", "marked"} <= types
    assert {"forgotten", "recovered"} <= types, "what is done to its memories is of it"
    assert seqs(filled.pages(session=filled.sessions[0])) == expected
    assert seqs(filled.pages(session=filled.sessions[0], limit=3)) == expected
    both = [seq for seq in expected if filled.ids[0] == filled.frames[seq - 1].event.get("id")]
    assert set(both) <= set(seqs(filled.pages(session=filled.sessions[0], memory=filled.ids[0])))


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("memory", "raw:0000000000001"), ("memory", "note:{raw}"), ("session", "session:0000000000001"),
    ],
)  # fmt: skip
def test_what_is_unknown_is_not_found(filled: Filled, parameter: str, value: str) -> None:
    value = value.replace("{raw}", filled.ids[0].partition(":")[2])
    asked: dict[str, Any] = {parameter: value}
    assert refused(lambda: filled.ask(**asked)).reason is Reason.NOT_FOUND


def test_a_foreign_memory_or_session_is_as_unknown_as_none(filled: Filled) -> None:
    asked: tuple[dict[str, Any], ...] = ({"memory": filled.ids[0]}, {"session": filled.sessions[0]})
    for params in asked:
        theirs = refused(lambda params=params: filled.ask(**params, tenant="other"))  # type: ignore[misc]
        unknown: dict[str, Any] = {name: f"{value.partition(':')[0]}:0000000000001" for name, value in params.items()}
        none = refused(lambda unknown=unknown: filled.ask(**unknown, tenant="other"))  # type: ignore[misc]
        assert (theirs.reason, theirs.message, theirs.data) == (none.reason, none.message, none.data)
        assert filled.ask(**params, store_wide=True).total > 0


def test_an_agent_sees_its_tenants_only_and_no_store_records(filled: Filled) -> None:
    for tenants in (["default"], ["other"], ["default", "other"]):
        pages = filled.pages(AGENT, tenants=tenants, limit=1000)
        assert {frame.tenant for page in pages for frame in page.frames} == set(tenants)
    assert refused(lambda: filled.ask(AGENT, store_wide=True)).reason is Reason.DENIED
    assert refused(lambda: filled.ask(AUDITOR, store_wide=True)).reason is Reason.DENIED
    data = refused(lambda: filled.ask(store_wide=True, tenant="other"))
    assert data.reason is Reason.INVALID_INPUT and data.data["parameter"] == "store_wide"


def test_a_tenant_that_never_wrote_has_no_records(filled: Filled) -> None:
    result = filled.ask(tenant="nobody")
    assert (result.frames, result.total, result.next_cursor) == ([], 0, None)


# --- levels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", list(Level))
def test_frames_of_each_level_are_sound(filled: Filled, level: Level) -> None:
    result = filled.ask(level=str(level), limit=1000)
    for frame in result.frames:
        verify_frame(decode_frame(encode_frame(frame)))
        assert all(part.state == level for part in frame.parts)
        assert frame.parts == [] or level is not Level.SKELETON
    assert result.hash_key is msgspec.UNSET


def test_parts_leave_with_a_grant_only(filled: Filled) -> None:
    for level in ("sealed", "content"):
        assert refused(lambda level=level: filled.ask(OPERATOR, level=level)).reason is Reason.DENIED  # type: ignore[misc]
        assert refused(lambda level=level: filled.ask(AGENT, level=level)).data == {"parameter": "level"}  # type: ignore[misc]
    assert filled.ask(AUDITOR, level="sealed").frames
    assert refused(lambda: filled.ask(AUDITOR, level="content")).reason is Reason.DENIED
    assert filled.ask(replace(AUDITOR, content=True), level="content").frames


def test_the_key_of_hashes_is_told_to_who_exports_the_whole_store(filled: Filled) -> None:
    key = filled.opened.store.vault.hash_key.hex()
    assert filled.ask(store_wide=True, level="content").hash_key == key
    for params in ({"store_wide": True, "level": "sealed"}, {"store_wide": True}, {"level": "content"}):
        assert filled.ask(**params).hash_key is msgspec.UNSET


# --- pages -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 7, 100])
@pytest.mark.parametrize("params", [{}, {"types": ["memory_created"]}, {"store_wide": True}, {"actor": "operator"}])
def test_pages_cover_everything_once(filled: Filled, limit: int, params: dict[str, Any]) -> None:
    pages = filled.pages(**params, limit=limit)
    assert seqs(pages) == seqs(filled.pages(**params, limit=1000))
    assert all(len(page.frames) == limit for page in pages[:-1]) and pages[-1].frames
    assert {page.total for page in pages} == {sum(len(page.frames) for page in pages)}


def test_what_is_written_later_is_on_no_page(small: OpenedService) -> None:
    for number in range(5):
        small.write("remember", {"kind": "raw", "role": "user", "text": f"{number}"})
    first = small.read("records", {"limit": 3})
    for number in range(5):
        small.write("remember", {"kind": "raw", "role": "user", "text": f"later {number}"})
    second = small.read("records", {"limit": 1000, "cursor": first["next_cursor"]})
    assert len(first["frames"]) + len(second["frames"]) == first["total"] == second["total"]
    assert second["next_cursor"] is None
    assert small.read("records", {})["total"] > first["total"]


def test_a_cursor_belongs_to_its_question(filled: Filled) -> None:
    cursor = filled.ask(limit=1).next_cursor
    for params in ({"types": ["forgotten"]}, {"tenant": "other"}, {"store_wide": True}, {"level": "sealed"}):
        assert refused(lambda params=params: filled.ask(**params, cursor=cursor)).reason is Reason.INVALID_INPUT  # type: ignore[misc]
    assert cursor is not None
    for bad in ("", ".", "x", f"{cursor}A", cursor[:-1], cursor.swapcase()):
        with pytest.raises((Refused, msgspec.ValidationError)):
            filled.ask(cursor=bad, limit=1)


def test_a_cursor_of_another_epoch_is_a_conflict(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    cursor = filled.ask(limit=1).next_cursor
    monkeypatch.setattr(type(filled.opened.store), "epoch", 2)
    assert refused(lambda: filled.ask(limit=1, cursor=cursor)).reason is Reason.CONFLICT


def test_a_page_ends_before_a_line_would_be_too_long(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = seqs(filled.pages(limit=1000))
    monkeypatch.setattr(records_verb, "PAGE_BYTES", 8000)
    pages = filled.pages(limit=1000)
    assert len(pages) > 10 and seqs(pages) == expected
    assert {page.total for page in pages} == {len(expected)}
    for page in pages:
        assert len(msgspec.json.encode(page.frames)) <= 8000 + 2


def test_a_frame_that_no_line_carries_is_refused_with_its_number(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records_verb, "PAGE_BYTES", 100)
    refusal = refused(lambda: filled.ask(from_seq=5))
    assert refusal.reason is Reason.TOO_LARGE and refusal.data["seq"] >= 5


# --- ending, and damage ------------------------------------------------------------------------------


def test_a_question_that_was_cancelled_ends(filled: Filled) -> None:
    asking = Asking()
    asking.cancel()
    params = msgspec.convert({}, VERBS["records"].params)
    refusal = refused(lambda: filled.opened.service.read("records", params, OPERATOR, asking=asking))
    assert refusal.reason is Reason.UNAVAILABLE and refusal.data == {"cancelled": True}


def test_steps_are_told(filled: Filled) -> None:
    told: list[tuple[str, int, int]] = []
    asking = Asking(tell=lambda *step: told.append(step))
    filled.opened.service.read("records", msgspec.convert({}, VERBS["records"].params), OPERATOR, asking=asking)
    assert told and told[0][0] == "records" and told[0][2] == filled.opened.store.log.head().seq


def test_a_damaged_record_ends_a_page_is_told_by_its_number_and_can_be_gone_around(small: OpenedService) -> None:
    def write(text: str) -> int:
        return int(small.write("remember", {"kind": "raw", "role": "user", "text": text})["address"]["seq"])

    write("sound")
    seq, behind, last = write("damaged"), write("its frame needs the damaged one"), write("sound again")
    with small.store.env.write() as txn:
        value = bytes(txn.get(seq.to_bytes(8, "big"), db=small.store.env.db("records")) or b"")
        txn.put(seq.to_bytes(8, "big"), value[:-1] + bytes([value[-1] ^ 1]), db=small.store.env.db("records"))
    page = small.read("records", {"store_wide": True})
    assert [frame["seq"] for frame in page["frames"]] == list(range(1, seq))
    refusal = refused(lambda: small.read("records", {"store_wide": True, "cursor": page["next_cursor"]}))
    assert refusal.reason is Reason.DAMAGED and refusal.data["seq"] == seq
    assert any(isinstance(each, Finding) and each.seq == seq for each in small.store.findings)
    assert refusal.data["current"]["seq"] == behind
    (frame,) = small.read("records", {"store_wide": True, "from_seq": behind + 1})["frames"]
    assert (frame["seq"], frame["prev"]) == (last, refusal.data["current"]["chain"])
    assert small.read("records", {"until": "2000-01-01T00:00:00Z"})["total"] == 0
