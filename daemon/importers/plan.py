"""What an importer makes of a file, and how it is sent.

Invariant: a request depends on its line and the ids of what it cites only, never on where a chunk began,
so importing again (also after an interruption) finds the same request under the same key. What cites a line that
was refused is refused too: written with fewer sources it would stay so for ever.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

CHUNK_ITEMS = 500
CHUNK_CHARACTERS = 1_000_000  # escaped it is at most 6 bytes each: under the line limit


UNTOLD = frozenset(["reason", "retryable", "index"])
"""Of a refusal's data: `index` is the place in a chunk, which means nothing to whoever reads the report."""


class UnknownShape(ValueError):
    """The file isn't what its format says."""


@dataclass(frozen=True)
class Item:
    """One memory to be: `cites` and `evidence` are refs of earlier items of the plan."""

    where: str
    ref: str | None
    request: dict[str, Any]
    cites: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    skip_if_unsourced: bool = False


class Plan(NamedTuple):
    """The items of a file in their order, and in words what of it isn't taken over."""

    items: list[Item]
    skipped: tuple[str, ...] = ()


@dataclass
class Report:
    """What came of an import. A row of `refused` has where, reason, message, and what the refusal's data names."""

    recognised: int = 0
    written: int = 0
    duplicates: int = 0
    dangling: list[dict[str, str]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)


def key_of(form: str, source: str, reference: str) -> str:
    """The idempotency key of a line: the same for the same place in the same source."""
    digest = hashlib.sha256("\0".join((form, source, reference)).encode("utf-8", "surrogatepass"))
    return f"import:{form}:{digest.hexdigest()[:40]}"


Send = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


class Runner:
    """Sends a plan in chunks; what cites an unsent item waits for its id."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.report = Report()
        self._ids: dict[str, str] = {}
        self._refused: set[str] = set()
        self._chunk: list[tuple[Item, dict[str, Any]]] = []
        self._pending: set[str] = set()
        self._characters = 0

    def run(self, plan: Plan) -> Report:
        self.report.skipped += plan.skipped
        for item in plan.items:
            self.report.recognised += 1
            self._add(item)
        self._flush()
        return self.report

    def _add(self, item: Item) -> None:
        size = len(item.request["text"]) + 500
        full = len(self._chunk) >= CHUNK_ITEMS or self._characters + size > CHUNK_CHARACTERS
        if full or self._pending.intersection((*item.cites, *item.evidence)):
            self._flush()
        cited = next((ref for ref in (*item.cites, *item.evidence) if ref in self._refused), None)
        if cited is not None:
            self._refuse(item, "provenance", f"it cites {cited}, which was refused itself", {"ref": cited})
            return
        request = dict(item.request)
        for name, refs in (("derived_from", item.cites), ("evidence", item.evidence)):
            if found := self._resolve(item, refs):
                request[name] = found
        if item.skip_if_unsourced and "derived_from" not in request:
            self.report.skipped.append(item.where)
            return
        self._chunk.append((item, request))
        self._characters += size
        if item.ref is not None:
            self._pending.add(item.ref)

    def _resolve(self, item: Item, refs: tuple[str, ...]) -> list[str]:
        for ref in refs:
            if ref not in self._ids:
                self.report.dangling.append({"where": item.where, "ref": ref})
        return list(dict.fromkeys(self._ids[ref] for ref in refs if ref in self._ids))

    def _flush(self) -> None:
        if not self._chunk:
            return
        results = self.send([request for _, request in self._chunk])
        for (item, _), result in zip(self._chunk, results, strict=True):
            if "error" in result:
                error = result["error"]
                data = {name: value for name, value in error.get("data", {}).items() if name not in UNTOLD}
                reason = str(error.get("data", {}).get("reason", "error"))
                self._refuse(item, reason, str(error.get("message", "")), data)
                continue
            if result.get("duplicate"):
                self.report.duplicates += 1
            else:
                self.report.written += 1
            if item.ref is not None and "id" in result:
                self._ids[item.ref] = result["id"]
        self._chunk, self._pending, self._characters = [], set(), 0

    def _refuse(self, item: Item, reason: str, message: str, data: dict[str, Any]) -> None:
        self.report.refused.append({"where": item.where, "reason": reason, "message": message, **data})
        if item.ref is not None and item.ref not in self._ids:
            self._refused.add(item.ref)
