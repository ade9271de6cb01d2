"""purges: receipts by tenant, page by page, in full; and what people read of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon import erasure_words
from daemon.cli import render
from daemon.cli.render_erasure_page import page
from daemon.refusal import Reason
from journal.codes import Cascade, PurgeReason
from tests.daemon.cohorted import refused
from tests.daemon.purged import Purging


@pytest.fixture
def purging(tmp_path: Path) -> Iterator[Purging]:
    opened = Purging(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def test_receipts_are_told_newest_first_page_by_page_and_only_to_their_tenant(purging: Purging) -> None:
    receipts = [purging.purge(purging.capture(f"t {number}"))["receipt"] for number in range(5)]
    other = purging.purge(purging.capture("o", tenant="other"), tenant="other")["receipt"]
    first = purging.read("purges", {"limit": 2})
    assert [row["receipt"] for row in first["purges"]] == receipts[:2:-1] and first["total"] == 5
    purging.purge(purging.capture("later"))
    second = purging.read("purges", {"limit": 10, "cursor": first["next_cursor"]})
    assert [row["receipt"] for row in second["purges"]] == receipts[2::-1] and second["next_cursor"] is None
    both = purging.read("purges", {"tenants": ["default", "other"]})["purges"]
    assert both[1]["receipt"] == other and both[1]["tenant"] == "other" and len(both) == 7
    for params in ({"receipt": other}, {"receipt": {"epoch": 1, "seq": 1}}, {"receipt": {"epoch": 2, "seq": 9}}):
        assert refused(Reason.NOT_FOUND, purging.read, "purges", params).data["parameter"] == "receipt"


@pytest.mark.parametrize("reason", list(PurgeReason))
@pytest.mark.parametrize("cascade", list(Cascade))
def test_a_receipt_in_full_says_what_was_said_when_it_was_done(
    purging: Purging, reason: PurgeReason, cascade: Cascade
) -> None:
    ref = purging.capture("a")
    purging.note(None, ref)
    said = {"reason": reason.wire, "cascade": cascade.wire, "block_reingest": True}
    done = purging.purge(ref, **said)
    purging.now_ms += 100
    (told,) = purging.read("purges", {"receipt": done["receipt"]})["purges"]
    assert told["results"] == done["results"] and told["totals"] == done["totals"]
    assert (told["reason"], told["cascade"], told["fingerprint_retained"]) == (reason.wire, cascade.wire, True)
    assert told["actor"]["role"] == "operator" and told["disclosure"] == done["results"][0]["disclosure"]


def test_each_form_fits_and_says_the_same(purging: Purging) -> None:
    refs = [purging.capture("shared text") for _ in range(2)]
    looked = purging.select({"ids": refs[:1]})
    done = purging.purge(refs[0], block_reingest=True)
    purging.hold(refs[1], note="a long note " * 20)
    answers: list[tuple[str, dict[str, Any]]] = [
        ("purge", looked), ("purge", done), ("purges", purging.read("purges", {})),
        ("purges", purging.read("purges", {"receipt": done["receipt"]})), ("holds", purging.read("holds", {})),
        ("hold", purging.hold(refs[1])), ("purge", purging.purge("raw:0000000000001")),
        ("purges", {"purges": [], "next_cursor": None, "total": 0}),
    ]  # fmt: skip
    for verb, answer in answers:
        lines = render.render(answer, verb).splitlines()
        assert lines and all(len(line) <= 80 for line in lines if not line.startswith("--token")), lines
        assert not lines[0].startswith(("results", "purges", "holds")), "it has a form"
    assert "its text stays, 1 other memory has it" in " ".join(render.render(done, "purge").split())


def test_a_page_escapes_whatever_it_is_told(purging: Purging) -> None:
    done = purging.purge(purging.capture("a"))
    (receipt,) = purging.read("purges", {"receipt": done["receipt"]})["purges"]
    told = page({**receipt, "tenant": "<script>alert(1)</script>"})
    assert "<script" not in told and "&lt;script&gt;" in told and told.count("<table>") == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ext4", "overwrites in place"), ("ext4 data=journal", "its own journal"), ("btrfs", "writes elsewhere"),
        ("zfs", "writes elsewhere"), ("overlay", "not known"), ("0x00000001", "not known"), (None, "is not known"),
    ],
)  # fmt: skip
def test_the_disclosure_says_what_the_file_system_does(name: str | None, said: str) -> None:
    told = erasure_words.disclosure(name, False)
    assert said in told and (name is None or name in told)
    for copy in erasure_words.UNREACHABLE_COPIES:
        assert f"({copy})" in told
    for other in ("plaintext exports", "subscribing", "extractor", "spools of hooks", "swap"):
        assert other in told
    assert "test guesses" in erasure_words.disclosure(name, True) and "test guesses" not in told


def test_the_file_system_is_the_kernels_word(tmp_path: Path) -> None:
    wanted = {line.split()[1]: line.split()[2] for line in Path("/proc/mounts").read_text().splitlines()}
    assert erasure_words.file_system(Path("/dev/shm")).partition(" ")[0] == wanted["/dev/shm"]
    assert erasure_words.file_system(tmp_path / "nowhere") == "unknown"


def test_the_page_says_what_went_along_what_is_left_and_how_far_it_went(purging: Purging) -> None:
    turn = purging.turn("said")
    params = {"kind": "note", "origin": "inferred", "text": "n", "derived_from": [turn]}
    note = str(purging.write("remember", params)["id"])
    receipt = purging.purge(turn, block_reingest=True)["receipt"]
    (whole,) = purging.read("purges", {"receipt": receipt})["purges"]
    told = page(whole)
    assert f"<td>Made from it, still there</td><td>{note}</td>" in told
    assert "<th>Tenant</th><td>default</td>" in told and "only what was named, and copies of it" in told
    assert "disks of replicas (<code>replica_disks</code>)" in told and "May not come again" in told
    assert "Done again" not in told and "Done again" in page({**whole, "applied_again": True})
    many = {**whole["results"][0], "derived_surviving": [note] * 30, "derived_surviving_count": 1500}
    assert "and 1480 more" in page({**whole, "results": [many]})
    hostile = {**whole["results"][0], "derived_surviving": ["<script>"]}
    assert "<script>" not in page({**whole, "results": [hostile]})
