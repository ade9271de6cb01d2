"""The values that projections keep, byte for byte.

Each value that decides anything ends in a CRC-32C (u32, little-endian) over its key and the bytes before
it, because LMDB does not protect values. `seal_row` writes it, `open_row` checks it at every read.

Memory row (`memories`, key: TSID u64 big-endian), little-endian, 132 bytes:

| offset | type | field |
|---|---|---|
| 0 | u64 | seq of the creating record |
| 8 | u64 | seq of the record whose particulars are in force |
| 16 | u64 | TSID of the successor, 0 none |
| 24 | i64 | valid_to, UTC ms, `NO_TIME`: none |
| 32 | i64 | verified_at, UTC ms, `NO_TIME`: never |
| 40 | i64 | when its record was written, UTC ms |
| 48 | i64 | when it was forgotten, pruned or purged, UTC ms, `NO_TIME`: alive |
| 56 | f64 | confidence |
| 64 | f64 | strength |
| 72 | f64 | importance |
| 80 | u32 | tenant |
| 84 | u32 | slot (the memory's store-wide ordinal) |
| 88 | u32 | partition |
| 92 | u32 | row offset in the partition, 2^32 − 1: a vacuum took its row away |
| 96 | u32 | session number |
| 100 | u32 | turn |
| 104 | u32 | producer |
| 108 | u32 | verifications |
| 112 | u32 | reinforcements |
| 116 | u32 | open review flags |
| 120 | u16 | marks, bit n = code n of `Mark` |
| 122 | u8 | kind |
| 123 | u8 | subtype |
| 124 | u8 | origin |
| 125 | u8 | role |
| 126 | u16 | traits: 1 derived from outside the store too, 2 settled by a pass (also as noise), 4 self-scoped |
| 128 | u32 | CRC-32C |

Session row (`sessions`, key: number u32 big-endian), 64 bytes: id u64, opened_at i64, last_at i64,
closed_at i64 (`NO_TIME`: open), owner seq u64 (of SessionOpened), seq u64 of the record whose defaults are in
force, tenant u32, turns u32, activation u32, uid u32, then CRC-32C; agent and the rest stand in the records.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import msgspec
from crc32c import crc32c

from journal.codes import Mark, Status
from journal.errors import NoctuaryFault

_U32 = struct.Struct("<I")
_MEMORY = struct.Struct("<QQQqqqqdddIIIIIIIIIIHBBBBH")
_GLANCE = struct.Struct("<Q24xqq8xd16xI36xHBxBxH")
_SESSION = struct.Struct("<QqqqQQIIII")
_HEADER = struct.Struct("<BBBBBBBBqQffffIIIIeeHBB")
NO_TIME = -(1 << 63)
"""Where there is no time: the one number that no time has."""
MEMORY_BYTES = _MEMORY.size + 4
HEADER_BYTES = 64
CRC_BYTES = 4
assert _MEMORY.size == _GLANCE.size == 128 and _HEADER.size == HEADER_BYTES

NO_ROW = 0xFFFFFFFF
"""The offset of a dead memory whose header row a vacuum took away: it lies in `removed_rows`."""

ROWS_PER_PAGE = 63
"""63 rows of 64 bytes and a CRC fit one overflow page of LMDB; 64 would need two."""

FROM_OUTSIDE = 0x0001
"""A trait: what it was derived from lies outside the store too. What that is stands in its record."""
SETTLED = 0x0002
"""A trait: a pass settled this turn, as a source of a note or as noise."""
SELF_SCOPED = 0x0004
"""A trait: a belief of the agent about itself. It decays as a value does."""

FLAG_TOMBSTONE = 0x01
FLAG_CONSOLIDATED = 0x08
FLAG_PINNED = 0x10
FLAG_RESOLVED = 0x20
FLAG_PURGED = 0x40


class DamagedRow(NoctuaryFault):
    """A projection value whose CRC does not hold. Projections are repaired from the journal."""

    reason = "damaged"

    def __init__(self, database: str) -> None:
        self.database = database
        super().__init__(f"a value of projection database {database} is damaged")


def seal_row(key: bytes, payload: bytes) -> bytes:
    """`payload` with its CRC behind it."""
    return payload + _U32.pack(crc32c(key + payload))


_HOLDS = crc32c(seal_row(b"", b""))
"""The CRC of whatever has its own CRC behind it: one look instead of taking both apart."""


def open_row(database: str, key: bytes, value: bytes) -> bytes:
    """The payload of a value whose CRC holds. Raises DamagedRow."""
    if len(value) < CRC_BYTES or crc32c(key + value) != _HOLDS:
        raise DamagedRow(database)
    return value[:-CRC_BYTES]


class MemoryRow(NamedTuple):
    """One memory as the fold knows it. Fields as in the byte table."""

    seq: int
    particulars_seq: int
    superseded_by: int
    valid_to: int
    verified_at: int
    at_ms: int
    dead_at: int
    confidence: float
    strength: float
    importance: float
    tenant: int
    slot: int
    partition: int
    offset: int
    session: int
    turn: int
    producer: int
    verifications: int
    reinforcements: int
    flags: int
    marks: int
    kind: int
    subtype: int
    origin: int
    role: int
    traits: int = 0

    def has(self, mark: Mark) -> bool:
        return bool(self.marks >> mark & 1)

    @property
    def dead(self) -> bool:
        """Forgotten, pruned or purged."""
        return bool(self.marks & DEAD_MARKS)

    @property
    def status(self) -> Status:
        return status_of(self.marks)


DEAD_MARKS = 1 << Mark.FORGOTTEN | 1 << Mark.PRUNED | 1 << Mark.PURGED

_STATUS_ORDER = (
    (1 << Mark.PURGED, Status.PURGED),
    (1 << Mark.QUARANTINED, Status.QUARANTINED),
    (1 << Mark.FORGOTTEN, Status.FORGOTTEN),
    (1 << Mark.PRUNED, Status.PRUNED),
    (1 << Mark.ARCHIVED, Status.ARCHIVED),
    (1 << Mark.SUPERSEDED, Status.SUPERSEDED),
)


def status_of(marks: int) -> Status:
    """The first status that applies (contract §4.6)."""
    for bit, status in _STATUS_ORDER:
        if marks & bit:
            return status
    return Status.ACTIVE


def pack_memory(key: bytes, row: tuple[object, ...]) -> bytes:
    """The stored value of a memory row."""
    return seal_row(key, _MEMORY.pack(*row))


def unpack_memory(key: bytes, value: bytes) -> MemoryRow:
    """The memory row in `value`. Raises DamagedRow."""
    return MemoryRow._make(_MEMORY.unpack(open_row("memories", key, value)))


pack_place = struct.Struct("<II").pack
"""Partition and offset, as they stand in a memory row."""
_PLACE = slice(88, 96)


def moved(key: bytes, value: bytes, old: bytes, new: bytes) -> bytes:
    """The value of a memory row whose header row lies at the place `new` now, and lay at `old`. Nothing else of it is
    taken apart. Raises DamagedRow, also when it says that it lay elsewhere."""
    if len(value) != MEMORY_BYTES or crc32c(key + value) != _HOLDS or value[_PLACE] != old:
        raise DamagedRow("memories")
    payload = value[:88] + new + value[96:-CRC_BYTES]
    return payload + _U32.pack(crc32c(key + payload))


class Glance(NamedTuple):
    """What a walk over many memories needs of their rows. A third of the fields, and of the time."""

    seq: int
    verified_at: int
    at_ms: int
    confidence: float
    tenant: int
    marks: int
    kind: int
    origin: int
    traits: int

    def has(self, mark: Mark) -> bool:
        return bool(self.marks >> mark & 1)


def unpack_glance(key: bytes, value: bytes) -> Glance:
    """Of the memory row in `value`. Raises DamagedRow."""
    if crc32c(key + value) != _HOLDS:
        raise DamagedRow("memories")
    return glance_in(value)


def glance_in(value: bytes) -> Glance:
    """Of a value whose CRC was looked at. Raises DamagedRow when it has another length than a memory row."""
    if len(value) != MEMORY_BYTES:
        raise DamagedRow("memories")
    return Glance._make(_GLANCE.unpack_from(value))


class SessionRow(msgspec.Struct, frozen=True, gc=False):
    """One session as the fold knows it."""

    id: int
    opened_at: int
    last_at: int
    closed_at: int
    owner_seq: int
    defaults_seq: int
    tenant: int
    turns: int
    activation: int
    uid: int

    @property
    def closed(self) -> bool:
        """Closed by a caller; a session that is only stale is not."""
        return self.closed_at != NO_TIME


def pack_session(key: bytes, row: SessionRow) -> bytes:
    """The stored value of a session row."""
    return seal_row(key, _SESSION.pack(*msgspec.structs.astuple(row)))


def unpack_session(key: bytes, value: bytes) -> SessionRow:
    """The session row in `value`. Raises DamagedRow."""
    return SessionRow(*_SESSION.unpack(open_row("sessions", key, value)))


pack_header = _HEADER.pack
"""The 64-byte header row; fields in the order of its byte table in `ops/docs/formats.md`."""


unpack_header = _HEADER.unpack


def header_flags(marks: int) -> int:
    """The flags byte of a header row."""
    if not marks:
        return 0
    flags = FLAG_TOMBSTONE if marks & DEAD_MARKS else 0
    if marks >> Mark.CONSOLIDATED & 1:
        flags |= FLAG_CONSOLIDATED
    if marks >> Mark.PINNED & 1:
        flags |= FLAG_PINNED
    if marks >> Mark.RESOLVED & 1:
        flags |= FLAG_RESOLVED
    if marks >> Mark.PURGED & 1:
        flags |= FLAG_PURGED
    return flags


def header_marks(marks: int) -> int:
    """The marks byte of a header row: superseded 1, archived 2, pruned 4, forgotten 8, quarantined 16,
    protected 32, held 64."""
    if not marks:
        return 0
    return marks & 0x1F | (marks >> Mark.PROTECTED & 1) << 5 | (marks >> Mark.HELD & 1) << 6
