"""TSIDs and references.

A TSID is 64 bits: 42 bits of milliseconds since 2024-06-01T00:00:00Z, 10 bits of node, 12 bits of
sequence. As text: 13 characters of Crockford's base32, most significant first, so that text order is
number order. The millisecond part never goes back, whatever the clock does.
"""

from __future__ import annotations

from journal.codes import Kind
from journal.errors import NoctuaryFault

EPOCH_MS = 1_717_200_000_000
NODE_BITS = 10
SEQUENCE_BITS = 12
TEXT_LENGTH = 13
MAX_TSID = (1 << 64) - 1
MAX_MS = (1 << 42) - 1

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_ODD = {"O": "0", "o": "0", "I": "1", "i": "1", "L": "1", "l": "1"}
_DIGITS = "0123456789abcdefghijklmnopqrstuv"
"""Those of Python's base 32, which reads a number much faster than a loop over characters."""


def _digit_table() -> bytes:
    """For each byte the digit that stands for it, `!` where there is none."""
    table = bytearray(b"!" * 256)
    for value, character in enumerate(_ALPHABET):
        table[ord(character)] = table[ord(character.lower())] = ord(_DIGITS[value])
    for character, digit in _ODD.items():
        table[ord(character)] = ord(digit)
    return bytes(table)


_TO_DIGITS = _digit_table()
_KIND_PREFIX = tuple(f"{kind.wire}:" for kind in Kind)
_KIND_CODE = {kind.wire: int(kind) for kind in Kind}


def format_tsid(tsid: int) -> str:
    """The 13 characters of `tsid`."""
    pairs = _PAIRS
    return (
        _ALPHABET[tsid >> 60]
        + pairs[tsid >> 50 & 1023]
        + pairs[tsid >> 40 & 1023]
        + pairs[tsid >> 30 & 1023]
        + pairs[tsid >> 20 & 1023]
        + pairs[tsid >> 10 & 1023]
        + pairs[tsid & 1023]
    )


def parse_tsid(text: str) -> int:
    """The number in `text`; lower case, O as 0, I and L as 1 are read. Raises ValueError."""
    if len(text) != TEXT_LENGTH:
        raise ValueError("an id has 13 characters")
    try:
        tsid = int(text.encode().translate(_TO_DIGITS), 32)
    except ValueError:
        raise ValueError("an id is written in Crockford's base32") from None
    if tsid > MAX_TSID:
        raise ValueError("the first character of an id is at most F")
    return tsid


def tsid_ms(tsid: int) -> int:
    """When `tsid` was made, UTC milliseconds."""
    return (tsid >> (NODE_BITS + SEQUENCE_BITS)) + EPOCH_MS


def memory_ref(kind: int, tsid: int) -> str:
    """`kind:TSID`."""
    return _KIND_PREFIX[kind] + format_tsid(tsid)


def parse_memory_ref(text: str) -> tuple[int, int]:
    """`(kind code, TSID)` of a memory reference. Raises ValueError."""
    kind, _, rest = text.partition(":")
    code = _KIND_CODE.get(kind)
    if code is None:
        raise ValueError("not a kind of memory")
    return code, parse_tsid(rest)


def parse_ref(prefix: str, text: str) -> int:
    """The TSID of a reference like `session:TSID`. Raises ValueError."""
    kind, _, rest = text.partition(":")
    if kind != prefix:
        raise ValueError(f"not a {prefix} reference")
    return parse_tsid(rest)


class ClockBeyondIds(NoctuaryFault):
    """The clock stands where no id can say it: beyond the year 2163."""

    reason = "unavailable"

    def __init__(self, now_ms: int) -> None:
        super().__init__(f"the clock is at {now_ms} ms, beyond what ids can hold")


class TsidSource:
    """Makes TSIDs for one node, strictly rising. `highest` is the highest one that exists already."""

    def __init__(self, node: int, highest: int = 0) -> None:
        if not 0 <= node < 1 << NODE_BITS:
            raise ValueError("node must fit 10 bits")
        self._node = node << SEQUENCE_BITS
        self._ms = (highest >> (NODE_BITS + SEQUENCE_BITS)) if highest else -1
        self._sequence = (1 << SEQUENCE_BITS) if highest else 0

    def next(self, now_ms: int) -> int:
        """The next id. A full millisecond, or a clock that went back, borrows from the next one; a clock before
        the epoch of ids is taken as at it. Raises ClockBeyondIds, and is as it was then.
        """
        ms = max(0, now_ms - EPOCH_MS)
        if ms > MAX_MS:
            raise ClockBeyondIds(now_ms)
        if ms > self._ms:
            self._ms = ms
            self._sequence = 0
        elif self._sequence >> SEQUENCE_BITS:
            self._ms += 1
            self._sequence = 0
        sequence = self._sequence
        self._sequence = sequence + 1
        return self._ms << (NODE_BITS + SEQUENCE_BITS) | self._node | sequence
