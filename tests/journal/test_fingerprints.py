"""Fingerprints at rest: they tell whoever has the vault's key what is kept out, and nobody else anything."""

from __future__ import annotations

from journal.fingerprints import KEY_BYTES, open_fingerprints, seal_fingerprints
from journal.sealing import keyed_hash

HASH_KEY = bytes(range(32))
KEY = bytes(KEY_BYTES)
FOUND_BY = [bytes([number]) * 16 for number in range(1, 4)]


def test_what_was_sealed_is_what_texts_are_found_by() -> None:
    sealed = seal_fingerprints(HASH_KEY, KEY, FOUND_BY)
    assert open_fingerprints(HASH_KEY, KEY, sealed) == FOUND_BY
    assert {len(each) for each in sealed} == {44}


def test_another_key_of_the_record_or_of_the_vault_opens_none() -> None:
    sealed = seal_fingerprints(HASH_KEY, KEY, FOUND_BY)
    assert open_fingerprints(bytes(32), KEY, sealed) == open_fingerprints(HASH_KEY, b"\1" * KEY_BYTES, sealed) == []
    assert open_fingerprints(HASH_KEY, KEY, [sealed[0][:-1], sealed[1]]) == FOUND_BY[1:2]


def test_two_purges_of_one_text_have_nothing_in_common_and_a_guess_finds_nothing() -> None:
    first, second = (seal_fingerprints(HASH_KEY, key, FOUND_BY) for key in (KEY, b"\1" * KEY_BYTES))
    assert not set(first) & set(second)
    guesses = [keyed_hash(KEY, person, text) for person in (b"reingest", b"text") for text in FOUND_BY]
    assert not any(each in sealed for sealed in first for each in (*FOUND_BY, *guesses))


def test_sealing_asks_for_nothing_random_and_no_two_texts_share_a_nonce() -> None:
    """Also not in two records of one command, which have the same key."""
    first, second = seal_fingerprints(HASH_KEY, KEY, FOUND_BY), seal_fingerprints(HASH_KEY, KEY, FOUND_BY[::-1])
    assert first == second[::-1]
    assert len({each[:12] for each in first}) == len(FOUND_BY)
