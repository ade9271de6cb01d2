"""SIGHUP: the configuration is read again, and what can change while the daemon serves changes at once.

Invariant: all of it or nothing. A file that can't be used changes nothing; it is said in the log and in the status.
What needs a restart stays as it is, and is logged by its key.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import structlog

from daemon.config import KEYS, RELOADABLE, Config
from daemon.logs import set_log_level
from daemon.peers import Peers
from daemon.quotas import Quotas
from daemon.server import Server
from journal.errors import NoctuaryFault
from journal.space import SpaceGuard

WHY_CHARACTERS = 250
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.:/@+=-]+")

log = structlog.get_logger("daemon")


class Reloading:
    """The configuration in force and what follows it. `failure` says what is wrong with the one that is not in force.

    `server` and `space` are given when they are there.
    """

    def __init__(self, config: Config, load: Callable[[], Config]) -> None:
        self.config = config
        self.peers = Peers(config.peers)
        self.quotas = Quotas(config.max_bytes)
        self.server: Server | None = None
        self.space: SpaceGuard | None = None
        self.failure: str | None = None
        self._load = load

    def reload(self) -> None:
        """Read it again and let it count."""
        try:
            new = self._load()
        except NoctuaryFault as fault:
            self.failure = str(fault)
            # What a configuration says is no content; a log's value is a plain word.
            log.error("reload_failed", reason=fault.reason, why=_NOT_PLAIN.sub("-", str(fault))[:WHY_CHARACTERS])
            return
        self.failure = None
        for key in KEYS:
            if key not in RELOADABLE and getattr(new, key) != getattr(self.config, key):
                log.warning("needs_restart", key=key)
        self._apply(new)
        log.info("reloaded", peers=len(new.peer))

    def _apply(self, new: Config) -> None:
        self.config = msgspec.structs.replace(self.config, **{key: getattr(new, key) for key in RELOADABLE})
        set_log_level(new.log_level)
        self.peers.replace(new.peers)
        self.quotas.replace(new.max_bytes)
        if self.server is not None:
            self.server.set_patience(new.half_line_s, new.stuck_client_s)
        if self.space is not None:
            self.space.set_thresholds(new.read_only_below_bytes)
