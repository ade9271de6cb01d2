"""`noctuary rebuild`: projections folded anew, by the daemon that has the store open, or by this process when none has.

Which store is meant is found out as for `audit`. Without a daemon the whole journal is walked first, and projections
that say that the journal went back, or was replaced, are refused as the daemon would: they are the only witness.
Nothing is written to the journal. Whatever ends it leaves the projections as they were, or none.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import noctuary
from daemon.cli import arguments, auditing
from daemon.cli.arguments import Usage

if TYPE_CHECKING:
    from journal.store import Store


def run(given: dict[str, Any], words: list[str]) -> dict[str, Any]:
    """The result as on the wire. Raises Usage, noctuary.NoctuaryError, NoctuaryFault."""
    state, rest = auditing.place_of(given["socket"], words)
    params = parameters(rest)
    if state is None:
        return auditing.asked(given, params, verb="rebuild")
    from daemon.cli import progressing
    from daemon.cli.offline import store_at

    with progressing.shown() as on_progress:
        told = rebuild_offline(state, params.get("what", "all"), on_progress)
    return auditing.asked(given, params, state, store_at(state), verb="rebuild") if told is None else told


def parameters(words: list[str]) -> dict[str, Any]:
    """`[WHAT]` or `--what WHAT`. Raises Usage."""
    from projections.tables import PROJECTIONS

    if words and not words[0].startswith("-"):
        words = ["--what", *words]
    params = arguments.parameters("rebuild", words)
    names = ("all", *PROJECTIONS)
    if params.get("what", "all") not in names:
        raise Usage(f"rebuild has no projection {params['what']!r}; it is one of {', '.join(names)}")
    return params


def rebuild_offline(state: Path, what: str, on_progress: noctuary.OnProgress | None) -> dict[str, Any] | None:
    """Rebuild what lies at `state`; None when the lock is held. Raises NoctuaryFault."""
    from daemon.opening import journal_for_rebuilding
    from journal.errors import StoreLocked

    started = time.monotonic()
    try:
        store = journal_for_rebuilding(state)
    except StoreLocked:
        return None
    try:
        rebuilt = _rebuild(store, what, on_progress)
    finally:
        store.close(False)
    return {"rebuilt": list(rebuilt), "took_ms": int((time.monotonic() - started) * 1000)}


def _rebuild(store: Store, what: str, on_progress: noctuary.OnProgress | None) -> tuple[str, ...]:
    from daemon.refolding import ALL, FoldFailed, fold_beside
    from journal.errors import DamagedStore, StoreIO
    from projections import watermark
    from projections.swap import remove_new, settle

    def told(seq: int, to_seq: int) -> None:
        if to_seq and on_progress is not None:
            on_progress(noctuary.Progress(request=0, phase="fold", done=seq, of=to_seq))

    directory = store.dir.projections_dir
    can_be_copied = watermark.peek(directory, store.boot_id) is not None
    projections = ALL if what == "all" or not can_be_copied else (what,)
    _require_room(store)
    try:
        rebuilt = fold_beside(store.dir, store.log.head().seq, projections, told)
        settle(store.dir, store.boot_id, store.log)
        return rebuilt
    except FoldFailed as failed:
        if failed.seq is None:
            raise StoreIO(f"{failed}; nothing has changed") from failed
        raise DamagedStore("journal", str(failed), "Run `noctuary audit`.", failed.seq or None) from failed
    finally:
        remove_new(directory)


def _require_room(store: Store) -> None:
    """Raises NoRoom."""
    from journal.space import OPENING_BYTES, NoRoom, free_bytes
    from projections.trust import data_bytes

    needed = data_bytes(store.dir.projections_dir) * 3 // 2 + OPENING_BYTES
    free = free_bytes(store.dir.root)
    if free < needed:
        raise NoRoom(f"{store.dir.root}: {free} bytes are free, {needed} are needed to fold beside what is there")
