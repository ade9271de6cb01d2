"""The head file."""

from __future__ import annotations

from pathlib import Path

import pytest

from journal.errors import DamagedStore
from journal.headfile import read_head, write_head
from journal.record import Head


def test_head_is_replaced_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "head"
    assert read_head(path) is None
    for head in (Head(1, 0, bytes(16)), Head(2, 7, bytes(range(32)))):
        write_head(path, head)
        assert read_head(path) == head
    path.write_bytes(path.read_bytes().replace(b"2 7", b"2 8"))
    with pytest.raises(DamagedStore):
        read_head(path)
