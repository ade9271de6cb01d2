"""The head file: a place that the journal had reached, kept outside of it.

One line of ASCII: `<epoch> <seq> <chain, 64 hex digits> <CRC-32C of what stands before, 8 hex digits>`.
It is replaced as a whole at a clean stop, a checkpoint and a purge. Invariant: the journal never ends
before the head file's place; one that does has gone back in time.
"""

from __future__ import annotations

from pathlib import Path

from crc32c import crc32c

from journal.errors import DamagedStore, StoreIO
from journal.layout import replace_file
from journal.log import Log
from journal.record import CHAIN_BYTES, Head

_RESTORE = "Put the journal back that belongs to it, from your copy of the state directory."


def write_head(path: Path, head: Head) -> None:
    """Put `head` in the place of the head file, on the disk when this returns. Raises StoreIO."""
    covered = b"%d %d %b" % (head.epoch, head.seq, head.chain.hex().encode("ascii"))
    replace_file(path, b"%b %08x\n" % (covered, crc32c(covered)))


def read_head(path: Path) -> Head | None:
    """The head file's place; None when there is no such file. Raises DamagedStore, StoreIO."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreIO(f"{path.name}: {error.strerror}") from error
    covered, _, checksum = data.removesuffix(b"\n").rpartition(b" ")
    if checksum != b"%08x" % crc32c(covered):
        raise DamagedStore("head file", "its CRC does not hold", "Compare the head with one noted elsewhere.")
    try:
        epoch, seq, chain = covered.decode("ascii").split(" ")
        head = Head(int(epoch), int(seq), bytes.fromhex(chain))
    except ValueError as error:
        raise DamagedStore("head file", "it names no place", _RESTORE) from error
    if len(head.chain) != CHAIN_BYTES and head.seq:
        raise DamagedStore("head file", "its chain is too short", _RESTORE)
    return head


def check_head(noted: Head, log: Log) -> None:
    """Raises DamagedStore when the journal lies behind the place, or does not lead through it."""
    head = log.head()
    if noted.epoch < head.epoch:
        return  # a restore came between: its RESTORED record says what it forked from
    if noted.epoch > head.epoch or noted.seq > head.seq:
        found = (
            f"the head file is at epoch {noted.epoch} seq {noted.seq}, "
            f"the journal at epoch {head.epoch} seq {head.seq}: the journal went back"
        )
        raise DamagedStore("journal", found, _RESTORE, head.seq)
    with log.env.read() as txn:
        chain = log.chain_of(txn, noted.seq)
    if chain != noted.chain:
        found = f"the head file names chain {noted.chain.hex()} there, the journal {chain.hex()}"
        raise DamagedStore("journal", found, _RESTORE, noted.seq)
