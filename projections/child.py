"""What a child process that works on projections does first, and how it tells its parent how far it is.

It is nice to the daemon beside it, and ends when the parent does: its standard input is a pipe that the parent holds,
and only the parent ends it, so signals to the whole group are not for it. Lines on standard output: a word, then
numbers or a name: `fold SEQ TO_SEQ`, `projection DATABASE` (is damaged), `journal SEQ` (is damaged), `at SEQ`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable

from journal.errors import DamagedRecord, DamagedStore, NoctuaryFault
from projections.rows import DamagedRow

NICE = 10


def begin() -> None:
    """Before anything else in a child."""
    os.nice(NICE)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    while os.read(0, 64):
        continue
    os._exit(os.EX_TEMPFAIL)


def tell(*words: object) -> None:
    """One line for the parent."""
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


def run(work: Callable[[], None]) -> int:
    """Do `work`; the exit code, when what was damaged is told."""
    try:
        work()
    except DamagedRow as damage:
        tell("projection", damage.database)
        return os.EX_DATAERR
    except (DamagedRecord, DamagedStore) as damage:
        tell("journal", damage.seq or 0)
        return os.EX_DATAERR
    except (NoctuaryFault, OSError) as fault:
        sys.stderr.write(f"{fault}\n")
        return os.EX_IOERR
    return os.EX_OK
