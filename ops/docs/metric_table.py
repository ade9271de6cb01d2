"""The generated table of metrics in `ops/docs/reference.md`: every family that a serving daemon has, from one that is
made for it in a temporary directory. Only names, types, labels and words are taken, never a value.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from daemon import metrics
from daemon.counting import Counts
from daemon.moment import Moment
from daemon.opening import open_all
from daemon.service import Service
from journal.space import SpaceGuard

AT_MS = 1_767_225_600_000
RESERVE_BYTES = 4096


def table() -> str:
    """Sorted by name."""
    with tempfile.TemporaryDirectory(prefix="noctuary-") as name:
        store, projections, _ = open_all(Path(name, "state"), "documents", AT_MS)
        try:
            space = SpaceGuard(store.dir.root, store.dir.reserve_file, reserve_bytes=RESERVE_BYTES)
            service = Service(store, projections, Moment(lambda: AT_MS), lambda _: None, space=space)
            families = sorted(metrics.families(store, service, Counts(), "ok", []), key=lambda family: family.name)
        finally:
            projections.close(False)
            store.close(False)
    rows = ["| name | type | labels | is |", "|---|---|---|---|"]
    for family in families:
        full = family.name + ("_total" if family.type == "counter" else "")
        labels = ", ".join(getattr(family, "_labelnames", ()))
        rows.append(f"| {full} | {family.type} | {labels} | {family.documentation} |")
    return "\n".join(rows)
