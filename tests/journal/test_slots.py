"""Many slots at once are what each slot is by itself, and no key is drawn for one that may not be handed out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from journal.slots import FIELD_BYTES, KEY_AT, KEYED_HEADS, SLOT_BYTES, keyed_anew, rows_of, states
from journal.vault import SlotState, _encode_slot, _slot_state
from tests.journal.mastered import key

KINDS = st.sampled_from(["blank", "keyed", "shredded", "flipped", "misplaced", "odd_state"])


MANY = st.integers(1, 1 << 40)
SLOTS = st.lists(st.tuples(KINDS, st.integers(0, SLOT_BYTES * 8 - 1)), min_size=1, max_size=40)
FORMS = st.sampled_from([0, 1])


def slot_of(kind: str, number: int, bit: int, form: int) -> bytes:
    """`odd_state` is a keyed slot in the form that the vault doesn't have."""
    if kind == "blank":
        return bytes(SLOT_BYTES)
    head = {"shredded": b"\x02\0\0\0", "odd_state": KEYED_HEADS[1 - form]}.get(kind, KEYED_HEADS[form])
    slot = bytearray(_encode_slot(number + (kind == "misplaced"), head, bytes(range(40))))
    if kind == "flipped":
        slot[bit // 8] ^= 1 << bit % 8
    return bytes(slot)


@given(MANY, SLOTS, FORMS)
def test_states_of_many_are_those_of_each(first: int, kinds: list[tuple[str, int]], form: int) -> None:
    slots = [slot_of(kind, first + place, bit, form) for place, (kind, bit) in enumerate(kinds)]
    each = [_slot_state(first + place, slot, form) for place, slot in enumerate(slots)]
    assert states(first, rows_of(b"".join(slots)), form).tolist() == [int(state) for state in each]
    for (kind, _), state in zip(kinds, each, strict=True):
        wanted = {"blank": SlotState.BLANK, "keyed": SlotState.KEYED, "shredded": SlotState.SHREDDED}
        assert state is wanted.get(kind, SlotState.DAMAGED)


@given(MANY, SLOTS, FORMS)
def test_fresh_keys_only_where_a_key_may_stand(first: int, kinds: list[tuple[str, int]], form: int) -> None:
    data = b"".join(slot_of(kind, first + place, bit, form) for place, (kind, bit) in enumerate(kinds))
    master = key("old")
    new, keys = keyed_anew(first, data, master.wrap_all if form else None)
    before, after = states(first, rows_of(data), form), states(first, rows_of(new), form)
    for place, drawn_key in enumerate(keys):
        slot = new[place * SLOT_BYTES : (place + 1) * SLOT_BYTES]
        if before[place] in (SlotState.SHREDDED, SlotState.DAMAGED):
            assert drawn_key == b"" and slot == data[place * SLOT_BYTES : (place + 1) * SLOT_BYTES]
        else:
            field = master.wrap(drawn_key) if form else drawn_key + bytes(8)
            assert after[place] == SlotState.KEYED and slot[KEY_AT : KEY_AT + FIELD_BYTES] == field
    drawn = [each for each in keys if each]
    assert len(set(drawn)) == len(drawn)
