"""A service with memories of several producers, for tests of cohorts."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.refusal import Reason, Refused
from tests.daemon.slept import Slept

BAD = {"model": "m", "extractor": "v1"}
GOOD = {"model": "m", "extractor": "v2"}
OF_BAD = {"producer": {"extractor": "v1"}}


class Cohorted(Slept):
    """Notes are written with a turn each."""

    def note(self, producer: dict[str, Any] | None, *sources: str, **more: Any) -> str:
        self.now_ms += 1
        params: dict[str, Any] = {
            "kind": "note", "text": f"note {self.now_ms}", "origin": "inferred",
            "derived_from": list(sources) or [self.turn("said")], **more,
        }  # fmt: skip
        if producer is not None:
            params["producer"] = producer
        return str(self.write("remember", params)["id"])

    def belief(self, *sources: str, **more: Any) -> str:
        params = {"kind": "belief", "text": "so it is", "origin": "derived", "derived_from": list(sources), **more}
        return str(self.write("remember", params)["id"])

    def look(self, sel: dict[str, Any], action: str = "quarantine", **more: Any) -> dict[str, Any]:
        return self.write("cohort", {"sel": sel, "action": action, **more})

    def act(self, sel: dict[str, Any], action: str = "quarantine", **more: Any) -> str:
        """Look, then act; the cohort."""
        token = self.look(sel, action, **more)["token"]
        self.now_ms += 1
        return str(self.look(sel, action, token=token, **more)["cohort"])

    def lift(self, cohort: str) -> dict[str, Any]:
        self.now_ms += 1
        return self.write("lift", {"cohort": cohort})

    def listed(self, **sel: Any) -> list[str]:
        params: dict[str, Any] = {"limit": 1000, **({"sel": sel} if sel else {})}
        return [str(memory["id"]) for memory in self.read("list", params)["memories"]]


def refused(reason: Reason, *args: Any, **kwargs: Any) -> Refused:
    """What a call is refused with: `refused(Reason.X, function, …)`."""
    function, *rest = args
    with pytest.raises(Refused) as caught:
        function(*rest, **kwargs)
    assert caught.value.reason is reason, caught.value
    return caught.value
