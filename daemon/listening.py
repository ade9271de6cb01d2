"""The listening socket: where it lies, whose it is, and how many connections the process has room for.

Invariant: what lies at the socket's path is unlinked only under the store's lock, and only when it is a socket that
nobody serves.
"""

from __future__ import annotations

import os
import resource
import select
import socket
import stat
from pathlib import Path

from daemon import limits
from daemon.exits import Exit
from journal.errors import BadConfiguration, NoctuaryFault

SOCKET_MODE = 0o660
BACKLOG = 1024
SOCKET_PATH_BYTES = 107
FILES_KEPT = 64
"""Descriptors that are never given to clients: the store's, the log's, those of an audit."""
CONNECTIONS_MIN = 8
_FIRST_PASSED_FD = 3


def is_hung_up(connected: socket.socket) -> bool:
    """Whether the other end is closed for both directions, not only for sending."""
    poll = select.poll()
    poll.register(connected.fileno(), 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def room_for_connections() -> int:
    """How many connections the process may hold, having asked for as many files as it may have."""
    wanted = limits.CONNECTIONS + FILES_KEPT
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    files = wanted if soft == resource.RLIM_INFINITY else min(soft, wanted)
    return max(CONNECTIONS_MIN, files - FILES_KEPT)


def passed_listener() -> socket.socket | None:
    """The listening socket that systemd passed to this process, if it did; its name (LISTEN_FDNAMES) says nothing here.

    Raises BadConfiguration for anything but exactly one listening Unix stream socket.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS", "0") == "0":
        return None
    if os.environ["LISTEN_FDS"] != "1":
        raise BadConfiguration("LISTEN_FDS: exactly one socket can be passed")
    try:
        os.set_inheritable(_FIRST_PASSED_FD, False)
        passed = socket.socket(fileno=_FIRST_PASSED_FD)
        listens = passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise BadConfiguration(f"LISTEN_FDS: no listening Unix stream socket was passed: {error.strerror}") from None
    if passed.family != socket.AF_UNIX or passed.type != socket.SOCK_STREAM or not listens:
        raise BadConfiguration("LISTEN_FDS: what was passed is no listening Unix stream socket")
    return passed


def name_of(listener: socket.socket) -> str:
    """Where it lies; an abstract name with `@` in front."""
    name = listener.getsockname()
    return name if isinstance(name, str) else "@" + os.fsdecode(name[1:])


class SocketInUse(NoctuaryFault):
    """Another daemon, of another store, listens at this path."""

    reason = "unavailable"
    exit_code = Exit.UNAVAILABLE

    def __init__(self, path: Path) -> None:
        super().__init__(f"another daemon serves at {path}: give --socket, or stop it")


def _is_served(path: Path) -> bool:
    """Whether somebody listens there. A socket whose daemon was killed refuses."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return False
        except FileNotFoundError:
            return False
        except OSError:
            return True  # its queue is full, or it isn't ours to ask
    return True


def check_socket_path(path: Path) -> None:
    """Whether a listener can be had there, before anything is written for it. Raises BadConfiguration, SocketInUse."""
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise BadConfiguration(f"the path of the socket is over {SOCKET_PATH_BYTES} bytes")
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise BadConfiguration("something that is no socket lies at the path of the socket")
    except FileNotFoundError:
        return
    if _is_served(path):
        raise SocketInUse(path)


def bind_listener(path: Path, gid: int | None) -> socket.socket:
    """A listening socket at `path`, mode 0660. Only call with the store's lock held: what lies there is
    unlinked."""
    check_socket_path(path)
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o700 if gid is None else 0o750, parents=True, exist_ok=True)
        if gid is not None:
            os.chown(path.parent, -1, gid)
            path.parent.chmod(0o750)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
        listener.listen(BACKLOG)  # at once: whoever finds the name finds somebody
    finally:
        os.umask(before)
    if gid is not None:
        os.chown(path, -1, gid)
    path.chmod(SOCKET_MODE)
    return listener
