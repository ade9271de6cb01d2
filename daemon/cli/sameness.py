"""Whether the daemon at a socket serves the store in a directory, before it is asked in that store's name.

The store id alone does not say: a restored copy keeps it. So the place that the directory's head file notes must lie in
the daemon's journal: the same epoch, and the same record at that number.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import noctuary
from journal.headfile import read_head
from journal.layout import StateDir
from journal.record import Head


def require_served(client: noctuary.Client, state: Path, store: str) -> None:
    """Raises noctuary.Unavailable when it serves another store than the one in `state`, whose id is `store` (hex)."""
    served = client.call("head", {}, dict)
    if served["store"] != store:
        raise _another(client, state, f"{state} holds {store}, the daemon serves {served['store']}")
    noted = read_head(StateDir(state).head_file)
    if noted is None or not noted.seq or _leads_through(client, served, noted):
        return
    raise _another(
        client, state, f"{state} was at epoch {noted.epoch} seq {noted.seq} chain {noted.chain.hex()}, "
        f"the daemon is at epoch {served['epoch']} seq {served['seq']} and did not come through there",
    )  # fmt: skip


def _leads_through(client: noctuary.Client, served: dict[str, Any], noted: Head) -> bool:
    if served["epoch"] != noted.epoch or served["seq"] < noted.seq:
        return False
    try:
        asked = {"store_wide": True, "from_seq": noted.seq, "limit": 1}
        frames = client.call("records", asked, dict)["frames"]
    except noctuary.Denied:
        return True  # who may not see it can't compare it
    return bool(frames) and frames[0]["chain"] == noted.chain.hex()


def _another(client: noctuary.Client, state: Path, what: str) -> noctuary.Unavailable:
    return noctuary.Unavailable(
        f"{state} is open in another process, and the daemon at {client.socket} serves another store: {what}. "
        "Give the --socket of the daemon that has it open, or stop that daemon."
    )
