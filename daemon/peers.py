"""Who is at the other end: the kernel says which uid, the configuration says what it may.

Without entries the daemon's own uid and root are operators, everybody else is nobody. With entries the
first that fits decides; who fits none is nobody. 65534 is the kernel's word for "unknown" and is nobody
always.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from daemon.caller import DEFAULT_TENANT, Caller
from daemon.refusal import Reason, Refused
from daemon.wire.verbs import Verb
from journal.codes import CallerRole, Via

OVERFLOW_ID = 65534
_CREDENTIALS = struct.Struct("iII")
_SO_PEERGROUPS = 59
_PYTHON_BUFFER_BYTES = 1024
_GROUPS_MAX = 65_536


class PeerEntry(msgspec.Struct, frozen=True):
    """One `[[peer]]` of the configuration; exactly one of `uid` and `gid` is set."""

    role: CallerRole
    tenant: str
    uid: int | None = None
    gid: int | None = None
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    grants: frozenset[str] = frozenset()


class Credentials(NamedTuple):
    uid: int
    gids: frozenset[int]


def read_credentials(connected: socket.socket) -> Credentials:
    """What the kernel knows about the process that connected."""
    packed = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _pid, uid, gid = _CREDENTIALS.unpack(packed)
    return Credentials(uid, frozenset({gid, *_peer_groups(connected)}))


def _peer_groups(connected: socket.socket) -> Sequence[int]:
    """The supplementary groups. Python's own getsockopt hands over 256 of them at most; Linux allows 65,536."""
    with suppress(OSError):
        packed = connected.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _PYTHON_BUFFER_BYTES)
        return struct.unpack(f"{len(packed) // 4}I", packed)
    groups = (ctypes.c_uint32 * _GROUPS_MAX)()
    size_bytes = ctypes.c_uint32(ctypes.sizeof(groups))
    getsockopt = ctypes.CDLL(None, use_errno=True).getsockopt
    failed = getsockopt(
        connected.fileno(), socket.SOL_SOCKET, _SO_PEERGROUPS, ctypes.byref(groups), ctypes.byref(size_bytes)
    )
    return () if failed else groups[: size_bytes.value // 4]


class Peers:
    """The entries in force. `entries` may be replaced at any time; `generation` counts replacements."""

    def __init__(self, entries: tuple[PeerEntry, ...]) -> None:
        self._entries = entries
        self._own_uid = os.geteuid()
        self.generation = 0

    def replace(self, entries: tuple[PeerEntry, ...]) -> None:
        self._entries = entries
        self.generation += 1

    def unknown(self, credentials: Credentials) -> Refused:
        """What somebody is told whom `caller` doesn't know."""
        uid = credentials.uid
        if uid == OVERFLOW_ID:
            return Refused(Reason.DENIED, f"the kernel doesn't know this user: uid {uid} may never ask")
        if self._entries:
            message = f"uid {uid} is not known here: no [[peer]] of the configuration is for it or its groups"
        else:
            message = f"uid {uid} is not known here: without a [[peer]] only root and uid {self._own_uid} may ask"
        return Refused(Reason.DENIED, message, hint=f"have a [[peer]] with uid = {uid} added, and the daemon reload")

    def caller(self, credentials: Credentials, via: Via) -> Caller | None:
        """The rights behind `credentials`; None for nobody."""
        uid = credentials.uid
        if uid == OVERFLOW_ID:
            return None
        if not self._entries:
            if uid in (0, self._own_uid):
                return _operator(uid, via, DEFAULT_TENANT)
            return None
        for entry in self._entries:
            if entry.uid == uid or (entry.gid is not None and entry.gid in credentials.gids):
                return _mapped(entry, uid, via)
        return None


def _operator(uid: int, via: Via, tenant: str) -> Caller:
    return Caller(
        uid=uid,
        role=CallerRole.OPERATOR,
        via=via,
        tenant=tenant,
        tenants_read=None,
        tenants_write=None,
        purge=True,
        export=True,
    )


def _mapped(entry: PeerEntry, uid: int, via: Via) -> Caller:
    if entry.role is CallerRole.OPERATOR:
        return _operator(uid, via, entry.tenant)
    return Caller(
        uid=uid,
        role=entry.role,
        via=via,
        tenant=entry.tenant,
        tenants_read=entry.reads,
        tenants_write=entry.writes,
        content=entry.role is CallerRole.AGENT or "content" in entry.grants,
        purge="purge" in entry.grants,
        export="export" in entry.grants,
    )


def may_use(verb: Verb, caller: Caller) -> bool:
    """Whether the caller may use the verb at all, with whatever parameters: an agent purges only if that is granted."""
    is_agent_purging = verb.name == "purge" and caller.role is CallerRole.AGENT
    return caller.role in verb.roles and (caller.purge or not is_agent_purging)


def check_role(verb: Verb, caller: Caller) -> None:
    """Raises Refused: denied, naming the roles that may."""
    if caller.role in verb.roles:
        return
    allowed = [role.wire for role in CallerRole if role in verb.roles]
    raise Refused(
        Reason.DENIED,
        f"uid {caller.uid} is {caller.role.wire} here, and {verb.name} is not for that role",
        allowed=allowed,
        hint="hello tells the verbs of a role; the role stands in the [[peer]] of the caller",
    )


def check_grant(verb: Verb, params: Any, caller: Caller) -> None:
    """What an agent needs a grant for beside its role. Raises Refused: denied."""
    if verb.name != "purge" or caller.role is not CallerRole.AGENT:
        return
    if not caller.purge:
        raise Refused(Reason.DENIED, "purging needs the grant `purge`")
    if params.ids is UNSET and params.sel is not UNSET:
        raise Refused(Reason.DENIED, "an agent purges by ids", parameter="sel")


def check_access(verb: Verb, params: Any, caller: Caller) -> None:
    """Whether `caller` may ask this. Raises Refused: denied, or not_found for another's tenant."""
    check_role(verb, caller)
    may = caller.may_write if verb.writes else caller.may_read
    if params.tenant is not UNSET and not may(params.tenant):
        raise Refused(Reason.NOT_FOUND, "there is no such tenant", parameter="tenant")
    others = getattr(params, "tenants", UNSET)
    if others is not UNSET and not all(map(caller.may_read, others)):
        raise Refused(Reason.NOT_FOUND, "there is no such tenant", parameter="tenants")
