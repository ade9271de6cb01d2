"""Idempotency: the same key with the same request is answered as the first time.

Every command with a key leaves either a MemoryCreated that holds it or a Keyed event with its result, so a
repeat is answered from the journal alone, also after a crash.

Whether it is the same request, its digest says. That is sealed, and goes with a memory that it is about: whoever had
it could test guesses of what was said. What is left to compare is open anyway: the verb, and the memories named.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from daemon.decision import Draft
from daemon.refusal import Reason, Refused
from daemon.view import View
from journal import events
from journal.codes import Mark, Note, Part
from journal.errors import PartUnreadable
from journal.events import SealedPart
from journal.particulars import decode_particulars
from journal.record import Record
from journal.tsid import format_tsid, memory_ref


class Request(NamedTuple):
    """What comes with a key that was used: the verb, its digest, and the memories of the tenant that it names."""

    verb: str
    digest: bytes
    named: tuple[int, ...]


def _other_request() -> Refused:
    return Refused(
        Reason.CONFLICT,
        "this idempotency key was used for another request",
        parameter="idempotency_key",
    )


def _part(parts: tuple[SealedPart, ...], code: Part) -> SealedPart | None:
    return next((part for part in parts if part.part == code), None)


def _record(view: View, seq: int) -> Record:
    record = view.record(seq)
    if record is None:
        raise LookupError(f"record {seq} holds an answer but is not there")
    return record


def answer_memory(view: View, seq: int, digest: bytes | None) -> dict[str, Any]:
    """The answer to a repeated `remember`. Raises Refused (conflict) for another request."""
    record = _record(view, seq)
    event = record.event
    if not isinstance(event, events.MemoryCreated):
        raise _other_request()
    row = view.state.memory(event.id)
    purged = row is not None and row.has(Mark.PURGED)
    part = _part(event.parts, Part.PARTICULARS)
    if not purged and part is not None:
        try:
            if decode_particulars(view.unseal(part)).request_digest != digest:
                raise _other_request()
        except PartUnreadable as error:
            purged = error.state == "purged"
            if not purged:
                raise
    answer: dict[str, Any] = {
        "id": memory_ref(event.kind, event.id),
        "address": {"epoch": view.state.head.epoch, "seq": seq},
        "duplicate": True,
        "session": f"session:{format_tsid(view.session(event.session).id)}" if event.session else None,
        "turn": event.turn or None,
        "notes": [Note(note).wire for note in event.notes],
    }
    if purged:
        answer["state"] = "purged"
    return answer


def same_command(earlier: tuple[bytes | None, dict[str, Any]], digest: bytes | None) -> dict[str, Any]:
    """The answer to a key that an earlier item of the same batch used. Raises Refused (conflict)."""
    known, result = earlier
    if known != digest:
        raise _other_request()
    return {**result, "duplicate": True}


def answer_keyed(view: View, seq: int, request: Request) -> dict[str, Any]:
    """The answer to a repeated command that owns no memory. Raises Refused (conflict)."""
    record = _record(view, seq)
    event = record.event
    if not isinstance(event, events.Keyed) or record.cause.verb != request.verb:
        raise _other_request()
    answer: dict[str, Any] = msgspec.msgpack.decode(event.result)
    answer["duplicate"] = True
    if not _is_unreadable(view, event):
        part = _part(event.parts, Part.REQUEST)
        if part is not None and view.unseal(part) != request.digest:
            raise _other_request()
        return answer
    if not set(request.named) <= set(event.memories):
        raise _other_request()
    answer["state"] = "purged"
    return answer


def _is_unreadable(view: View, event: events.Keyed) -> bool:
    """Whether what was asked went with a memory or a session. Raises PartUnreadable when it is damaged."""
    rows = [view.state.memory(tsid) for tsid in event.memories]
    if any(row is not None and row.has(Mark.PURGED) for row in rows):
        return True
    part = _part(event.parts, Part.REQUEST)
    try:
        if part is not None:
            view.unseal(part)
    except PartUnreadable as error:
        if error.state != "purged":
            raise
        return True
    return False


def keyed_draft(
    key: bytes, digest: bytes, result: dict[str, Any], memories: tuple[int, ...], sessions: tuple[int, ...]
) -> Draft:
    """The event that keeps the answer of a command with a key, and names what the request was about."""
    event = events.Keyed(key=key, result=msgspec.msgpack.encode(result), memories=memories, sessions=sessions)
    return Draft(event, ((int(Part.REQUEST), digest),))
