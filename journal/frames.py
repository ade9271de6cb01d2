"""Frames: records as they leave a store, each readable and verifiable alone.

A frame is one JSON object; its fields are those of `Frame`. `event` is the reading of `event_reading.py`, `body` the
exact bytes of the record. Whoever has `prev`, `body` and `chain` can check that chain = BLAKE2b-256(prev + body).

| level | parts |
|---|---|
| skeleton | none |
| sealed | each with its ciphertext (nonce, ciphertext, tag) as it lies in the store |
| content | each with its plaintext, and the plaintext's BLAKE2b-128 as `digest` |

The parts of a frame are those that the event's field `parts` names: its own, and one that it shares (then
`owner_seq` is another record's). A PURGE has none: what it names is gone. `state` is sealed or content; purged when
the key is destroyed; damaged when the part can't be read although it should. Purged and damaged parts carry no bytes.
Text, words and a session's name stand as UTF-8, all else in base64; `encoding` says which.

Invariant: what a PURGE of this journal names is never in a frame, also when its key is still to be overwritten.
"""

from __future__ import annotations

from binascii import Error as BadBase64
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterator
from enum import StrEnum, unique
from hashlib import blake2b
from typing import Any, NamedTuple, get_args

import lmdb
import msgspec
from msgspec import UNSET, UnsetType

from journal.codes import CallerRole, Part, Via
from journal.errors import EXPORT_AGAIN, DamagedRecord, DamagedStore, PartUnreadable
from journal.event_reading import read_event
from journal.events import EVENT_WORDS, AnyEvent, Purged, SealedPart
from journal.log import Log, rows_from
from journal.record import CHAIN_BYTES, HEAD_BYTES, Actor, Head, Record, decode_body, next_chain, seq_key, split_value
from journal.sealing import Sealer, sealed_digest
from journal.times import format_ms
from journal.unsealing import open_sealed
from journal.vault import SlotState, Vault

EVENT_VERSION = 1
"""Of the form of an event: this version adds fields only at an event's end, which its reading shows."""
CONTENT_DIGEST_BYTES = 16
LOOKED_BEHIND = 10_000
"""So many records in a row may be damaged before nobody looks for the end of it."""
_TEXTS = frozenset({Part.TEXT, Part.WORDS, Part.NAME})


@unique
class Level(StrEnum):
    """How much of the sealed parts a frame carries."""

    SKELETON = "skeleton"
    SEALED = "sealed"
    CONTENT = "content"


# --- the frame -----------------------------------------------------------------------------------


class FrameActor(msgspec.Struct):
    uid: int
    role: str
    via: str


class FrameCause(msgspec.Struct):
    first_seq: int
    verb: str
    correlation: str | None


class FramePart(msgspec.Struct):
    """`length` is that of the plaintext in bytes; `ciphertext` and binary `content` are base64."""

    part: str
    state: str
    owner_seq: int
    length: int
    ciphertext: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    encoding: str | UnsetType = UNSET
    digest: str | UnsetType = UNSET


class Frame(msgspec.Struct):
    """One record. Store, chains and digests are hex, `body` is base64, `tenant` null for the store's own records."""

    store: str
    epoch: int
    seq: int
    at: str
    tenant: str | None
    actor: FrameActor
    cause: FrameCause
    type: str
    version: int
    event: dict[str, Any]
    body: str
    prev: str
    chain: str
    parts: list[FramePart]


encode_frame = msgspec.json.Encoder().encode
_DECODE = msgspec.json.Decoder(Frame).decode


def decode_frame(line: bytes) -> Frame:
    """The frame in a line, unverified. Raises msgspec.DecodeError."""
    return _DECODE(line)


# --- a look at a record without decoding its event ---------------------------------------------------


class Outline(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The envelope of a record, its event and cause as bytes: a filter needs no more, and this costs a fraction."""

    seq: int
    at_ms: int
    tenant: int
    actor: Actor
    cause: msgspec.Raw
    event: msgspec.Raw

    @property
    def tag(self) -> int:
        """Which event it is: a key of `TYPE_OF_TAG`."""
        head = memoryview(self.event)
        return head[3 if head[0] == _ARRAY16 else 1]


_ARRAY16 = 0xDC
_OUTLINE = msgspec.msgpack.Decoder(Outline).decode
TYPE_OF_TAG: dict[int, type] = {each.__struct_config__.tag: each for each in get_args(AnyEvent)}
TAG_OF_WORD: dict[str, int] = {EVENT_WORDS[event_type]: tag for tag, event_type in TYPE_OF_TAG.items()}
"""The tag behind each name of an event on the wire."""
assert all(0 < tag < 0x80 for tag in TYPE_OF_TAG), "a tag is one byte of msgpack"


class Row(NamedTuple):
    """A stored record and the chain before it; nothing of it is checked yet."""

    seq: int
    prev: bytes
    value: bytes

    def outline(self) -> Outline:
        """Its envelope, unchecked: a frame made of it is. Raises DamagedRecord."""
        try:
            return _OUTLINE(self.value[HEAD_BYTES:])
        except msgspec.DecodeError as error:
            raise DamagedRecord(self.seq, "undecodable") from error


def rows_between(log: Log, txn: lmdb.Transaction, first: int, last: int) -> Iterator[Row]:
    """Records `first` to `last`, both included, in order. Raises DamagedRecord where one is missing."""
    if last < first:
        return
    expected = first
    try:
        prev = log.chain_of(txn, first - 1)
        with txn.cursor(db=log.env.db("records")) as cursor:
            for key, value in rows_from(cursor, seq_key(first)):
                if key != seq_key(expected):
                    break
                yield Row(expected, prev, value)
                if expected == last:
                    return
                prev = value[4:HEAD_BYTES]
                expected += 1
    except lmdb.Error as error:
        raise DamagedRecord(expected, "page") from error
    raise DamagedRecord(expected, "missing")


def place_behind(log: Log, seq: int) -> Head | None:
    """The first record behind the damaged record `seq` from which the journal can be read on, None when there is none.

    Its own frame can't be made: the chain before it stands in the record that is damaged.
    """
    head = log.head()
    for each in range(seq + 1, min(head.seq, seq + LOOKED_BEHIND) + 1):
        try:
            with log.env.read() as txn:
                return Head(head.epoch, each, log.chain_of(txn, each))
        except DamagedRecord:
            continue
    return None


# --- making ----------------------------------------------------------------------------------------


def bare_frame(
    store: str, epoch: int, tenant: str | None, record: Record, body: bytes, prev: bytes, chain: bytes
) -> Frame:
    """The frame of a record, without parts. `store` in hex."""
    word, version, reading = _told_event(record.event)
    return Frame(
        store=store,
        epoch=epoch,
        seq=record.seq,
        at=format_ms(record.at_ms),
        tenant=tenant,
        actor=_actor(record),
        cause=_cause(record),
        type=word,
        version=version,
        event=reading,
        body=_base64(body),
        prev=prev.hex(),
        chain=chain.hex(),
        parts=[],
    )


class FrameMaker:
    """Makes the frames of one open journal. Safe on any thread, each with its own transaction.

    `tenant_name` gives the name behind a tenant's number. `destroyed` are slots whose keys may still be there
    although a committed record destroys them (a store that is only read).
    """

    def __init__(
        self,
        log: Log,
        vault: Vault,
        sealer: Sealer,
        tenant_name: Callable[[int], str | None],
        destroyed: frozenset[int] = frozenset(),
    ) -> None:
        self._log = log
        self._vault = vault
        self._sealer = sealer
        self._tenant_name = tenant_name
        self._destroyed = destroyed
        self._store = log.store_id.hex()

    def frame(self, txn: lmdb.Transaction, row: Row, level: Level) -> Frame:
        """The frame of a record, CRC and number checked. Raises DamagedRecord."""
        chain, body = split_value(row.seq, row.value)
        record = decode_body(row.seq, body)
        tenant = self._tenant_name(record.tenant) if record.tenant else None
        frame = bare_frame(self._store, self._log.state.epoch, tenant, record, body, row.prev, chain)
        if level is not Level.SKELETON:
            frame.parts = [self._part(txn, part, level) for part in parts_of(record.event)]
        return frame

    def _part(self, txn: lmdb.Transaction, part: SealedPart, level: Level) -> FramePart:
        told = FramePart(part=Part(part.part).wire, state="purged", owner_seq=part.owner_seq, length=part.length)
        if not part.slot or part.slot in self._destroyed:
            return told
        sealed = self._log.sealed(txn, part.owner_seq, part.part)
        if level is Level.SEALED:
            return self._with_ciphertext(told, part, sealed)
        try:
            plaintext = open_sealed(self._sealer, part, sealed)
        except PartUnreadable as error:
            told.state = error.state
            return told
        told.state = "content"
        told.content, told.encoding = _told_content(part, plaintext)
        told.digest = content_digest(plaintext)
        return told

    def _with_ciphertext(self, told: FramePart, part: SealedPart, sealed: bytes | None) -> FramePart:
        if self._vault.state(part.slot) is SlotState.SHREDDED:
            return told
        if sealed is None or sealed_digest(sealed) != part.digest:
            told.state = "damaged"
            return told
        told.state = "sealed"
        told.ciphertext = _base64(sealed)
        return told


def parts_of(event: object) -> tuple[SealedPart, ...]:
    """The sealed parts that stand in the frame of an event."""
    return () if isinstance(event, Purged) else getattr(event, "parts", ())


def content_digest(plaintext: bytes) -> str:
    """What a frame says of a part's plaintext, hex, so that a changed one is found."""
    return blake2b(plaintext, digest_size=CONTENT_DIGEST_BYTES).hexdigest()


def _actor(record: Record) -> FrameActor:
    actor = record.actor
    return FrameActor(actor.uid, CallerRole(actor.role).wire, Via(actor.via).wire)


def _cause(record: Record) -> FrameCause:
    cause = record.cause
    return FrameCause(cause.first_seq, cause.verb, cause.correlation)


def _told_event(event: AnyEvent) -> tuple[str, int, dict[str, Any]]:
    """`(type, version, event)` of a frame."""
    return EVENT_WORDS[type(event)], EVENT_VERSION, read_event(event)


def _told_content(part: SealedPart, plaintext: bytes) -> tuple[str, str]:
    """`(content, encoding)`. The name of an entity is a msgpack array, whose first byte begins no UTF-8."""
    if part.part in _TEXTS:
        try:
            return plaintext.decode(), "utf-8"
        except UnicodeDecodeError:
            pass
    return _base64(plaintext), "base64"


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


# --- verifying -------------------------------------------------------------------------------------


def verify_frame(frame: Frame) -> Record:
    """The record of a frame that holds in itself. Raises DamagedStore: what does not agree, and in which frame.

    Body, chain and number agree; every word beside the body says what the body says; each part that is there is
    one that the record names, with its length, and its bytes are those of its digest.
    """
    body = _bytes_of(frame, "body", frame.body)
    try:
        record = decode_body(frame.seq, body)
        prev, chain = bytes.fromhex(frame.prev), bytes.fromhex(frame.chain)
    except DamagedRecord as error:
        raise bad_frame(frame.seq, f"its body fails the {error.check} check") from error
    except ValueError as error:
        raise bad_frame(frame.seq, "its chain is not hex") from error
    if len(chain) != CHAIN_BYTES or next_chain(prev, body) != chain:
        raise bad_frame(frame.seq, "its chain does not follow from prev and body")
    said = (frame.at, frame.actor, frame.cause, frame.type, frame.version, frame.event)
    try:
        meant = (format_ms(record.at_ms), _actor(record), _cause(record), *_told_event(record.event))
    except (ValueError, OverflowError) as error:
        raise bad_frame(frame.seq, "its body holds a code or a time that there is not") from error
    if said != meant:
        raise bad_frame(frame.seq, "what it says beside its body is not what the body says")
    if frame.parts:
        _verify_parts(frame, record)
    return record


def bad_frame(seq: int | None, found: str) -> DamagedStore:
    """The fault of a frame that does not hold. `seq` None: it has no number."""
    return DamagedStore("frame", found, EXPORT_AGAIN, seq)


def plaintext_of(frame: Frame, part: FramePart) -> bytes:
    """The content of a part whose state is content. Raises DamagedStore."""
    if not isinstance(part.content, str):
        raise bad_frame(frame.seq, f"its part {part.part} has no content")
    if part.encoding == "utf-8":
        return part.content.encode()
    return _bytes_of(frame, part.part, part.content)


def _verify_parts(frame: Frame, record: Record) -> None:
    named = [(Part(part.part).wire, part.owner_seq, part.length) for part in parts_of(record.event)]
    if [(part.part, part.owner_seq, part.length) for part in frame.parts] != named:
        raise bad_frame(frame.seq, "its parts are not those that the record names")
    for part, sealed in zip(frame.parts, parts_of(record.event), strict=True):
        if part.state == "content":
            plaintext = plaintext_of(frame, part)
            if len(plaintext) != part.length or content_digest(plaintext) != part.digest:
                raise bad_frame(frame.seq, f"the content of its part {part.part} is not what its digest says")
        elif part.state == "sealed":
            ciphertext = "" if isinstance(part.ciphertext, UnsetType) else part.ciphertext
            if sealed_digest(_bytes_of(frame, part.part, ciphertext)) != sealed.digest:
                raise bad_frame(frame.seq, f"the ciphertext of its part {part.part} is not the record's")


def _bytes_of(frame: Frame, what: str, text: str) -> bytes:
    try:
        return a2b_base64(text, strict_mode=True) if text else b""
    except (BadBase64, ValueError) as error:
        raise bad_frame(frame.seq, f"its {what} is not base64") from error
