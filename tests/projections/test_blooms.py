"""Tag Blooms: a tag that is there is never ruled out, and most that aren't are."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from journal.particulars import Particulars, encode
from projections.tag_blooms import ANY, HASHES, NONE, bloom_in, bloom_of, may_have

TAGS = st.lists(st.text(min_size=1, max_size=20), max_size=32)


@given(TAGS, st.data())
def test_a_tag_that_is_there_is_never_ruled_out_in_any_case(tags: list[str], data: st.DataObject) -> None:
    blooms = np.array([bloom_of(tags)], np.uint64)
    asked = data.draw(st.lists(st.sampled_from(tags), max_size=3)) if tags else []
    assert may_have(blooms, asked).all()
    assert may_have(blooms, [tag.casefold() for tag in asked]).all()
    assert may_have(np.array([ANY], np.uint64), asked).all()


def test_most_tags_that_are_not_there_are_ruled_out() -> None:
    blooms = np.array([bloom_of((f"tag-{number}", f"other-{number}", "all")) for number in range(10_000)], np.uint64)
    wrongly = int(may_have(blooms, ("tag-77",)).sum()) - 1
    assert wrongly < 200  # of 10,000; 9 of 64 bits are set at most: one in 360 is expected
    assert may_have(blooms, ("all",)).all()


def test_each_tag_sets_three_bits_at_an_odd_stride() -> None:
    counts = {bloom_of((f"tag-{number}",)).bit_count() for number in range(2000)}
    assert counts == {HASHES}
    assert bloom_of(()) == NONE


@given(TAGS, st.one_of(st.none(), st.text(max_size=10)))
def test_the_bloom_of_sealed_particulars_is_that_of_their_tags(tags: list[str], topic: str | None) -> None:
    particulars = Particulars(topic=topic, tags=tuple(tags), entities=(("a", "b"),), speaker="s", metadata=b"{}")
    assert bloom_in(encode(particulars)) == bloom_of(tags)


def test_particulars_of_which_nothing_was_said_have_no_tags() -> None:
    assert bloom_in(b"\x90") == NONE == bloom_in(encode(Particulars()))
