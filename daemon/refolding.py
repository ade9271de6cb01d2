"""Folding projections beside those in use, by a child process: for a rebuild while the daemon serves, and without it.

Invariant: whatever happens to the child, what is in use stays as it is; what it made lies under the new name.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection

from daemon.children import DEADLY, Ended, follow
from journal.layout import StateDir
from projections.swap import remove_new
from projections.tables import PROJECTIONS

ALL = tuple(PROJECTIONS)
Told = Callable[[int, int], None]
"""Called with the record that is folded and the one to be reached, and with zeros now and then. What it raises ends
the fold."""


class FoldFailed(Exception):
    """The child did not come to its end. `seq`: the record of the journal that is damaged, None when that is not why;
    `is_io`: the disk did not let it read or write."""

    def __init__(self, what: str, seq: int | None = None, is_io: bool = False) -> None:
        self.seq = seq
        self.is_io = is_io
        super().__init__(what)


def fold_beside(state_dir: StateDir, to_seq: int, projections: Collection[str], told: Told) -> tuple[str, ...]:
    """Fold these up to record `to_seq`, beside a copy of the others; what was folded: all, when those can't be copied
    or are not sound. Raises FoldFailed, OSError, and what `told` raises.
    """
    remove_new(state_dir.projections_dir)
    chosen = tuple(name for name in ALL if name in projections)
    if chosen != ALL:
        ended = _child(state_dir, to_seq, chosen, told)
        if ended.code == os.EX_OK:
            return chosen
        if not _is_damage_of_projections(ended):
            raise _failure(ended)
        remove_new(state_dir.projections_dir)
    go_on(state_dir, to_seq, told)
    return ALL


def go_on(state_dir: StateDir, to_seq: int, told: Told) -> None:
    """Fold what was begun up to record `to_seq`, or begin with all. Raises FoldFailed, OSError, what `told` raises."""
    ended = _child(state_dir, to_seq, (), told)
    if ended.code != os.EX_OK:
        raise _failure(ended)


def _child(state_dir: StateDir, to_seq: int, projections: tuple[str, ...], told: Told) -> Ended:
    def line(words: tuple[str, ...]) -> None:
        if words[:1] == ("fold",):
            told(int(words[1]), int(words[2]))
        else:
            told(0, 0)

    return follow("projections.refold", [str(state_dir.root.resolve()), str(to_seq), *projections], line)


def _is_damage_of_projections(ended: Ended) -> bool:
    """Whether what was to be copied is unsound: said so, or the death of who read it."""
    return -ended.code in DEADLY or (ended.code == os.EX_DATAERR and ended.last[:1] == ("projection",))


def _failure(ended: Ended) -> FoldFailed:
    if ended.code == os.EX_DATAERR and ended.last[:1] == ("journal",):
        return FoldFailed("the journal is damaged", seq=int(ended.last[1]))
    if -ended.code in DEADLY:
        return FoldFailed(f"{signal.Signals(-ended.code).name} ended the process that folds", seq=0)
    if ended.code < 0:
        return FoldFailed(f"{signal.Signals(-ended.code).name} ended the process that folds")
    return FoldFailed(f"the process that folds ended with {ended.code}", is_io=ended.code == os.EX_IOERR)
