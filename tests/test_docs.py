"""The documents say what the code says: generated sections are current, links lead somewhere, nothing is left out."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.config import KEYS
from daemon.limits import told_limits
from daemon.refusal import Reason
from daemon.wire.verbs import VERBS

REPOSITORY = Path(__file__).resolve().parents[1]
REFERENCE = REPOSITORY / "ops" / "docs" / "reference.md"
PLACES = ("", "ops", "tests", "daemon", "journal", "projections", "relays")
PAGES = sorted({page for place in PLACES for page in (REPOSITORY / place).glob("**/*.md" if place else "*.md")})

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def anchors_of(page: Path) -> set[str]:
    """The anchors that the headings of a page have."""
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", title).strip().lower() for title in titles)
    return {title.replace(" ", "-") for title in words}


def broken_links(page: Path, text: str) -> list[str]:
    """The relative links in `text` that lead to no file, or to no heading of it."""
    broken = []
    for link in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    return broken


def first_cells(page: Path, section: str) -> list[str]:
    """The first column of a generated table."""
    text = page.read_text(encoding="utf-8").partition(f"<!-- generated: {section} -->\n")[2]
    rows = text.partition("<!-- end generated -->")[0].splitlines()
    return [row.split(" | ")[0].removeprefix("| ") for row in rows[2:] if row.startswith("| ")]


def test_generated_sections_are_current() -> None:
    outcome = subprocess.run(
        [sys.executable, str(REPOSITORY / "ops" / "docs" / "generate.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_relative_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    assert broken_links(page, page.read_text(encoding="utf-8")) == []


def test_a_link_to_nothing_is_seen() -> None:
    text = (
        "[a](nowhere.md) [b](formats.md#no-such-heading) [c](formats.md#vault) [d](#errors) [e](https://example.org/x)"
    )
    assert broken_links(REFERENCE, text) == ["nowhere.md", "formats.md#no-such-heading"]


def test_the_readme_lists_the_verbs_that_there_are() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    listed = text.partition("Its verbs:\n\n")[2].partition("\n\n")[0]
    assert re.findall(r"`(\w+)`", listed) == list(VERBS)


def test_the_changelog_lists_the_verbs_that_there_are() -> None:
    text = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    listed = text.partition("- Verbs: `")[2].partition("`")[0]
    assert sorted(listed.split()) == sorted(VERBS)


def test_the_reference_has_every_configuration_key() -> None:
    assert first_cells(REFERENCE, "configuration") == list(KEYS)


def test_the_reference_has_every_reason() -> None:
    assert first_cells(REFERENCE, "reasons") == [reason.wire for reason in Reason]


def test_the_reference_has_every_limit_that_hello_tells() -> None:
    assert first_cells(REFERENCE, "limits") == list(told_limits())


def test_the_reference_has_every_verb() -> None:
    headings = re.findall(r"^#### (\w+)$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name in headings if name in VERBS] == list(VERBS)
