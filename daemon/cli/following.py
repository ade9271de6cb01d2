"""`noctuary subscribe`: records as they are written, until it is told to end or nobody reads them.

`--json` prints each frame as a line of its own, and nothing else: whoever keeps the last line can give it back as
`--after`. With `--marks` a mark is a line `{"mark": {…}}` too: where it is, also while nothing wanted is written.
SIGINT, SIGTERM and a closed pipe are the ordinary ends, with 0. Where standard error is a terminal it says there from
where it follows, and while the daemon is gone that it waits for it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

import noctuary
from daemon.cli import arguments, exits
from daemon.cli.arguments import Usage

MARKS = "--marks"


class _Told(BaseException):
    """A signal said that it is enough."""


def subscribe(given: dict[str, Any], words: list[str]) -> int:
    """Print until the end; the exit code. Raises Usage, noctuary.NoctuaryError."""
    params = arguments.parameters("subscribe", [word for word in words if word != MARKS])
    with_marks = MARKS in words
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _tell)
    subscription = noctuary.Subscription(given["socket"], given["tenant"], _after(params.pop("after", None)), params)
    if sys.stderr is not None and sys.stderr.isatty():
        subscription.on_change = partial(_tell_change, subscription)
    with subscription:
        try:
            for item in subscription:
                if with_marks or not isinstance(item, noctuary.Mark):
                    _print(item, given["json"])
        except (_Told, BrokenPipeError):
            _leave_output()
    return exits.OK


def _tell_change(subscription: noctuary.Subscription, error: Exception | None) -> None:
    """To whoever sits at the terminal, so that silence can be told from waiting."""
    place = subscription.place or {}
    if error is None:
        told = f"following what is behind record {place.get('seq')}, epoch {place.get('epoch')}"
    else:
        told = f"the daemon is gone; waiting for it, up to {subscription.patience_s:.0f} s"
    with suppress(OSError):
        print(f"noctuary: {told}", file=sys.stderr, flush=True)


def _after(place: Any) -> dict[str, Any] | None:
    """A place, also out of a frame or a head. What is no object is left for the daemon to refuse."""
    if place is None or not isinstance(place, dict):
        if place is not None:
            raise Usage("--after is a JSON object with epoch, seq and chain: a frame, a mark or a head")
        return None
    return noctuary.place_of(place.get("mark", place))


def _print(item: Any, as_json: bool) -> None:
    if isinstance(item, noctuary.Mark):
        place = {"epoch": item.epoch, "seq": item.seq, "chain": item.chain}
        lines = [json.dumps({"mark": place})] if as_json else [f"up to record {item.seq}, epoch {item.epoch}"]
    elif as_json:
        lines = [msgspec.json.encode(item).decode()]
    else:
        from daemon.cli.render_records import frame_lines

        lines = frame_lines(msgspec.to_builtins(item))
    print("\n".join(lines), flush=True)


def _tell(_number: int, _frame: object) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # once is enough
    raise _Told


def _leave_output() -> None:
    """Whoever read may have gone or stopped: at its end Python would still flush, and wait or complain."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
