"""A store that a service wrote, so that its journal folds: a backup of it, and what was purged since, by the verb.

What is purged has `SECRET` in everything that it says, and nothing else has. It stands in texts, in tags and entities,
in what a session is called, in a proposal that waits and in a hold that stands at the time of the backup. One text is
shared with a memory that lives, one with a memory that the backup lacks, and one is not to come again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from daemon.refusal import Reason, Refused
from journal.purges import Directive, read_purges
from journal.residue import open_all
from journal.verify import verify_in_child
from tests.daemon.purged import Purging
from tests.journal.backing import backed_up
from tests.journal.test_store import opened
from tests.model.opened import OpenedService

SECRET = "zqsecret"
BLOCKED = f"{SECRET} never again"
WHILE = f"{SECRET} since"
SHARED = "a text of two"
SAID = ("status", "text", "tags", "entities", "topic", "facts")


class Lived(NamedTuple):
    """`gone` and `kept` are the memories of the backup; `kept` with what they say."""

    directory: Path
    gone: tuple[str, ...]
    kept: dict[str, dict[str, Any]]
    now_ms: int

    @property
    def root(self) -> Path:
        return self.directory / "state"

    @property
    def backup(self) -> Path:
        return self.directory / "b"

    @property
    def purges(self) -> Path:
        return self.root / "purges"

    @property
    def directives(self) -> tuple[Directive, ...]:
        return read_purges(self.purges).directives


class Looked(NamedTuple):
    """What is wrong with a restored store: all are to be 0."""

    findings: int = 0
    unreadable: int = 0  # living memories that don't say what they said
    revealed: int = 0  # ciphertexts that a key opens, or files, with what was purged
    not_purged: int = 0  # memories that don't read as purged
    let_in: int = 0  # a text that was not to come again
    unlike: int = 0  # a fold of the journal that is not what was live


class At(Purging):
    """Its clock begins when it is said."""

    def __init__(self, root: Path, now_ms: int) -> None:
        self.now_ms = now_ms
        OpenedService.__init__(self, root, lambda: self.now_ms)


def lived(directory: Path, now_ms: int = 1_790_000_000_000, more: int = 0, said_since: bool = True) -> Lived:
    """Make the store in `state`, its backup in `b`, then purge. `more`: memories that are purged by a command each.
    `said_since`: a memory that the backup lacks says again what is purged, so that the text still reads in `state`."""
    live = At(directory / "state", now_ms)
    try:
        gone, kept = _write(live, more)
        backed_up(live.store, directory / "b")
        if said_since:
            live.capture(WHILE)
        _purge(live, gone)
        assert len(live.readable(SECRET)) == said_since
        return Lived(directory, tuple(gone), _said(live, kept), live.now_ms)
    finally:
        live.close(True)


def _write(live: At, more: int) -> tuple[list[str], list[str]]:
    """`(what is to be purged, what lives on)`."""
    name = {"name": f"{SECRET} anna", "type": "person"}
    gone = [live.turn(f"{SECRET} turn {number}", f"{SECRET} key", entities=[name]) for number in range(2)]
    gone += [live.capture(text, tags=[SECRET]) for text in (BLOCKED, WHILE)]
    gone.append(live.capture(SHARED, tags=[f"{SECRET} tag"]))
    gone += [live.capture(f"{SECRET} {number}") for number in range(more)]
    fact = {"subject": SECRET, "predicate": "is", "value": SECRET}
    live.write("propose", {"proposal_kind": "fact", "memory": gone[0], "fact": fact, "note": f"{SECRET} why"})
    live.hold(gone[1], note=f"{SECRET} hold")
    kept = [live.capture(SHARED), live.capture("kept", tags=["tag"], entities=[{"name": "Bo", "type": "person"}])]
    return gone, [*kept, live.turn("kept turn", "kept key")]


def _purge(live: At, gone: list[str]) -> None:
    live.hold(gone[1], on=False)
    live.purge(*gone[:2], reason="security")
    live.purge(gone[2], block_reingest=True)
    for ref in gone[3:]:
        live.purge(ref)


def _said(opened: Purging, refs: list[str]) -> dict[str, dict[str, Any]]:
    found = opened.read("get", {"ids": refs})["memories"]
    return {memory["id"]: {name: memory.get(name) for name in SAID} for memory in found}


def look(root: Path, story: Lived) -> Looked:
    """At what was restored with the purges of `story`: by its files, by its keys, and by the service over it."""
    findings = len(verify_in_child(root).findings)
    made = At(root, story.now_ms + 10_000)
    try:
        findings += len(made.store.findings) + len(made.read("audit", {"rebuild": True})["findings"])
        said = _said(made, list(story.kept))
        unreadable = sum(said.get(ref) != was for ref, was in story.kept.items())
        not_purged = sum(made.status(ref) != "purged" for ref in story.gone)
        let_in = _lets_in(made)
        unlike = not made.rebuilt_alike()
    finally:
        made.close(True)
    return Looked(findings, unreadable, revealed(root), not_purged, let_in, int(unlike))


def _lets_in(made: At) -> int:
    try:
        made.capture(BLOCKED)
    except Refused as refused:
        return int(refused.reason is not Reason.CONFLICT)
    return 1


def revealed(root: Path) -> int:
    """How much under `root` still has `SECRET`: files as they are, and whatever any key opens, in old pages too."""
    word = SECRET.encode()
    plain = sum(word in path.read_bytes() for path in root.rglob("*") if path.is_file())
    store = opened(root)
    try:
        return plain + len(open_all(store, root, lambda _, content: word in content).readable)
    finally:
        store.close(clean=True)
