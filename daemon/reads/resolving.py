"""Finding what a selection means, for an action that is done in two steps (`daemon/selections.py`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daemon import limits
from daemon.prepare import UNSET, invalid, parse_session
from daemon.reads.downstream import Downstream, downstream_of
from daemon.reads.reading import Reading
from daemon.reads.selecting import Selecting
from daemon.selections import ALIVE_OR_NOT, Fields, Tsids, fields_of


class Found(NamedTuple):
    """The memories that are meant, in id order, and what derives from them. `touched`: all that would be acted on."""

    fields: Fields
    selected: Tsids
    downstream: Downstream
    touched: Tsids


def find(reading: Reading, sel: Any, downstream: bool) -> Found:
    """What is meant now. `downstream`: what derives from it is meant too. Raises Refused."""
    selecting = Selecting(reading, sel, ALIVE_OR_NOT)
    candidates = selecting.candidates()
    selected = candidates if selecting.by_headers else np.fromiter(selecting.matching(candidates), np.uint64)
    _bound(len(selected))
    most = limits.MEMORIES_PER_ACTION if downstream else limits.DOWNSTREAM_TOLD
    derived = downstream_of(reading, selected, most)
    touched = selected
    if downstream:
        _bound(len(selected) + len(derived.refs) + derived.cut)
        touched = np.sort(np.concatenate([selected, np.array([tsid for _, tsid in derived.refs], np.uint64)]))
    session = None if sel.session is UNSET else reading.session_number(parse_session("sel.session", sel.session))
    return Found(fields_of(sel, session, selecting.producers()), selected, derived, touched)


def _bound(count: int) -> None:
    """What is done as one command has to be bounded. Raises Refused."""
    if count > limits.MEMORIES_PER_ACTION:
        raise invalid(
            "sel", "the selection finds more memories than one action takes: narrow it, by time for example",
            limit=limits.MEMORIES_PER_ACTION, current=count,
        )  # fmt: skip
