"""What the daemon says of itself in one sentence, for `systemctl status` and whoever else shows STATUS=.

Pure. Counts, sizes and codes only; a configuration that can't be used is quoted, up to `QUOTED` characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

QUOTED = 160
MIB = 1 << 20


class Sentence(NamedTuple):
    """`kind` tells sentences apart that differ in more than a count."""

    kind: str
    text: str


CHECKING = Sentence("checking", "Checking the journal before anything is written.")
STOPPING = Sentence("stopping", "Stopping: what was read is still answered.")
CLOSING = Sentence("closing", "Stopping: the store is being closed.")


def folding(seq: int, to_seq: int) -> Sentence:
    """How far the projections are."""
    if not to_seq:
        return Sentence("folding", "Opening the projections.")
    if seq >= to_seq:
        return Sentence("warming", "The projections are folded; names are being read.")
    return Sentence("folding", f"Folding the projections: record {seq:,} of {to_seq:,}.")


def serving(head_seq: int, health: str, codes: Sequence[str], free_bytes: int, unread: str | None) -> Sentence:
    """`codes`: of the findings. `unread`: what is wrong with a configuration that could not be loaded again."""
    head = f"The head is record {head_seq:,}."
    said: list[str] = []
    if "write_failed" in codes:
        said.append("Failed: the journal could not be written; a restart is needed.")
    if "disk_full" in codes:
        said.append(f"Read-only: the disk is full, {max(0, free_bytes) / MIB:.0f} MiB are free beyond the reserve.")
    others = sorted({code for code in codes if code not in ("write_failed", "disk_full")})
    if others:
        said.append(f"Degraded: {', '.join(others)}; see `noctuary status`.")
    if unread is not None:
        shown = unread if len(unread) <= QUOTED else unread[:QUOTED] + "…"
        said.append(f"The old configuration stays: {shown.rstrip('.')}.")
    if not said:
        said.append("Serving.")
    kind = f"{health} {','.join(sorted(set(codes)))} {unread}"
    return Sentence(kind, " ".join((*said, head)))
