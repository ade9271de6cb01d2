"""A service with things to be purged, and a look at what can still be opened."""

from __future__ import annotations

from typing import Any

from journal.errors import PartUnreadable
from journal.events import SealedPart
from journal.unsealing import unseal
from tests.daemon.cohorted import Cohorted


class Purging(Cohorted):
    """`purge` here is the verb."""

    def purge(self, *refs: str, **more: Any) -> dict[str, Any]:  # type: ignore[override]
        self.now_ms += 1
        return self.write("purge", {"ids": list(refs), **more})

    def select(self, sel: dict[str, Any], **more: Any) -> dict[str, Any]:
        return self.write("purge", {"sel": sel, **more})

    def capture(self, text: str, **more: Any) -> str:
        self.now_ms += 1
        params = {"kind": "raw", "origin": "stated", "text": text, **more}
        return str(self.write("remember", params)["id"])

    def do(self, verb: str, ref: str, **more: Any) -> dict[str, Any]:
        self.now_ms += 1
        return self.write(verb, {"id": ref, **more})

    def hold(self, *refs: str, **more: Any) -> dict[str, Any]:
        return self.write("hold", {"sel": {"ids": list(refs)}, **more})

    def status(self, ref: str) -> str:
        return str(self.memory(ref)["status"])

    def readable(self, word: str) -> list[SealedPart]:
        """Every part in the journal that a key still opens, and that has this word."""
        found = []
        with self.store.env.read() as txn:
            for chunk in self.store.log.chunks():
                for record in chunk:
                    for part in getattr(record.event, "parts", ()):
                        if part.owner_seq != record.seq:
                            continue
                        try:
                            plain = unseal(self.store.log, self.store.sealer, txn, part)
                        except PartUnreadable:
                            continue
                        if word.encode() in plain:
                            found.append(part)
        return found

    def records(self, *types: str) -> list[Any]:
        return [
            record
            for chunk in self.store.log.chunks()
            for record in chunk
            if not types or type(record.event).__name__ in types
        ]
