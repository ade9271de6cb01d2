"""A store with everything that verbs write today, exported and imported: nobody who asks can tell the difference."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

from journal.importing import import_frames
from journal.purges import read_purges
from ops.golden.story import AGENT, Story, answers
from tests.journal.exported import exported
from tests.model.opened import OpenedService


def test_everything_that_a_store_can_hold_comes_back(tmp_path: Path) -> None:
    """Turns, notes, facts, entities, vectors, sessions that were reopened, shared texts, keys, forgetting, a purge."""
    story = Story(tmp_path / "state")
    try:
        story.tell()
    finally:
        story.close()
    made = import_frames(tmp_path / "new", io.BytesIO(b"".join(exported(tmp_path / "state"))))
    shutil.rmtree(tmp_path / "state" / "projections")
    before = answers(tmp_path / "state", story.ids, story.now_ms)
    assert answers(tmp_path / "new", story.ids, story.now_ms) == before
    assert made.records == before["records"] and made.store_id != made.source.store

    opened = OpenedService(tmp_path / "new", lambda: story.now_ms)
    try:
        said = {"kind": "raw", "role": "user", "text": "the gate is green", "session": AGENT, "speaker": "Ada"}
        again = opened.write("remember", {**said, "idempotency_key": "t0"})
        assert again["duplicate"] is True and again["id"] == story.ids[0]
        assert opened.write("forget", {"id": story.ids[0], "note": "by mistake", "idempotency_key": "f1"})["duplicate"]
        reopened = opened.write("session_open", dict(AGENT))
        assert not reopened["created"], "the session is found by its key"
        assert opened.write("remember", {**said, "text": "and on"})["turn"] == 7
        opened.reopen(True)
        assert opened.store.findings == []
    finally:
        opened.close(True)
    purges = read_purges(tmp_path / "new" / "purges")
    assert len(purges.directives) == 1 and purges.damaged_lines == (), "each purge once, in a form that can be read"
