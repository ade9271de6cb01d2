"""`noctuary export --tenant NAME`: all that one tenant has, as frames, held against what the store says it has.

The first line is that of an export, with `tenant`; no key of the store's stands in it, and no store is made of it. Then
the frames of the tenant's records up to the head that it names, in order, with gaps where others wrote. Nothing of the
store's own is among them. As they do not follow on each other, each is verified alone.

Invariant: it ends well only when the frames are as many as the tenant has records, and everything of the tenant's that
has a number or an id in any database of the projections (`projections/holdings.py`) began in one of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

import noctuary
from daemon.cli.arguments import Usage
from daemon.reads.holdings import holdings
from daemon.wire.audit_results import TenantHoldings
from journal.destroying import destroyed_slots
from journal.errors import EXPORT_AGAIN, DamagedStore
from journal.exporting import EXPORT_FORM, ExportHead, HeadLine, encode_line, tenant_lines
from journal.frames import Level, decode_frame, verify_frame
from journal.store import Destroying, Store
from projections.holdings import Begun, number_of
from projections.state import State
from projections.store import ProjectionStore

PAGE_RECORDS = 1000

Step = Callable[[int, int], None]


def offline(store: Store, destroying: list[Destroying], tenant: str, level: Level, step: Step) -> Iterator[bytes]:
    """The lines, of a store that is read here. Raises Usage, DamagedStore."""
    slots = frozenset(destroyed_slots(each.record.event for each in destroying))
    held = held_offline(store, tenant, slots)
    frames = tenant_lines(store, slots, level, tenant, held.head.seq, step)
    yield from whole(held, level, frames)


def held_offline(store: Store, tenant: str, slots: frozenset[int] = frozenset()) -> TenantHoldings:
    """What a tenant has; its projections are folded beside the store, for nobody vouches for those that are there.
    Raises DamagedStore."""
    with tempfile.TemporaryDirectory(prefix="noctuary-tenant-") as scratch:
        folded = ProjectionStore.open(Path(scratch) / "folded", store.boot_id)
        try:
            folded.catch_up(store.log)
            with folded.snapshot() as snapshot:
                number = number_of(State(snapshot, folded.counters, snapshot.head), tenant)
            return holdings(store, folded, tenant, number, destroyed=slots)
        finally:
            folded.close(clean=False)


def live(client: noctuary.Client, tenant: str, level: Level, step: Step) -> Iterator[bytes]:
    """The lines, of a daemon's answers. Raises Usage, DamagedStore, noctuary.NoctuaryError."""
    head = client.call("head", {}, dict)
    asked = {"tenant": tenant, **({"from_seq": head["seq"]} if head["seq"] else {})}
    held = msgspec.convert(client.call("audit", asked, dict)["holdings"], TenantHoldings, strict=False)
    yield from whole(held, level, _live_frames(client, tenant, level, held.head.seq, step))


def _live_frames(client: noctuary.Client, tenant: str, level: Level, last: int, step: Step) -> Iterator[bytes]:
    params: dict[str, Any] = {"tenant": tenant, "level": str(level), "limit": PAGE_RECORDS}
    cursor: dict[str, str] = {}
    while True:
        page = client.call("records", {**params, **cursor}, dict)
        for frame in page["frames"]:
            if frame["seq"] > last:
                return
            yield msgspec.json.encode(frame) + b"\n"
            step(frame["seq"], last)
        if page["next_cursor"] is None:
            return
        cursor = {"cursor": page["next_cursor"]}


def whole(held: TenantHoldings, level: Level, frames: Iterable[bytes]) -> Iterator[bytes]:
    """The first line and the frames; raises when they are not all there is."""
    if not held.records:
        raise Usage(f"there is no tenant {held.tenant}")
    head = held.head
    first = ExportHead(
        EXPORT_FORM, head.store, head.epoch, HeadLine(head.store, head.epoch, head.seq, head.chain, head.at),
        str(level), tenant=held.tenant,
    )  # fmt: skip
    yield encode_line(first) + b"\n"
    begun = Begun()
    for line in frames:
        frame = decode_frame(line)
        if frame.tenant != held.tenant:
            raise DamagedStore("export", f"frame {frame.seq} is not the tenant's", EXPORT_AGAIN, frame.seq)
        begun.learn(verify_frame(frame).event)
        yield line
    check(held, begun)


def check(held: TenantHoldings, begun: Begun) -> None:
    """Raises DamagedStore when the frames tell less, or something else, than the tenant has."""
    if begun.records != held.records:
        raise DamagedStore("export", f"{begun.records} frames of {held.records} records", EXPORT_AGAIN)
    told = begun.things()
    for database in sorted(held.things.keys() | told.keys()):
        there, here = held.things.get(database), told.get(database)
        if there is None or here is None or (there.count, there.digest) != here:
            counts = f"{0 if here is None else here.total} of {0 if there is None else there.count}"
            raise DamagedStore("export", f"{database}: the frames tell {counts}, or others", EXPORT_AGAIN)
