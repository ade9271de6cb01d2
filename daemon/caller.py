"""Who asks: what the kernel and the configuration say about the other end of a connection."""

from __future__ import annotations

import msgspec

from journal.codes import CallerRole, Via

DEFAULT_TENANT = "default"


class Caller(msgspec.Struct, frozen=True):
    """One connection's rights, as they are now.

    `tenant` is the one that a request without `tenant` means. `tenants_read` and `tenants_write` are the
    names the caller may use beside it; None means any (operators). `via` is a label that the caller gave
    itself in `hello`, never a right.
    """

    uid: int
    role: CallerRole
    via: Via = Via.CLIENT
    tenant: str = DEFAULT_TENANT
    tenants_read: frozenset[str] | None = frozenset()
    tenants_write: frozenset[str] | None = frozenset()
    content: bool = True
    purge: bool = False
    export: bool = False

    def may_read(self, tenant: str) -> bool:
        return self.tenants_read is None or tenant == self.tenant or tenant in self.tenants_read

    def may_write(self, tenant: str) -> bool:
        return self.tenants_write is None or tenant == self.tenant or tenant in self.tenants_write
