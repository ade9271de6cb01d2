"""Opening a sealed part: the one way from a record's part to its plaintext."""

from __future__ import annotations

import lmdb

from journal.errors import PartUnreadable
from journal.events import SealedPart
from journal.log import Log
from journal.sealing import Sealer
from journal.vault import SlotState, SlotUnreadable


def unseal(log: Log, sealer: Sealer, txn: lmdb.Transaction, part: SealedPart) -> bytes:
    """The plaintext of `part`. Raises PartUnreadable: purged (its key is destroyed), or damaged."""
    sealed = log.sealed(txn, part.owner_seq, part.part) if part.slot else None
    return open_sealed(sealer, part, sealed)


def open_sealed(sealer: Sealer, part: SealedPart, sealed: bytes | None) -> bytes:
    """The plaintext of a ciphertext that was found, None when there is none. Raises PartUnreadable.

    Only a shredded key says `purged`: a ciphertext that is missing while its key is there was lost.
    """
    if not part.slot:
        raise PartUnreadable(part.owner_seq, part.part, "purged")
    try:
        return sealer.open(part.slot, part.part, sealed or b"")
    except SlotUnreadable as error:
        state = "purged" if error.state is SlotState.SHREDDED else "damaged"
        raise PartUnreadable(part.owner_seq, part.part, state) from error
