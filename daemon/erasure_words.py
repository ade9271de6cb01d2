"""What a purge says of what it leaves and of what it can't reach. Ours, and the same live, on a receipt and on a page.

Overwriting a key in place destroys it only where the file system writes in place: `file_system` names the one that the
state directory lies on, by the number that statfs(2) gives, and `in_place` says what is known of it.
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from pathlib import Path

RETAINED_HEADER_FIELDS = (
    "header_version", "flags", "timestamp_ms", "importance", "valence", "arousal", "encoding_profile",
    "encoding_alpha", "encoding_beta", "soul_version",
)  # fmt: skip
RETAINED_JOURNAL_FIELDS = (
    "id", "kind", "subtype", "origin", "producer", "actor", "session", "turn", "strength", "confidence",
    "confidence_history", "surprise", "edges", "ciphertext_lengths", "ciphertext_digests", "times",
    "idempotency_key_hash", "correlation", "tenant_name", "agent_name",
)  # fmt: skip
UNREACHABLE_COPIES = (
    "dr_exports", "replica_disks", "cold_tier_objects", "filesystem_snapshots_and_backups",
    "wal_segments_prior_to_the_last_checkpoint", "os_page_cache_and_ssd_wear_levelling_remnants",
)  # fmt: skip
_NAMES = {
    0xEF53: "ext4", 0x58465342: "xfs", 0x9123683E: "btrfs", 0x2FC12FC1: "zfs", 0xCA451A4E: "bcachefs",
    0xF2F52010: "f2fs", 0x01021994: "tmpfs", 0x794C7630: "overlay", 0x6969: "nfs", 0x65735546: "fuse",
    0xFF534D42: "cifs", 0x01021997: "9p", 0x4D44: "vfat", 0x2011BAB0: "exfat", 0x52654973: "reiserfs",
    0x3153464A: "jfs", 0x3434: "nilfs2", 0x00C36400: "ceph", 0x47504653: "gpfs", 0x858458F6: "ramfs",
}  # fmt: skip
_IN_PLACE = frozenset({"ext4", "xfs", "jfs", "vfat", "exfat", "tmpfs", "ramfs"})
_ELSEWHERE = frozenset({"btrfs", "zfs", "bcachefs", "f2fs", "nilfs2"})
_JOURNALS_DATA = " data=journal"


class _Statfs(ctypes.Structure):
    _fields_ = (("type", ctypes.c_long), ("rest", ctypes.c_byte * 504))


@lru_cache(maxsize=16)
def file_system(path: Path) -> str:
    """The name of the file system that a directory lies on: `ext4`, `ext4 data=journal`, or its number where it has
    no name here; `unknown` where it can't be asked."""
    found = _Statfs()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.statfs(os.fsencode(path), ctypes.byref(found)) != 0:
        return "unknown"
    number = found.type & 0xFFFFFFFF
    name = _NAMES.get(number, f"0x{number:08x}")
    return name + (_JOURNALS_DATA if name == "ext4" and _has_data_journal(path) else "")


def _has_data_journal(path: Path) -> bool:
    """Whether ext4 is mounted so that it journals data too."""
    device = os.stat(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return False
    options = [line.split()[-1].split(",") for line in lines if line.split()[2:3] == [wanted]]
    return any("data=journal" in each for each in options)


def disclosure(name: str | None, fingerprint: bool) -> str:
    """What the person who asked is to know, in sentences."""
    said = [_DONE, _in_place(name), _COPIES, _OTHERS, _KEPT]
    if fingerprint:
        said.append(_FINGERPRINT)
    return " ".join(said)


def _in_place(name: str | None) -> str:
    if name is None:
        return (
            "Which file system the keys were overwritten on is not known, so it is not known whether old blocks remain."
        )
    if name.endswith(_JOURNALS_DATA):
        return f"The file system is {name}: it may keep overwritten blocks in its own journal for a while."
    if name in _IN_PLACE:
        return f"The file system is {name}, which overwrites in place; what the device beneath keeps is not known."
    if name in _ELSEWHERE:
        return (
            f"The file system is {name}, which writes elsewhere: old blocks with keys may remain until it reuses them."
        )
    return (
        f"The file system is {name}; whether it overwrites in place is not known, so old blocks with keys may remain."
    )


_DONE = (
    "The keys of all that was sealed for these memories were overwritten in this store, so that its ciphertexts, also "
    "in free pages of its files, can't be opened any more. A text that another memory here still has stays readable "
    "there, and is counted as retained."
)
_COPIES = (
    "Not reached by this: archives written earlier (dr_exports), disks of replicas (replica_disks), partitions moved "
    "to object stores (cold_tier_objects), snapshots and backups (filesystem_snapshots_and_backups), copies of the "
    "journal made earlier (wal_segments_prior_to_the_last_checkpoint), which nobody can read without a copy of the "
    "vault from before, and what memory and flash chips still hold (os_page_cache_and_ssd_wear_levelling_remnants)."
)
_OTHERS = (
    "Nor by this: plaintext exports, whoever received records by subscribing, whatever extractor commands were given, "
    "spools of hooks, and swap."
)
_KEPT = (
    "Ids, kinds, numbers, times and edges are kept on purpose, so that it can be shown what was erased; space on the "
    "disk is given back by vacuum."
)
_FINGERPRINT = (
    "A keyed fingerprint of each text is kept, so that the text is refused when it comes again: whoever holds this "
    "directory can test guesses against it, and so can whoever has the record or the list of this purge together with "
    "an export of the whole store with content, or its records read with content: these carry the key of such hashes."
)
