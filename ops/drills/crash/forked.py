"""The walk that an opening lets a child do, in a child that has the modules loaded already.

It is the same walk, in a process of its own whose death is a finding; but starting Python anew for it,
twice for each state, would be most of what a run takes.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import journal.store
from journal.verify import Finding, Verification, verify_state

_CONTEXT = multiprocessing.get_context("forkserver")


def fork_walks() -> None:
    """From now on openings in this process have their walks done in forked children."""
    _CONTEXT.set_forkserver_preload([__name__])
    vars(journal.store)["verify_in_child"] = walk_forked


def walk_forked(state_dir: Path, should_stop: Callable[[], bool] | None = None) -> Verification:
    """What `journal.verify.verify_in_child` says, sooner."""
    receiver, sender = _CONTEXT.Pipe(duplex=False)
    child = _CONTEXT.Process(target=_walk, args=(state_dir, sender))
    child.start()
    sender.close()
    try:
        found: Verification = receiver.recv()
    except EOFError:
        child.join()
        died = Finding("child_died", None, f"exit {child.exitcode} of the process that read the journal", "-")
        return Verification(None, 0, (died,))
    child.join()
    return found


def _walk(state_dir: Path, sender: Connection) -> None:
    sender.send(verify_state(state_dir))
    sender.close()
