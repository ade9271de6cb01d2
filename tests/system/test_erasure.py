"""What is purged is gone: for whoever reads, for whoever stole a copy, and whatever strikes while it happens.

The drills behind these tests are `ops/drills/erasure.py` and `ops/drills/erasure_kills.py`; here they run in a smaller
form, and each is shown to find what it looks for.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from daemon.cli.offline import open_to_read
from journal.log import rows_from
from journal.residue import Readable, open_all, search
from journal.store import Store
from ops.drills import erasure_kills
from ops.drills.erasure import Drill, Sizes
from ops.drills.erasure_checks import Counts, Expected, check, check_at_rest
from ops.drills.faults import tracing
from ops.drills.faults.tracing import Fault, Injection, TracedDaemon
from tests.system.process import DaemonProcess, everything

WHY_NOT = tracing.why_not()
needs_strace = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
SECRET, KEPT = "zqsecret7", "zqkept7"
SMALL = Sizes(memories=15, sessions=1, rich=6, turns=8)


# --- canaries --------------------------------------------------------------------------------------


def test_nothing_yields_what_was_purged_whatever_comes_between(tmp_path: Path) -> None:
    drill = Drill(tmp_path, SMALL, random.Random(7), None)
    drill.run()
    assert len(drill.rows) == 8
    for step, counts in drill.rows:
        assert counts.clean, (step, counts)
    counts = drill.rows[-1][1]
    assert counts.purged > 15 and counts.erased > 15 and counts.memories > 10


def test_the_canary_drill_finds_what_is_to_be_found(daemon: DaemonProcess, tmp_path: Path) -> None:
    """Nothing was purged of what is expected to be: it is found by readers, and behind the keys."""
    for number in range(4):
        text = f"{SECRET} {number} in full"
        daemon.call("remember", kind="raw", subtype="capture", origin="stated", text=text, tags=[f"{text} tag"])
    before = {memory["id"]: memory for memory in everything(daemon)}
    purged = set(list(before)[:2])
    counts = check(daemon, Expected(before, purged))
    assert counts.read >= 2 and counts.opened >= 2 and counts.statuses == 2 and not counts.clean
    assert daemon.stop() == 0
    (daemon.state / "left").write_text(f"{SECRET} 0 in full")
    found = Counts()
    expected = Expected(before, purged)
    check_at_rest(daemon.state, expected, expected.erased(), found)
    assert found.at_rest == 1


# --- a stolen copy ---------------------------------------------------------------------------------


@pytest.fixture
def stolen(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """`(journal from before the purge with the vault from before, the same with the vault from after)`."""
    daemon = DaemonProcess(tmp_path)
    daemon.start()
    try:
        for text in (f"{SECRET} small", f"{SECRET} large" + "x" * 9000, KEPT):
            daemon.call(
                "remember", kind="raw", subtype="capture", origin="stated", text=text, topic=text[:20],
                entities=[{"name": text[:20], "type": "person"}], idempotency_key=text[:20],
            )  # fmt: skip
        gone = [memory["id"] for memory in everything(daemon) if SECRET in memory["text"]]
        before, after = tmp_path / "before", tmp_path / "after"
        for place in (before, after):
            place.mkdir(mode=0o700)
            shutil.copytree(daemon.state / "journal", place / "journal")
            shutil.copy2(daemon.state / "FORMAT", place)
        shutil.copy2(daemon.state / "vault", before)
        assert daemon.call("purge", ids=gone)["receipt"] is not None
        assert daemon.stop() == 0
        shutil.copy2(daemon.state / "vault", after)
        yield before, after
    finally:
        daemon.close()


def test_a_stolen_journal_from_before_yields_nothing_with_the_vault_from_after(stolen: tuple[Path, Path]) -> None:
    before, after = stolen
    with open_to_read(before) as (store, _):
        assert len(search(store, before, SECRET.encode()).readable) >= 6, "it was never there"
    with open_to_read(after) as (store, _):
        found = search(store, after, SECRET.encode())
        assert (found.plain, found.readable) == ([], [])
        assert found.unopenable >= 6
        assert len(search(store, after, KEPT.encode()).readable) >= 3
        assert every_pair(store, SECRET.encode()) == 0


def every_pair(store: Store, word: bytes) -> int:
    """How many ciphertexts any key of the vault opens under any slot's name, whatever the records say, and have it."""
    last = store.log.state.vault_next - 1
    keys = store.sealer.keys(range(1, last + 1))
    opened = found = 0
    with store.env.read() as txn, txn.cursor(db=store.env.db("sealed")) as cursor:
        for key, sealed in rows_from(cursor, b"\0"):
            for each in filter(None, keys):
                for slot in range(1, last + 1):
                    plain = store.sealer.open_with(each, slot, key[-1], sealed)
                    opened += plain is not None
                    found += plain is not None and word in plain
    assert opened, "no key opens anything: nothing was tried"
    return found


def test_what_keys_still_yield_is_all_that_is_left(stolen: tuple[Path, Path]) -> None:
    heard: list[bytes] = []

    def hear(found: Readable, opened: bytes) -> bool:
        heard.append(opened)
        return False

    with open_to_read(stolen[1]) as (store, _):
        open_all(store, stolen[1], hear)
    assert heard and not any(SECRET.encode() in each for each in heard)
    assert any(KEPT.encode() in each for each in heard)


# --- struck while it happens -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> erasure_kills.Template:
    return erasure_kills.make_template(tmp_path_factory.mktemp("t"))


@needs_strace
@pytest.mark.parametrize(
    ("file", "call", "number", "fate"),
    [
        ("journal/data.mdb", "fdatasync", 1, "never"),
        ("purges", "write", 1, "complete"),
        ("vault", "pwrite64", 1, "complete"),
        ("vault", "pwrite64", 5, "complete"),
        ("projections/data.mdb", "pwrite64", 1, "complete"),
        ("head.new", "rename", 1, "complete"),
    ],
)
def test_a_killed_purge_never_happened_or_is_complete(
    template: erasure_kills.Template, tmp_path: Path, file: str, call: str, number: int, fate: str
) -> None:
    row = erasure_kills.run(template, Injection(call, file, number, Fault.KILL), tmp_path)
    assert row.clean and not row.missed, row
    assert asdict(row)[fate] == 1, row


MANY = 2_100
"""Three PURGE records of one command."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> erasure_kills.Template:
    return erasure_kills.make_template(tmp_path_factory.mktemp("m"), MANY)


@needs_strace
@pytest.mark.parametrize(
    ("file", "call", "number", "fate"),
    [
        ("journal/data.mdb", "fdatasync", 1, "never"),
        ("purges", "write", 1, "complete"),
        ("vault", "pwrite64", 1_050, "complete"),
        ("projections/data.mdb", "pwrite64", 1, "complete"),
    ],
)
def test_a_killed_purge_of_several_records_never_happened_or_is_complete_in_all(
    large: erasure_kills.Template, tmp_path: Path, file: str, call: str, number: int, fate: str
) -> None:
    """And its receipt says what was done, and the same request under its key finds it or does it."""
    row = erasure_kills.run(large, Injection(call, file, number, Fault.KILL), tmp_path)
    assert row.clean and not row.missed, row
    assert asdict(row)[fate] == 1, row


def test_the_kill_drill_finds_a_receipt_that_is_not_true(large: erasure_kills.Template, tmp_path: Path) -> None:
    """A memory too many is expected to be gone."""
    daemon = TracedDaemon(tmp_path)
    shutil.copytree(large.state, daemon.state)
    try:
        daemon.start()
        done = erasure_kills.purge(daemon, erasure_kills.what_is_meant(daemon, large))
        assert done is not None and done["count"] == MANY and done["results_cut"] is True
        assert erasure_kills._receipt_is_true(daemon, large, done["receipt"])
        more = replace(large, gone=[*large.gone, large.kept])
        assert not erasure_kills._receipt_is_true(daemon, more, done["receipt"])
    finally:
        daemon.close()


def test_the_kill_drill_finds_a_promise_that_was_not_kept(template: erasure_kills.Template, tmp_path: Path) -> None:
    daemon = TracedDaemon(tmp_path)
    shutil.copytree(template.state, daemon.state)
    row = erasure_kills.Row()
    try:
        erasure_kills.judge(daemon, template, {"ids": template.gone}, {"receipt": None}, row)
    finally:
        daemon.close()
    assert row.never == 1 and row.broken == 1 and not row.clean


def test_the_kill_drill_finds_a_key_that_was_put_back(template: erasure_kills.Template, tmp_path: Path) -> None:
    daemon = TracedDaemon(tmp_path)
    shutil.copytree(template.state, daemon.state)
    try:
        daemon.start()
        vault = (daemon.state / "vault").read_bytes()
        assert erasure_kills.purge(daemon, {"ids": template.gone}) is not None
        (daemon.state / "vault").open("r+b").write(vault)
        assert erasure_kills._readable(daemon, template) > 0
    finally:
        daemon.close()
