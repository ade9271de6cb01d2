"""Many slots at once are what each slot is by itself, and no key is drawn for one that may not be handed out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from journal.slots import KEY_AT, KEY_BYTES, SLOT_BYTES, keyed_anew, rows_of, states
from journal.vault import SlotState, _encode_slot, _slot_state

KINDS = st.sampled_from(["blank", "keyed", "shredded", "flipped", "misplaced", "odd_state"])


def slot_of(kind: str, number: int, bit: int) -> bytes:
    if kind == "blank":
        return bytes(SLOT_BYTES)
    head = {"shredded": b"\x02\0\0\0", "odd_state": b"\x01\x01\0\0"}.get(kind, b"\x01\0\0\0")
    slot = bytearray(_encode_slot(number + (kind == "misplaced"), head, bytes(range(40))))
    if kind == "flipped":
        slot[bit // 8] ^= 1 << bit % 8
    return bytes(slot)


@given(st.integers(1, 1 << 40), st.lists(st.tuples(KINDS, st.integers(0, SLOT_BYTES * 8 - 1)), min_size=1, max_size=40))
def test_states_of_many_are_those_of_each(first: int, kinds: list[tuple[str, int]]) -> None:
    data = b"".join(slot_of(kind, first + place, bit) for place, (kind, bit) in enumerate(kinds))
    each = [
        _slot_state(first + place, data[place * SLOT_BYTES : (place + 1) * SLOT_BYTES]) for place in range(len(kinds))
    ]
    assert states(first, rows_of(data)).tolist() == [int(state) for state in each]


@given(st.integers(1, 1 << 40), st.lists(st.tuples(KINDS, st.integers(0, SLOT_BYTES * 8 - 1)), min_size=1, max_size=40))
def test_fresh_keys_only_where_a_key_may_stand(first: int, kinds: list[tuple[str, int]]) -> None:
    data = b"".join(slot_of(kind, first + place, bit) for place, (kind, bit) in enumerate(kinds))
    new, keys = keyed_anew(first, data)
    before, after = states(first, rows_of(data)), states(first, rows_of(new))
    for place, key in enumerate(keys):
        slot = new[place * SLOT_BYTES : (place + 1) * SLOT_BYTES]
        if before[place] in (SlotState.SHREDDED, SlotState.DAMAGED):
            assert key == b"" and slot == data[place * SLOT_BYTES : (place + 1) * SLOT_BYTES]
        else:
            assert after[place] == SlotState.KEYED and slot[KEY_AT : KEY_AT + KEY_BYTES] == key
    drawn = [key for key in keys if key]
    assert len(set(drawn)) == len(drawn)
