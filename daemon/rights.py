"""What a caller may do when its turn comes: the configuration may have been read again since it asked.

Invariant: nothing that waited is done, and nothing that was found is told, for somebody who may it no longer. A write
is looked at once more by the writer, a question when it is begun and when it is answered.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from daemon.caller import Caller
from daemon.peers import Credentials, Peers, check_access, check_grant, check_role
from daemon.refusal import Reason, Refused
from daemon.wire.verbs import Verb


class Rights(NamedTuple):
    """Whose they are, and of which reading of the configuration (`generation`). Safe on any thread."""

    peers: Peers
    credentials: Credentials
    generation: int

    def have_changed(self) -> bool:
        """Whether the configuration was read since."""
        return self.generation != self.peers.generation

    def now(self, was: Caller) -> Caller:
        """Raises Refused for who is nobody now."""
        if not self.have_changed():
            return was
        found = self.peers.caller(self.credentials, was.via)
        if found is None:
            raise self.peers.unknown(self.credentials)
        return found

    def may_write(self, was: Caller, verb: Verb | None, params: Any, tenant: str) -> Caller:
        """The caller as it is now, when it may still write there. `verb` None: no verb of the wire. Raises Refused."""
        now = self.now(was)
        if now is was:
            return was
        if verb is not None:
            check_role(verb, now)
            check_grant(verb, params, now)
        if not now.may_write(tenant):
            raise Refused(Reason.NOT_FOUND, "there is no such tenant", parameter="tenant")
        return now

    def may_be_told(self, was: Caller, verb: Verb, params: Any) -> None:
        """Raises Refused when what was found for the caller as it was is not for it as it is now."""
        now = self.now(was)
        if now == was:
            return
        check_access(verb, params, now)
        raise Refused(Reason.UNAVAILABLE, "the caller's rights have changed meanwhile; ask again", retry_after_ms=0)
