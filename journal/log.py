"""The journal's log: its three databases and the only code that writes them.

| database | key | value |
|---|---|---|
| `records` | seq, u64 big-endian | `record.py` |
| `sealed` | owner seq, u64 big-endian; part, u8 | nonce (12) and AES-256-GCM ciphertext |
| `meta` | a name, or a name and u64 big-endian | CRC-32C of key and body, u32 little-endian; body |

Rows of `meta`: `store`, body store id; `state`, body msgpack array `MetaState`; `purge` + seq, no body,
one for each record that destroys keys (`destroying.py`); in a store that was imported, `source`, body msgpack
array `Source`.

Invariant: records, ciphertexts, and the state that speaks of them are written in one transaction, so the
journal is at every moment complete up to its head. Records are only ever added; ciphertexts only leave
through `removed`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

import lmdb
import msgspec
from crc32c import crc32c

from journal.environment import Environment
from journal.errors import RESTORE_A_BACKUP, DamagedRecord, DamagedStore, ForeignStore, StoreIO
from journal.record import (
    HEAD_BYTES,
    Head,
    Record,
    check_value,
    decode_body,
    decode_value,
    encode_value,
    key_seq,
    seq_key,
    split_value,
)

if TYPE_CHECKING:
    from journal.environment import Db

DATABASES = ("records", "sealed", "meta")
CHUNK_RECORDS = 4096
SEQ_KEY_BYTES = 8
CRC_BYTES = 4

_U32 = struct.Struct("<I")
_SEALED_KEY = struct.Struct(">QB")
_STORE = b"store"
_STATE = b"state"
_PURGE = b"purge"
_SOURCE = b"source"


class MetaState(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What the journal knows beside its records, as of its head.

    `vault_next` is the first vault slot that was never handed out, `owner_seq` the newest record that
    owns a slot (it names `vault_next` - 1; 0: none does), `opened_seq` the newest record that holds a
    nonce of the vault. Fields are only ever added at the end.
    """

    vault_next: int = 1
    owner_seq: int = 0
    epoch: int = 1
    opened_seq: int = 0


class Source(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Which journal an imported store was made from, and the place up to which: its first `seq` records are those of
    that journal, sealed anew."""

    store: bytes
    epoch: int
    seq: int
    chain: bytes


_ENCODE_STATE = msgspec.msgpack.Encoder().encode
_DECODE_STATE = msgspec.msgpack.Decoder(MetaState).decode
_DECODE_SOURCE = msgspec.msgpack.Decoder(Source).decode


def sealed_key(owner_seq: int, part: int) -> bytes:
    """The key of a ciphertext."""
    return _SEALED_KEY.pack(owner_seq, part)


class Log:
    """The log of an open journal. Appending is for the one writer; reading for every thread."""

    def __init__(self, env: Environment, store_id: bytes) -> None:
        """Read the head. Raises DamagedStore or ForeignStore when the newest rows do not hold."""
        self._env = env
        self._store_id = store_id
        self._records = env.db("records")
        self._sealed = env.db("sealed")
        self._meta = env.db("meta")
        try:
            with env.read() as txn:
                self._check_store(txn)
                self._state = self._read_state(txn)
                self._source = self._read_source(txn)
                self._head = self._read_head(txn, self._state.epoch)
        except lmdb.Error as error:
            raise DamagedStore("journal", str(error), RESTORE_A_BACKUP) from error

    @classmethod
    def create(cls, env: Environment, store_id: bytes, source: Source | None = None) -> Log:
        """The log of a store that is being made: no record yet, epoch 1."""
        rows = [(_STORE, store_id), (_STATE, _ENCODE_STATE(MetaState()))]
        if source is not None:
            rows.append((_SOURCE, _ENCODE_STATE(source)))
        with env.write() as txn:
            for key, body in rows:
                if not txn.put(key, _meta_row(key, body), db=env.db("meta"), overwrite=False):
                    raise StoreIO("this journal was made before")
        return cls(env, store_id)

    @property
    def env(self) -> Environment:
        return self._env

    @property
    def store_id(self) -> bytes:
        return self._store_id

    @property
    def state(self) -> MetaState:
        """The state of the newest commit."""
        return self._state

    @property
    def source(self) -> Source | None:
        """Where an imported store came from; None for every other."""
        return self._source

    def head(self) -> Head:
        """The head of the newest commit; before the first record its chain is the store id."""
        return self._head

    # --- writing ---------------------------------------------------------------------------------

    def append(
        self,
        bodies: Sequence[bytes],
        sealed: Iterable[tuple[bytes, bytes]],
        state: MetaState,
        destroying_seqs: Sequence[int] = (),
        removed: Sequence[bytes] = (),
    ) -> Head:
        """Commit the records behind the head, in one transaction; the new head.

        `sealed` are (`sealed_key`, nonce and ciphertext) of these records, `removed` the keys of ciphertexts
        that leave. Raises StoreIO for any failure: whether the batch is there is then not known.
        """
        seq, chain = self._head.seq, self._head.chain
        rows: list[tuple[bytes, bytes]] = []
        for body in bodies:
            seq += 1
            value, chain = encode_value(chain, body)
            rows.append((seq_key(seq), value))
        with self._env.write() as txn:
            self._put_new(txn, self._records, rows)
            self._put_new(txn, self._sealed, sorted(sealed))
            self._put_meta(txn, state, destroying_seqs)
            for key in removed:
                txn.delete(key, db=self._sealed)
        self._state = state
        self._head = Head(state.epoch, seq, chain)
        return self._head

    def _put_new(self, txn: lmdb.Transaction, db: Db, rows: list[tuple[bytes, bytes]]) -> None:
        """Put rows behind all that are there; LMDB only says in its result that it did not."""
        if not rows:
            return
        with txn.cursor(db=db) as cursor:
            consumed, added = cursor.putmulti(rows, append=True)
        if consumed != len(rows) or added != len(rows):
            raise StoreIO(f"a batch of {len(rows)} rows is out of order at row {added}")

    def _put_meta(self, txn: lmdb.Transaction, state: MetaState, destroying_seqs: Sequence[int]) -> None:
        if state != self._state:
            txn.put(_STATE, _meta_row(_STATE, _ENCODE_STATE(state)), db=self._meta)
        for seq in destroying_seqs:
            key = _PURGE + seq_key(seq)
            txn.put(key, _meta_row(key, b""), db=self._meta)

    # --- reading ---------------------------------------------------------------------------------

    def get(self, txn: lmdb.Transaction, seq: int) -> Record | None:
        """Record `seq`, CRC and number checked; None when there is none. Raises DamagedRecord."""
        value = self.raw(txn, seq)
        return None if value is None else decode_value(seq, value)

    def raw(self, txn: lmdb.Transaction, seq: int) -> bytes | None:
        """The stored value of record `seq`, unchecked. Raises DamagedRecord when its page is damaged."""
        try:
            return cast("bytes | None", txn.get(seq_key(seq), db=self._records))
        except lmdb.Error as error:
            raise DamagedRecord(seq, "page") from error

    def sealed(self, txn: lmdb.Transaction, owner_seq: int, part: int) -> bytes | None:
        """Nonce and ciphertext of a part; None when it is not (or no longer) there."""
        try:
            return cast("bytes | None", txn.get(_SEALED_KEY.pack(owner_seq, part), db=self._sealed))
        except lmdb.Error as error:
            raise DamagedRecord(owner_seq, "page") from error

    def chain_of(self, txn: lmdb.Transaction, seq: int) -> bytes:
        """The chain of record `seq`, its CRC checked; of 0 the store id. Raises DamagedRecord."""
        if seq == 0:
            return self._store_id
        value = self.raw(txn, seq)
        if value is None:
            raise DamagedRecord(seq, "missing")
        return split_value(seq, value)[0]

    def chunks(
        self,
        from_seq: int = 1,
        to_seq: int | None = None,
        size: int = CHUNK_RECORDS,
        check: bool = True,
    ) -> Iterator[list[Record]]:
        """The records of a range, both ends included, in chunks that each have their own transaction.

        `to_seq` None: to the head as of now. Numbering is always checked, CRC and chain if `check`. Raises
        DamagedRecord at the first that does not hold.
        """
        last = self._head.seq if to_seq is None else to_seq
        seq = max(from_seq, 1)
        while seq <= last:
            chunk = self._chunk(seq, min(last, seq + size - 1), check)
            yield chunk
            seq += len(chunk)

    def _chunk(self, first: int, last: int, check: bool) -> list[Record]:
        expected = first
        found: list[Record] = []
        try:
            with self._env.read() as txn, txn.cursor(db=self._records) as cursor:
                chain = self.chain_of(txn, first - 1) if check else b""
                for key, value in rows_from(cursor, seq_key(first)):
                    if key != seq_key(expected):
                        break
                    if check:
                        record, chain = check_value(expected, value, chain)
                    else:
                        record = decode_body(expected, value[HEAD_BYTES:])
                    found.append(record)
                    if expected == last:
                        return found
                    expected += 1
        except lmdb.Error as error:
            raise DamagedRecord(expected, "page") from error
        raise DamagedRecord(expected, "missing")

    def destroying_seqs(self) -> list[int]:
        """The numbers of the records that destroy keys, ascending. Raises DamagedStore."""
        seqs: list[int] = []
        with self._env.read() as txn, txn.cursor(db=self._meta) as cursor:
            for key, value in rows_from(cursor, _PURGE):
                if not key.startswith(_PURGE):
                    break
                _meta_body(key, value)
                seqs.append(key_seq(key[len(_PURGE) :]))
        return seqs

    # --- opening ---------------------------------------------------------------------------------

    def _check_store(self, txn: lmdb.Transaction) -> None:
        if stored_store_id(txn, self._meta) != self._store_id:
            raise ForeignStore("journal", "its store id is not that of FORMAT", RESTORE_A_BACKUP)

    def _read_state(self, txn: lmdb.Transaction) -> MetaState:
        body = _meta_body(_STATE, _get(txn, self._meta, _STATE))
        try:
            return _DECODE_STATE(body)
        except msgspec.DecodeError as error:
            raise DamagedStore("journal state", "it can't be decoded", RESTORE_A_BACKUP) from error

    def _read_source(self, txn: lmdb.Transaction) -> Source | None:
        value = _get(txn, self._meta, _SOURCE)
        if value is None:
            return None
        try:
            return _DECODE_SOURCE(_meta_body(_SOURCE, value))
        except msgspec.DecodeError as error:
            raise DamagedStore("journal row source", "it can't be decoded", RESTORE_A_BACKUP) from error

    def _read_head(self, txn: lmdb.Transaction, epoch: int) -> Head:
        entries = self._env.entries(txn, "records")
        with txn.cursor(db=self._records) as cursor:
            if not cursor.last():
                return Head(epoch, 0, self._store_id)
            key, value = cast("tuple[bytes, bytes]", cursor.item())
        if len(key) != SEQ_KEY_BYTES or key_seq(key) != entries:
            raise DamagedStore(
                "journal", f"it has {entries} records, the last key is {key.hex()}", RESTORE_A_BACKUP, entries
            )
        chain, body = split_value(entries, value)
        decode_body(entries, body)
        return Head(epoch, entries, chain)


def stored_store_id(txn: lmdb.Transaction, meta: Db) -> bytes:
    """The store id that the journal itself names. Raises DamagedStore."""
    return _meta_body(_STORE, _get(txn, meta, _STORE))


def rows_from(cursor: lmdb.Cursor, key: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The rows whose keys are `key` or behind it."""
    if not cursor.set_range(key):
        return iter(())
    return cast("Iterator[tuple[bytes, bytes]]", cursor.iternext())


def _get(txn: lmdb.Transaction, db: Db, key: bytes) -> bytes | None:
    return cast("bytes | None", txn.get(key, db=db))


def _meta_row(key: bytes, body: bytes) -> bytes:
    return _U32.pack(crc32c(key + body)) + body


def _meta_body(key: bytes, value: bytes | None) -> bytes:
    """The body of a row of `meta` whose CRC holds. Raises DamagedStore."""
    name = _PURGE.decode() if key.startswith(_PURGE) else key.decode("ascii", "replace")
    if value is None:
        raise DamagedStore(f"journal row {name}", "it is missing", RESTORE_A_BACKUP)
    if len(value) < CRC_BYTES or _U32.unpack_from(value)[0] != crc32c(key + value[CRC_BYTES:]):
        raise DamagedStore(f"journal row {name}", "its CRC does not hold", RESTORE_A_BACKUP)
    return value[CRC_BYTES:]
