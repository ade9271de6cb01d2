"""How much a tenant may keep: `[[tenant]] max_bytes`, against what `projections/usage.py` counts.

Invariant: no ordinary write leads beyond the bound, counted with what the command adds and what its batch has added
before it. What closes or destroys goes on, as on a full disk: it adds a record's worth, and what it destroys no longer
counts. A bound that is lowered below what is there destroys nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from daemon.decision import Draft
from daemon.refusal import Reason, Refused
from daemon.room import ALLOWED_WHEN_FULL
from projections import usage
from projections.state import State

ALLOWED_BEYOND = ALLOWED_WHEN_FULL | {"lifecycle"}
"""The operator's word about a tenant is no writing of the tenant's."""


class Quotas:
    """The bounds in force, in bytes by the tenant's name. May be replaced at any time, from any thread."""

    def __init__(self, max_bytes: Mapping[str, int] | None = None) -> None:
        self._max_bytes = dict(max_bytes or {})

    def replace(self, max_bytes: Mapping[str, int]) -> None:
        self._max_bytes = dict(max_bytes)

    def of(self, tenant_name: str) -> int | None:
        """The bound of a tenant; None when it has none."""
        return self._max_bytes.get(tenant_name)

    def check(self, state: State, tenant_name: str, tenant: int, verb: str, drafts: Sequence[Draft]) -> None:
        """Whether the tenant may write what was decided. Raises Refused."""
        if not drafts or verb in ALLOWED_BEYOND or not self.is_beyond(state, tenant_name, tenant, drafts):
            return
        current = usage.of_tenant(state, tenant).total_bytes
        raise Refused(
            Reason.READ_ONLY, "the tenant keeps as much as it may",
            limit=self._max_bytes[tenant_name], current=current, needed_bytes=added_bytes(drafts),
        )  # fmt: skip

    def is_beyond(self, state: State, tenant_name: str, tenant: int, drafts: Sequence[Draft]) -> bool:
        """Whether what was decided would lead the tenant beyond its bound."""
        limit = self._max_bytes.get(tenant_name)
        return limit is not None and usage.of_tenant(state, tenant).total_bytes + added_bytes(drafts) > limit


def added_bytes(drafts: Sequence[Draft]) -> int:
    """What a tenant's usage grows by when the drafts are admitted. Shared texts were counted where they are."""
    return sum(usage.RECORD_BYTES + sum(len(plain) for _, plain in draft.plain) for draft in drafts)
