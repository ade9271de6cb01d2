"""Copying the projections without their free pages, and putting the copy in their place while the daemon serves.

LMDB's files never shrink by themselves. A copy is made of one snapshot under the name ending in `.new`, folds what was
written meanwhile, and is swapped between two batches, as a rebuild is: readers keep the old file until they are done.
The journal's file stays as it is: what is free in it is used again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lmdb
import structlog

from daemon import rebuilding
from daemon.asking import Asking
from daemon.failures import log_failure
from daemon.refusal import Refused
from journal.errors import NoctuaryFault
from journal.layout import new_path
from projections import trust
from projections.rows import DamagedRow
from projections.swap import remove_new

if TYPE_CHECKING:
    from daemon.service import Service

SWAP_BYTES = 1 << 20
SWAP_SHARE = 0.25
"""So much of the file is to be free, in bytes and as a share, for a copy to be worthwhile."""

log = structlog.get_logger("vacuum")


def swap_if_worthwhile(service: Service, asking: Asking) -> int:
    """By how many bytes the projections' file is shorter now. Whatever keeps it from that is logged, and changes
    nothing; so does an asking that ends."""
    env = service.projections.env
    before, free = env.used_bytes(), env.free_bytes()
    if free < SWAP_BYTES or free < SWAP_SHARE * before:
        return 0
    if not service.space.room_for(before - free + service.space.read_only_below).enough:
        log.warning("not_swapped", reason="no_room")
        return 0
    try:
        _swap(service, asking)
    except (Refused, NoctuaryFault, DamagedRow, OSError, lmdb.Error) as error:
        log_failure("not_swapped", error)
        return 0
    finally:
        try:
            remove_new(service.store.dir.projections_dir)
        except OSError as error:
            log_failure("not_cleaned_up", error)
    return max(0, before - service.projections.env.used_bytes())


def _swap(service: Service, asking: Asking) -> None:
    directory = service.store.dir.projections_dir
    remove_new(directory)
    service.projections.env.copy(new_path(directory))
    trust.write_open(new_path(directory), service.store.boot_id)
    rebuilding.take(service, (), asking)
