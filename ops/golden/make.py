"""Makes the golden files of the format that this program writes: once, before the format is released.

    python ops/golden/make.py [--event NAME]

`tests/golden/store-1.tar.xz` is the state directory of a small store, without what can be made again (lock,
projections, reserve); `store-1.json` says what reading it must give; `events-1.json` has the bytes of one
record of each event type. Clock and randomness are fixed, so a key in it protects nothing. A golden file is
never made again: what an old program wrote stays what it is. A file that exists is refused; the line of an
event type that was added since is printed by `--event`, to be put at the end of `events-1.json`.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import msgspec

import journal.store
from journal.layout import FORMAT_VERSION
from journal.record import Actor, Cause, Record, encode_body
from ops.golden.filled import event_types, filled, tag_of
from ops.golden.story import Story, answers

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden"
KEPT = ("FORMAT", "head", "journal/data.mdb", "purges", "vault")
_BLOCK_BYTES = 32


class Draws:
    """Bytes in the place of random ones: a counter, eight times in each block, so that they compress."""

    def __init__(self) -> None:
        self._next = 1

    def draw(self, count: int) -> bytes:
        first, blocks = self._next, -(-count // _BLOCK_BYTES)
        self._next += blocks
        return b"".join(n.to_bytes(4, "little") * 8 for n in range(first, first + blocks))[:count]


@contextmanager
def nothing_by_chance() -> Iterator[None]:
    """In this block random bytes are counted, and the machine's boot has no id."""
    with patch.object(os, "urandom", Draws().draw), patch.object(journal.store, "read_boot_id", lambda: bytes(16)):
        yield


def golden_event(seq: int, event_type: type) -> dict[str, Any]:
    """A record of an event whose fields are all set: its bytes, and the values in them."""
    event = filled(event_type)
    actor, cause = Actor(1000, 1, 2), Cause(seq, "made", "golden")
    body = encode_body(Record(seq, 1_800_000_000_000 + seq, 7, actor, cause, event))
    fields = {name: msgspec.to_builtins(getattr(event, name)) for name in event.__struct_fields__}
    return {"seq": seq, "tag": tag_of(event_type), "event": event_type.__name__, "body": body.hex(), "fields": fields}


def archive(root: Path) -> bytes:
    """The kept files, without owner and times."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:xz", preset=9) as tar:
        for name in KEPT:
            data = (root / name).read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o600
            tar.addfile(entry, io.BytesIO(data))
    return target.getvalue()


def golden_store() -> tuple[bytes, dict[str, Any]]:
    """The archive, and what reading it must give."""
    with tempfile.TemporaryDirectory(prefix="noctuary-") as name, nothing_by_chance():
        root = Path(name) / "state"
        story = Story(root)
        try:
            story.tell()
        finally:
            story.close()
        packed = archive(root)
        shutil.rmtree(root / "projections")
        return packed, answers(root, story.ids, story.now_ms)


def write_new(path: Path, data: bytes) -> None:
    """Raises FileExistsError."""
    with path.open("xb") as file:
        file.write(data)
    print(f"{path.name}: {len(data)} bytes")


def golden_lines() -> str:
    """One record of each event type, a line each."""
    lines = (json.dumps(golden_event(seq, event_type)) for seq, event_type in enumerate(event_types(), start=1))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def make() -> int:
    names = [f"store-{FORMAT_VERSION}.tar.xz", f"store-{FORMAT_VERSION}.json", f"events-{FORMAT_VERSION}.json"]
    there = [name for name in names if (GOLDEN / name).exists()]
    if there:
        print(f"{', '.join(there)} exists: a golden file is never made again", file=sys.stderr)
        return 1
    GOLDEN.mkdir(exist_ok=True)
    packed, expected = golden_store()
    text = json.dumps(expected, ensure_ascii=False).replace('{"verb"', '\n{"verb"') + "\n"
    for name, data in zip(names, (packed, text.encode(), golden_lines().encode()), strict=True):
        write_new(GOLDEN / name, data)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="make the golden files of this format")
    parser.add_argument("--event", metavar="NAME", help="print the line of an event type that was added since")
    given = parser.parse_args()
    if given.event is None:
        return make()
    event_type = next(each for each in event_types() if each.__name__ == given.event)
    print(json.dumps(golden_event(1000 + tag_of(event_type), event_type)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
