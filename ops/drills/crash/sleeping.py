"""A session's turns are written and consolidated in several commits, with one pass left open: to be traced.

    python -m ops.drills.crash.sleeping STATE REQUESTS

A commit of a pass is no verb, so this goes through the service as sleep does. Each request is answered on standard
output as soon as it is durable. What was asked is left in the file REQUESTS, because the commits name turns.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from ops.drills.crash.load import Request
from ops.drills.crash.purging import answer
from ops.drills.crash.served import COMMIT_PASS, Served

TURNS_A_COMMIT = 4
ENDS = (False, True, True, False)
"""Of each commit, whether it ends its pass."""


def turn_requests(name: str) -> list[Request]:
    session = {"agent": f"agent-{name}", "key": f"talk {name}"}
    found = []
    for number in range(TURNS_A_COMMIT * len(ENDS)):
        key = f"{name}-{number}"
        params = {"kind": "raw", "role": "user", "text": f"said {key}", "session": session, "idempotency_key": key}
        found.append(Request(key, "remember", params))
    return found


def pass_requests(name: str, session: str, turns: list[str]) -> list[Request]:
    """Each commit makes two facts, which share a turn, and leaves one turn as noise."""
    found = []
    for number, last in enumerate(ENDS):
        one, two, three, noise = turns[number * TURNS_A_COMMIT : (number + 1) * TURNS_A_COMMIT]
        key = f"{name}-pass-{number}"
        facts = [{"text": f"{key} first", "turns": [one, two]}, {"text": f"{key} second", "turns": [two, three]}]
        params = {"session": session, "facts": facts, "noise": [noise], "last": last, "idempotency_key": key}
        found.append(Request(key, COMMIT_PASS, params))
    return found


def main(arguments: list[str]) -> int:
    state, requests_file = map(Path, arguments)
    os.umask(0o077)
    served = Served(state)
    asked: list[Request] = []

    def ask(request: Request) -> dict[str, Any]:
        (result,) = served.ask([request])
        assert isinstance(result, dict), result
        answer(request, result)
        asked.append(request)
        return result

    written = [ask(request) for request in turn_requests("z")]
    for request in pass_requests("z", written[0]["session"], [result["id"] for result in written]):
        ask(request)
    served.close(clean=False)
    requests_file.write_text(json.dumps(asked), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
