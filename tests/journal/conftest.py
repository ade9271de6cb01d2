"""A backup that tests of restores share: made once for a file, copied for each test to harm."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.journal.backing import backed_up
from tests.journal.test_store import made, opened, remember


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with three texts in `state`, its backup in `b`."""
    directory = tmp_path_factory.mktemp("template")
    store = opened(made(directory))
    for text in (b"one", b"two", b"three"):
        remember(store, text)
    backed_up(store, directory / "b")
    store.close(clean=True)
    return directory


@pytest.fixture
def backup(template: Path, tmp_path: Path) -> Path:
    """The backup, beside its store, for this test to harm."""
    for name in ("state", "b"):
        shutil.copytree(template / name, tmp_path / name)
    return tmp_path / "b"
