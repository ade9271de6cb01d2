"""What events are made of: references, sealed parts, externals, facts, changes, and their root."""

from __future__ import annotations

import msgspec

Ref = tuple[int, int]  # (kind code, TSID)


class SealedPart(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Where one sealed part lies and what its ciphertext must be.

    `owner_seq` is this record's own number, or the record whose part is shared. `slot` 0 means that
    there is no part any more (an imported frame of a purged one). `length` is that of the plaintext in
    bytes, `digest` the BLAKE2b-128 of nonce and ciphertext.
    """

    owner_seq: int
    part: int
    slot: int
    length: int
    digest: bytes


class External(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """An external source. Its id is content and stands in the particulars, in the same order."""

    use: int
    kind: int
    resolvable: bool


class FactHead(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """The open half of a fact; its words are in the particulars, in the same order."""

    id: int
    confidence: float | None = None
    valid_from: int | None = None
    valid_to: int | None = None
    proposal: int = 0


class Change(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """One number of one memory, before and after."""

    kind: int
    id: int
    old: float
    new: float


class TurnScore(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What a pass measured of one turn when it settled it. `distance` feeds the tenant's running mean. The last two are
    what stood before, so that it can be given back."""

    id: int
    distance: float | None
    surprise: float | None
    importance: float
    pinned: bool = False
    old_importance: float | None = None
    was_pinned: bool = False


class RegionRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What a row of the provenance region says of where a memory was made from, as it was decided.

    Of a note made by a pass: `session` is the session's id, `turns` how many turns it was made from, with the number,
    partition and row offset of the first and the last (offsets are hints). Of a procedure: `source` is the semantic
    memory, of kind `source_kind`, in `source_partition`; all else is 0.
    """

    session: int = 0
    turns: int = 0
    partition: int = 0
    first_turn: int = 0
    last_turn: int = 0
    first_offset: int = 0
    last_offset: int = 0
    source: int = 0
    source_kind: int = 0
    source_partition: int = 0


class Event(
    msgspec.Struct,
    frozen=True,
    array_like=True,
    forbid_unknown_fields=True,
    kw_only=True,
    gc=False,
):
    """The root of all events."""
