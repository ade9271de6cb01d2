"""The exceptions of the inside, one tree. What a caller sees of them is decided in `daemon/`.

`exit_code` is the one that a process which can't go on because of it ends with (sysexits).
"""

from __future__ import annotations

from typing import Final

RESTORE_A_BACKUP: Final = "Restore a backup into another directory (`noctuary restore`)."
"""What can be done about a journal or a vault that is damaged."""
EXPORT_AGAIN: Final = "Export the store again."
"""What can be done about an export that does not hold."""


class NoctuaryFault(Exception):
    """The root. `reason` is stable and may be matched on; the text is for people and has no content."""

    reason = "internal"
    exit_code = 70


class DamagedStore(NoctuaryFault):
    """Something at rest is not what was written. Never repaired in silence, never deleted."""

    reason = "damaged"
    exit_code = 65

    def __init__(self, what: str, found: str, action: str, seq: int | None = None) -> None:
        self.what = what
        self.found = found
        self.action = action
        self.seq = seq
        where = f" (record {seq})" if seq is not None else ""
        super().__init__(f"{what}{where}: {found}. {action}")


class DamagedRecord(DamagedStore):
    """A record whose CRC, number, chain or encoding does not hold. `check` names which."""

    def __init__(self, seq: int, check: str) -> None:
        self.check = check
        super().__init__(
            "journal record",
            f"its {check} check failed",
            RESTORE_A_BACKUP,
            seq,
        )


class ForeignStore(DamagedStore):
    """A file belongs to another store, another time or another version."""

    reason = "foreign"


class StoreAbsent(NoctuaryFault):
    """There is no store where one was asked for."""

    reason = "absent"
    exit_code = 1


class StoreLocked(NoctuaryFault):
    """Another process has the store open."""

    reason = "locked"
    exit_code = 75


class CannotCreate(NoctuaryFault):
    """The store can't be made there: not a directory, not ours, a symlink, not empty."""

    reason = "cannot_create"
    exit_code = 73


class BadConfiguration(NoctuaryFault):
    """A configuration that can't be used; the key is named."""

    reason = "configuration"
    exit_code = 78


class StoreIO(NoctuaryFault):
    """A write to the store failed. What was being written may or may not be there."""

    reason = "unknown_outcome"
    exit_code = 74


class PartUnreadable(NoctuaryFault):
    """A sealed part can't be opened. `state`: purged (its key is shredded) or damaged."""

    reason = "damaged"

    def __init__(self, seq: int, part: int, state: str) -> None:
        self.seq = seq
        self.part = part
        self.state = state
        super().__init__(f"part {part} of record {seq} is {state}")
