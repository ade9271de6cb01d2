"""Checking the vault against the journal: does every part that should be readable still have its key, and is that
of every destroyed part gone?

A part in use is one that a record names and no PURGE or new prior mean covers; its slot must be keyed. A slot
that was never used may be anything. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable

from journal.destroying import destroyed_slots
from journal.errors import RESTORE_A_BACKUP
from journal.log import Log
from journal.vault import SlotState, Vault
from journal.verify import Finding, ShouldStop, WalkStopped, never

FEW_SLOTS = 4096
"""Up to so many are looked at one by one; beyond, all slots at once is less work."""


def keyed_still(vault: Vault, slots: Iterable[int]) -> list[int]:
    """Those of `slots` that are not verifiably shredded, ascending."""
    wanted = set(slots)
    if len(wanted) <= FEW_SLOTS:
        return sorted(slot for slot in wanted if vault.state(slot) is not SlotState.SHREDDED)
    odd = vault.odd_slots(max(wanted) + 1)
    return sorted(slot for slot in wanted if odd.get(slot) is not SlotState.SHREDDED)


def check_keys(log: Log, vault: Vault, should_stop: ShouldStop = never) -> list[Finding]:
    """A finding for each part in use whose slot holds no key. Raises DamagedRecord, WalkStopped.

    Looks at the slots first, and at the records only when one of them is odd.
    """
    odd = vault.odd_slots(log.state.vault_next)
    if not odd:
        return []
    owners: dict[int, int] = {}
    for chunk in log.chunks(check=False):
        if should_stop():
            raise WalkStopped
        for record in chunk:
            event = record.event
            for part in getattr(event, "parts", ()):
                if part.owner_seq == record.seq and part.slot in odd:
                    owners[part.slot] = record.seq
            for slot in destroyed_slots([event]):
                odd.pop(slot, None)
    return [_finding(slot, state, owners[slot]) for slot, state in sorted(odd.items()) if slot in owners]


def _finding(slot: int, state: SlotState, seq: int) -> Finding:
    if state is SlotState.SHREDDED:
        what = f"vault slot {slot} is shredded, and no PURGE names it: it reads as purged"
        return Finding("shredded_unnamed", seq, what, RESTORE_A_BACKUP)
    return Finding(
        "key_damaged", seq, f"vault slot {slot} is {state.name.lower()}: its part can't be read", RESTORE_A_BACKUP
    )
