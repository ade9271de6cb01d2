"""Records: what goes in comes out, and no damaged byte goes unnoticed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal.errors import DamagedRecord
from journal.events import Forgotten, MemoryCreated, SealedPart, TenantBegan
from journal.record import (
    Actor,
    Cause,
    Record,
    check_value,
    decode_value,
    encode_body,
    encode_value,
    key_seq,
    next_chain,
    seq_key,
)

u64 = st.integers(0, 2**64 - 1)
small = st.integers(0, 200)
parts = st.builds(SealedPart, u64, st.integers(1, 7), u64, small, st.binary(min_size=16, max_size=16))
refs = st.tuples(st.integers(0, 8), u64)
events = st.one_of(
    st.builds(TenantBegan, number=small, name=st.text(max_size=20)),
    st.builds(Forgotten, memory=refs, strength=st.floats(0, 1), flagged=st.tuples(refs)),
    st.builds(
        MemoryCreated,
        id=u64,
        slot=u64,
        kind=st.integers(0, 8),
        subtype=small,
        origin=st.integers(0, 8),
        partition=small,
        sources=st.lists(refs, max_size=3).map(tuple),
        importance=st.floats(0.05, 10),
        key=st.none() | st.binary(min_size=16, max_size=16),
        parts=st.lists(parts, max_size=4).map(tuple),
    ),
)
records = st.builds(
    Record,
    st.integers(1, 2**64 - 1),
    st.integers(0, 2**42),
    small,
    st.builds(Actor, st.integers(0, 2**32 - 1), st.integers(0, 3), st.integers(0, 5)),
    st.builds(Cause, u64, st.text(max_size=12), st.none() | st.text(max_size=40)),
    events,
)
chains = st.binary(min_size=32, max_size=32)


@given(records, chains)
def test_a_record_comes_back_as_it_was(record: Record, previous: bytes) -> None:
    value, chain = encode_value(previous, encode_body(record))
    assert check_value(record.seq, value, previous) == (record, chain)
    assert decode_value(record.seq, value) == record
    assert encode_body(decode_value(record.seq, value)) == encode_body(record)


@given(records, chains, st.data())
@settings(max_examples=50)
def test_every_single_byte_is_covered(record: Record, previous: bytes, data: st.DataObject) -> None:
    value, _ = encode_value(previous, encode_body(record))
    flip = data.draw(st.integers(1, 255))
    for place in range(len(value)):
        damaged = bytearray(value)
        damaged[place] ^= flip
        with pytest.raises(DamagedRecord):
            decode_value(record.seq, bytes(damaged))


@given(records, chains, st.data())
def test_a_truncated_record_is_damaged(record: Record, previous: bytes, data: st.DataObject) -> None:
    value, _ = encode_value(previous, encode_body(record))
    cut = data.draw(st.integers(0, len(value) - 1))
    with pytest.raises(DamagedRecord):
        decode_value(record.seq, value[:cut])


def test_the_number_in_the_body_must_be_the_key() -> None:
    record = Record(7, 1, 0, Actor(0, 0, 0), Cause(7, "x"), TenantBegan(number=1, name="a"))
    value, _ = encode_value(b"s" * 16, encode_body(record))
    with pytest.raises(DamagedRecord) as caught:
        decode_value(8, value)
    assert caught.value.check == "numbering"


def test_another_predecessor_breaks_the_chain() -> None:
    record = Record(7, 1, 0, Actor(0, 0, 0), Cause(7, "x"), TenantBegan(number=1, name="a"))
    value, _ = encode_value(b"a" * 32, encode_body(record))
    with pytest.raises(DamagedRecord) as caught:
        check_value(7, value, b"b" * 32)
    assert caught.value.check == "chain"


def test_the_chain_of_the_first_record_starts_at_the_store_id() -> None:
    assert next_chain(b"a" * 16, b"body") != next_chain(b"b" * 16, b"body")


@given(u64, u64)
def test_keys_sort_as_numbers(a: int, b: int) -> None:
    assert (a < b) == (seq_key(a) < seq_key(b))
    assert key_seq(seq_key(a)) == a
