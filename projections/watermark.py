"""Up to which record the projections are folded: the row `watermark` of their database `meta`.

Value: epoch u32, seq u64 (little-endian), chain 32 bytes, then msgpack of the counters, CRC-32C. It is written in the
same transaction as the change sets it stands for, so that it never says more than is there, nor less. It is also a
witness: one that is ahead of a journal, or a place in another one, says that the journal is not what it was.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple

import lmdb
import msgspec

from journal.environment import Environment
from journal.errors import DamagedStore
from journal.log import Log
from journal.record import Head
from journal.trees import check_trees
from projections import rows, tables, trust
from projections.state import Counters

_PLACE = struct.Struct("<IQ32s")
_KEY = b"watermark"
_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(Counters).decode


class Watermark(NamedTuple):
    """The newest record that was folded, and the counters behind it."""

    head: Head
    counters: Counters


def read(txn: lmdb.Transaction, meta: Any) -> Watermark | None:
    """None when nothing was folded. `meta` is the database's handle. Raises DamagedRow."""
    payload = _payload(txn, meta)
    return None if payload is None else Watermark(_head(payload), _DECODE(payload[_PLACE.size :]))


def read_head(txn: lmdb.Transaction, meta: Any) -> Head | None:
    """The same without the counters."""
    payload = _payload(txn, meta)
    return None if payload is None else _head(payload)


def _payload(txn: lmdb.Transaction, meta: Any) -> bytes | None:
    value = txn.get(_KEY, db=meta)
    return None if value is None else rows.open_row(tables.META, _KEY, bytes(value))


def _head(payload: bytes) -> Head:
    return Head(*_PLACE.unpack_from(payload))


def write(txn: lmdb.Transaction, meta: Any, watermark: Watermark) -> None:
    """Put it where the change sets of the same transaction are."""
    head, counters = watermark
    payload = _PLACE.pack(head.epoch, head.seq, head.chain) + _ENCODE(counters)
    txn.put(_KEY, rows.seal_row(_KEY, payload), db=meta)


def peek(directory: Path, boot_id: bytes) -> Head | None:
    """The watermark of projections that may be trusted, None when there are none. Writes nothing."""
    if not directory.exists() or not trust.may_be_trusted(directory, boot_id):
        return None
    try:
        return read_in(directory)
    except (DamagedStore, rows.DamagedRow):
        return None  # what can't be read is folded anew


def read_in(directory: Path) -> Head | None:
    """The watermark in `directory`. Raises DamagedStore, DamagedRow."""
    check_trees(directory / "data.mdb")
    try:
        env = Environment.open(directory, (tables.META,), durable=False, readonly=True)
        try:
            with env.read() as txn:
                return read_head(txn, env.db(tables.META))
        finally:
            env.close()
    except lmdb.Error as error:
        raise DamagedStore("projections", str(error), "They are folded anew.") from error


def check(directory: Path, boot_id: bytes, log: Log) -> None:
    """Raise DamagedStore when trusted projections are ahead of the journal, or come from another one."""
    found = peek(directory, boot_id)
    if found is not None:
        check_place(found, log)


def check_place(found: Head, log: Log) -> None:
    """Raise DamagedStore when a watermark is ahead of the journal, or a place in another one."""
    head = log.head()
    if found.seq > head.seq:
        raise DamagedStore(
            "projections",
            f"their watermark is record {found.seq}, the journal ends at {head.seq}",
            "The journal went back: put the newer journal back, or restore a backup.",
            head.seq,
        )
    if found.seq and chain_of(log, found.seq) != found.chain:
        raise DamagedStore(
            "projections",
            f"the journal's record {found.seq} is another one than the projections were folded from",
            "Delete the directory projections/ if this is the journal you want.",
            found.seq,
        )


def chain_of(log: Log, seq: int) -> bytes:
    """The chain value of record `seq`, which must be there."""
    with log.env.read() as txn:
        return log.chain_of(txn, seq)
