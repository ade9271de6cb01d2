"""Opening what many memories keep sealed, in few steps: for the columns, and for selections that ask of content.

A chunk of memories at a time, in id order: their rows, their records, their ciphertexts, their keys, each in one
narrow loop (it is the calls between functions that cost here, not the cipher). Checksums of records and slots are
passed over: a ciphertext only opens under the right key for its own place, so what comes out was written there.
Whatever doesn't come out at once is `None`: whoever asks looks at that memory the usual way, which finds out why.
Invariant: what is not None is what the usual way would have given.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import lmdb
from crc32c import crc32c

from journal import events
from journal.codes import Part
from journal.errors import DamagedRecord
from journal.events import SealedPart
from journal.log import sealed_key
from journal.record import HEAD_BYTES, decode_body
from journal.store import Store
from projections import tables
from projections.rows import MEMORY_BYTES, DamagedRow
from projections.state import KEY64
from projections.store import TxnSnapshot

CHUNK_MEMORIES = 256
NO_PARTICULARS = b"\x90"
"""An empty msgpack array: those of a memory of which nothing was said."""
NO_TEXT = b""

Plaintexts = list["bytes | None"]
_ROW_BYTES = MEMORY_BYTES - 4
_unpack_row = struct.Struct(f"<QQ{_ROW_BYTES - 16}xI").unpack
"""Of a memory row: the records that created it and that hold its particulars, and its checksum."""
_pack_key = KEY64.pack  # of memories and of records alike
_PARTICULARS, _TEXT = int(Part.PARTICULARS), int(Part.TEXT)
_WITH_PARTICULARS = (events.MemoryCreated, events.Moved)
_NO_RECORD = (0, 0)


class SealedScan:
    """Over one snapshot of the projections and one of the journal, which is the later one."""

    def __init__(self, store: Store, snapshot: TxnSnapshot, txn: lmdb.Transaction) -> None:
        self._sealer = store.sealer
        self._memories = snapshot.cursor(tables.MEMORIES)
        self._records = txn.cursor(db=store.env.db("records"))
        self._sealed = txn.cursor(db=store.env.db("sealed"))

    def particulars(self, tsids: Sequence[int]) -> Plaintexts:
        """Of each memory the particulars in force, None where the usual way has to be gone. Raises DamagedRow."""
        return self._open(self._parts([in_force for _, in_force in self._seqs(tsids)]), _PARTICULARS, NO_PARTICULARS)

    def with_texts(self, tsids: Sequence[int]) -> tuple[Plaintexts, Plaintexts]:
        """`(particulars, texts)`, as above. Raises DamagedRow."""
        seqs = self._seqs(tsids)
        in_force = self._parts([seq for _, seq in seqs])
        first = in_force if all(seq == later for seq, later in seqs) else self._parts([seq for seq, _ in seqs])
        return self._open(in_force, _PARTICULARS, NO_PARTICULARS), self._open(first, _TEXT, NO_TEXT)

    def _seqs(self, tsids: Sequence[int]) -> list[tuple[int, int]]:
        """Of each memory `(the record that created it, the one that holds its particulars)`."""
        found: list[tuple[int, int]] = []
        go_to, value_there = self._memories.set_key, self._memories.value
        try:
            for tsid in tsids:
                key = _pack_key(tsid)
                if not go_to(key):
                    found.append(_NO_RECORD)
                    continue
                row = bytes(value_there())
                if len(row) != MEMORY_BYTES:
                    raise DamagedRow(tables.MEMORIES)
                seq, in_force, checksum = _unpack_row(row)
                if checksum != crc32c(row[:_ROW_BYTES], crc32c(key)):
                    raise DamagedRow(tables.MEMORIES)
                found.append((seq, in_force))
        except lmdb.Error as error:
            raise DamagedRow(tables.MEMORIES) from error
        return found

    def _parts(self, seqs: Sequence[int]) -> list[tuple[SealedPart, ...] | None]:
        """The parts that each record names."""
        found: list[tuple[SealedPart, ...] | None] = []
        go_to, value_there = self._records.set_key, self._records.value
        for seq in seqs:
            parts = None
            try:
                if go_to(_pack_key(seq)):
                    event = decode_body(seq, bytes(value_there())[HEAD_BYTES:]).event
                    parts = event.parts if isinstance(event, _WITH_PARTICULARS) else None
            except (lmdb.Error, DamagedRecord):
                parts = None
            found.append(parts)
        return found

    def _open(self, named: list[tuple[SealedPart, ...] | None], code: int, absent: bytes) -> Plaintexts:
        """The plaintext of each one's part of a kind; `absent` where there is no such part."""
        found: Plaintexts = []
        wanted: list[tuple[int, SealedPart]] = []  # (place in `found`, part)
        for parts in named:
            found.append(None if parts is None else absent)
            for part in parts or ():
                if part.part == code:
                    wanted.append((len(found) - 1, part))
                    break
        keys = self._sealer.keys([part.slot for _, part in wanted])
        go_to, value_there, open_with = self._sealed.set_key, self._sealed.value, self._sealer.open_with
        for (place, part), key in zip(wanted, keys, strict=True):
            plaintext = None
            try:
                if key and go_to(sealed_key(part.owner_seq, code)):
                    plaintext = open_with(key, part.slot, code, bytes(value_there()))
            except lmdb.Error:
                plaintext = None
            found[place] = plaintext
        return found
