"""The section `origin` of a provenance chain: the memory's own native create event, as its genesis record has it."""

from __future__ import annotations

from daemon.reads.chain_tracing import Tracing, actor_kind
from daemon.wire import chain_results as c
from daemon.wire.times import format_ms
from journal.errors import DamagedRecord
from journal.events import SessionOpened
from journal.tsid import format_tsid
from projections.rows import SessionRow


def origin(tracing: Tracing) -> c.ChainOrigin:
    """All null for an imported memory: it has no native create event. Raises DamagedRecord, DamagedRow."""
    record, event = tracing.genesis(tracing.row)
    if event.imported is not None:
        return c.ChainOrigin()
    session = tracing.session(event.session)
    return c.ChainOrigin(
        session=None if session is None else f"session:{format_tsid(session.id)}",
        actor_kind=actor_kind(record),
        created_at=format_ms(record.at_ms),
        run=None if session is None else _run(tracing, session),
    )


def _run(tracing: Tracing, session: SessionRow) -> c.ChainRun:
    record = tracing.record(session.owner_seq)
    if record is None or not isinstance(record.event, SessionOpened):
        raise DamagedRecord(session.owner_seq, "event")
    return c.ChainRun(agent=record.event.agent, opened_at=format_ms(session.opened_at))
