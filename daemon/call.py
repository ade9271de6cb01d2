"""One write on its way through the writer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from daemon.asking import NOBODY, Asking
from daemon.caller import Caller
from daemon.feed import Feed
from daemon.refusal import Refused
from daemon.rights import Rights

Outcome = msgspec.Struct | dict[str, Any] | Refused
Found = Outcome | Feed
"""What a question finds. A feed is what `subscribe` finds: the connection answers its result, and begins to send."""


class Call(NamedTuple):
    """`reply` is called once, on the loop's thread, with the result or the refusal. `line_bytes`: as it came. `asking`
    is followed while a write looks before it is decided. `connection`: which one of the caller's, for taking turns."""

    method: str
    params: Any
    caller: Caller
    reply: Callable[[Outcome], None]
    line_bytes: int = 0
    asking: Asking = NOBODY
    connection: int = 0
    rights: Rights | None = None
    """For looking once more before it is written whether the caller may."""


Deliver = Callable[[list[tuple[Call, Outcome]]], None]
"""What the writer calls once a batch, from its own thread."""
