"""A service in this process whose clock is set by hand, and short ways to write to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from daemon.refusal import Reason, Refused
from tests.model.opened import OpenedService

DAY_MS = 86_400_000
START_MS = 1_790_000_000_000


class Told(OpenedService):
    """A service whose clock is set by hand, and short ways to write."""

    def __init__(self, root: Path) -> None:
        self.now_ms = START_MS
        super().__init__(root, lambda: self.now_ms)

    def raw(self, text: str = "a turn", **more: Any) -> str:
        return str(self.write("remember", {"kind": "raw", "origin": "stated", "text": text, **more})["id"])

    def note(self, *sources: str, **more: Any) -> str:
        params = {"kind": "note", "origin": "inferred", "text": "a note", "derived_from": list(sources), **more}
        return str(self.write("remember", params)["id"])

    def memory(self, ref: str) -> dict[str, Any]:
        (found,) = self.read("get", {"ids": [ref]})["memories"]
        return dict(found)

    def do(self, verb: str, ref: str, **more: Any) -> dict[str, Any]:
        return self.write(verb, {"id": ref, **more})

    def rebuilt_alike(self) -> bool:
        """Whether folding from the journal gives what is there."""
        live = self.digests()
        self.rebuild()
        return self.digests() == live


def reason_of(call: Any) -> tuple[Reason, dict[str, Any]]:
    with pytest.raises(Refused) as refused:
        call()
    return refused.value.reason, refused.value.data


def remember(told: OpenedService, kind: str, *sources: Any, **more: Any) -> str:
    """A memory of that kind made from these; its reference."""
    params = {"kind": kind, "origin": "derived", "text": f"a {kind}", "derived_from": list(sources), **more}
    return str(told.write("remember", params)["id"])
