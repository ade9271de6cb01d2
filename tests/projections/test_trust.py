"""`OPEN`: it says what it said until it says the next, and what doesn't hold says nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from journal.layout import new_path
from projections import trust

BOOT, OTHER_BOOT = b"b" * 16, b"o" * 16


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "projections"
    made.mkdir()
    (made / trust.DATA_FILE).write_bytes(b"data")
    trust.write_open(made, BOOT)
    return made


@pytest.mark.parametrize("written", range(0, 29, 7))
def test_a_mark_that_is_written_half_leaves_what_was_said_before(
    directory: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    def part(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[:written])
        raise OSError(errno.ENOSPC, "no room")

    before = trust.open_file(directory).read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(trust, "write_all", part)
        with pytest.raises(OSError):
            trust.write_distrust(directory)
    assert trust.open_file(directory).read_bytes() == before
    assert trust.may_be_trusted(directory, BOOT) and not trust.is_of_another_boot(directory, BOOT)
    trust.write_distrust(directory)
    assert not trust.may_be_trusted(directory, BOOT) and not trust.is_of_another_boot(directory, BOOT)
    assert not new_path(trust.open_file(directory)).exists()


def test_only_an_open_that_holds_speaks_of_another_boot(directory: Path) -> None:
    opened = trust.open_file(directory)
    content = opened.read_bytes()
    assert trust.is_of_another_boot(directory, OTHER_BOOT)
    for place in range(len(content)):
        opened.write_bytes(content[:place])
        assert not trust.is_of_another_boot(directory, OTHER_BOOT), f"truncated to {place}"
        opened.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert not trust.is_of_another_boot(directory, OTHER_BOOT), f"a bit of byte {place}"
        assert not trust.may_be_trusted(directory, BOOT)


def test_a_link_in_the_place_of_the_mark_is_replaced_not_followed(directory: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"mine")
    for link in (trust.open_file(directory), new_path(trust.open_file(directory))):
        link.unlink(missing_ok=True)
        link.symlink_to(elsewhere)
    trust.write_open(directory, BOOT)
    assert elsewhere.read_bytes() == b"mine" and trust.may_be_trusted(directory, BOOT)
