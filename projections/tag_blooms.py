"""Which tags a memory may have: 64 bits for each, in memory only.

k = 3 bits a tag, at positions (h1 + i · h2) & 63, h2 odd. The hash is the interpreter's own over the case-folded tag,
SipHash under a key that this process drew when it started: what a Bloom says can't be compared with anything outside,
nor guessed at. Folded, so that it serves a question for the exact tag as well as one that doesn't mind case.

Invariant: a tag that a memory has is never missing in its Bloom. One too many is possible: whoever asks looks at the
tags themselves. `ANY` says nothing and so rules nothing out; `NONE` is that of a purged memory.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
import numpy.typing as npt

HASHES = 3
ANY = (1 << 64) - 1
NONE = 0

Blooms = npt.NDArray[np.uint64]


class _Tagged(msgspec.Struct, array_like=True, gc=False):
    """The beginning of `journal.particulars.Particulars`: nothing behind the tags is decoded."""

    topic: str | None = None
    tags: tuple[str, ...] = ()


_DECODE = msgspec.msgpack.Decoder(_Tagged).decode


def _bits(hashed: int) -> int:
    """The bits of a tag, from 12 bits of its hash: h1 from the lower six, h2 from the others."""
    first, step = hashed & 63, hashed >> 6 | 1
    return sum(1 << (first + number * step & 63) for number in range(HASHES))


_BITS = [_bits(hashed) for hashed in range(4096)]


def bloom_of(tags: Iterable[str]) -> int:
    """The Bloom of these tags."""
    bits = 0
    for tag in tags:
        bits |= _BITS[hash(tag.casefold()) & 4095]
    return bits


def bloom_in(particulars: bytes) -> int:
    """The Bloom of the tags in the plaintext of a particulars part. Raises msgspec.DecodeError."""
    return bloom_of(_DECODE(particulars).tags)


def may_have(blooms: Blooms, tags: Iterable[str]) -> npt.NDArray[np.bool_]:
    """Which memories may have all of these tags."""
    wanted = np.uint64(bloom_of(tags))
    found: npt.NDArray[np.bool_] = blooms & wanted == wanted
    return found
