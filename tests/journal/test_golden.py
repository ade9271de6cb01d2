"""What the first format wrote is still read: the same records, the same projections, the same answers.

When one of these fails, what was changed can't be released: stores like this one exist. A field that is
added at the end of an event leaves them green; `grown` is what that may change.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.wire.verbs import VERBS
from journal.record import Record, decode_body, encode_body, split_value
from journal.store import open_store
from journal.verify import verify_in_child
from ops.golden.filled import event_types, filled, tag_of
from ops.golden.story import asked
from tests.model.opened import OPERATOR, OpenedService

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
EVENTS: list[dict[str, Any]] = json.loads((GOLDEN / "events-1.json").read_text("utf-8"))
STORE: dict[str, Any] = json.loads((GOLDEN / "store-1.json").read_text("utf-8"))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The golden store, unpacked as it lay on the disk."""
    root = tmp_path / "state"
    (root / "journal").mkdir(mode=0o700, parents=True)
    root.chmod(0o700)
    with tarfile.open(GOLDEN / "store-1.tar.xz") as tar:
        for entry in tar:
            content = tar.extractfile(entry)
            assert content is not None
            path = root / entry.name
            path.touch(mode=0o600)
            path.write_bytes(content.read())
    return root


def grown(stored: Any, now: Any) -> bool:
    """Whether `now` is `stored` with nothing but items added at the ends of its arrays."""
    if isinstance(stored, list) and isinstance(now, list):
        return len(stored) <= len(now) and all(map(grown, stored, now))
    return bool(stored == now)


def written_alike(record: Record, body: bytes) -> bool:
    """Whether today's writer gives the same bytes, or the same and more fields behind them."""
    today = encode_body(record)
    return today == body or grown(msgspec.msgpack.decode(body), msgspec.msgpack.decode(today))


def covers(told: Any, expected: Any) -> bool:
    """Whether an answer says all that was expected; new fields are welcome."""
    if isinstance(expected, dict):
        return isinstance(told, dict) and all(key in told and covers(told[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return isinstance(told, list) and len(told) == len(expected) and all(map(covers, told, expected))
    return bool(told == expected)


@pytest.mark.parametrize("golden", EVENTS, ids=lambda golden: golden["event"])
def test_an_event_is_read_and_written_as_ever(golden: dict[str, Any]) -> None:
    body = bytes.fromhex(golden["body"])
    record = decode_body(golden["seq"], body)
    event: Any = record.event
    assert (type(event).__name__, tag_of(type(event))) == (golden["event"], golden["tag"])
    names = list(golden["fields"])
    assert list(event.__struct_fields__[: len(names)]) == names
    for name in names:
        assert grown(golden["fields"][name], json.loads(msgspec.json.encode(getattr(event, name)))), name
    assert written_alike(record, body)


def test_every_event_has_golden_bytes() -> None:
    """A new one: `python ops/golden/make.py --event NAME`, its line to the end of events-1.json."""
    assert [golden["event"] for golden in EVENTS[:57]] == [each.__name__ for each in event_types()][:57]
    assert {golden["event"] for golden in EVENTS} == {each.__name__ for each in event_types()}


def test_golden_events_leave_no_field_at_its_default() -> None:
    for event_type in event_types():
        event: Any = filled(event_type)
        defaults = dict(zip(event.__struct_fields__[::-1], event.__struct_defaults__[::-1], strict=False))
        left = [name for name, default in defaults.items() if getattr(event, name) == default]
        assert left == [], f"{event_type.__name__}: {left}"


def test_golden_records_are_read_and_written_as_ever(state: Path) -> None:
    assert verify_in_child(state).findings == ()
    store = open_store(state, version="", now_ms=0, readonly=True)
    try:
        assert store.log.head().seq == STORE["records"]
        assert store.findings == []
        with store.env.read() as txn:
            for seq in range(1, STORE["records"] + 1):
                value = store.log.raw(txn, seq)
                assert value is not None
                body = split_value(seq, value)[1]
                assert written_alike(decode_body(seq, body), body), seq
    finally:
        store.close(clean=False)


def test_a_golden_store_folds_and_answers_as_ever(state: Path) -> None:
    opened = OpenedService(state, lambda: STORE["now_ms"])
    try:
        digests = opened.digests()
        assert {name: digests[name] for name in STORE["digests"]} == STORE["digests"]
        for answer in STORE["answers"]:
            told = asked(opened, answer["verb"], answer["params"])
            assert covers(told, answer["result"]), (answer["verb"], answer["params"])
        assert opened.store.findings == []
    finally:
        opened.close(True)


def test_metadata_comes_back_byte_for_byte(state: Path) -> None:
    opened = OpenedService(state, lambda: STORE["now_ms"])
    try:
        params = STORE["answers"][0]["params"]
        memories = opened.service.read("get", msgspec.convert(params, VERBS["get"].params), OPERATOR).memories
    finally:
        opened.close(True)
    assert b'{"z": 1, "a": [1.50, null]}' in msgspec.json.encode(memories)


def test_a_golden_file_is_never_made_again() -> None:
    before = {path.name: path.read_bytes() for path in GOLDEN.iterdir()}
    made = subprocess.run([sys.executable, "ops/golden/make.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 1
    assert "never made again" in made.stderr
    assert {path.name: path.read_bytes() for path in GOLDEN.iterdir()} == before
