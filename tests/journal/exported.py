"""The golden store unpacked, and the lines of an export of any store that nobody has open."""

from __future__ import annotations

import tarfile
from pathlib import Path

from daemon.cli.offline import open_to_read
from journal.exporting import export_lines
from journal.frames import Level

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def unpack_golden(root: Path) -> Path:
    """The golden store as it lay on the disk, in the new directory `root`."""
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


def exported(root: Path, level: Level = Level.CONTENT) -> list[bytes]:
    """The lines of an export, as `noctuary export` writes them."""
    with open_to_read(root) as (store, destroying):
        return list(export_lines(store, destroying, level))
