"""What a selection asks for that has to be read out of it alike wherever it is asked: content, and a window of time.

The question that finds memories and the writer that sees whether what was found still holds go by the same words here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from daemon.prepare import UNSET, invalid, parse_time

SEALED_FIELDS = ("subject", "entity", "text", "tags", "project")


class Content(NamedTuple):
    """What a selection asks of what memories keep sealed; None: not asked for. `text` is case-folded."""

    subject: str | None
    entity: str | None
    text: str | None
    tags: frozenset[str] | None
    project: str | None

    def fits(self, particulars: Any, text: str) -> bool:
        """Whether a memory with these particulars in force is meant; `text` counts only where it is asked for."""
        return (
            (self.subject is None or particulars.subject == self.subject)
            and (self.project is None or particulars.project == self.project)
            and (self.entity is None or any(name == self.entity for name, _ in particulars.entities))
            and (self.tags is None or self.tags <= set(particulars.tags))
            and (self.text is None or self.text in text.casefold())
        )


def content_of(sel: Any) -> Content | None:
    """None when a selection asks for no content."""
    given = {name: None if getattr(sel, name) is UNSET else getattr(sel, name) for name in SEALED_FIELDS}
    if all(value is None for value in given.values()):
        return None
    text, tags = given["text"], given["tags"]
    return Content(
        given["subject"], given["entity"], None if text is None else text.casefold(),
        None if tags is None else frozenset(tags), given["project"],
    )  # fmt: skip


def window(prefix: str, holder: Any) -> tuple[int | None, int | None]:
    """`(since, until)` in UTC ms; `prefix` is where they stand in the request. Raises Refused."""
    since, until = time_of(holder, "since", prefix), time_of(holder, "until", prefix)
    if since is not None and until is not None and until < since:
        raise invalid(f"{prefix}until", "the window ends before it starts")
    return since, until


def time_of(holder: Any, name: str, prefix: str) -> int | None:
    """One end of the window. Raises Refused."""
    given = getattr(holder, name)
    return None if given is UNSET else parse_time(f"{prefix}{name}", given)[0]
