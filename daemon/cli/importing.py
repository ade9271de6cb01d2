"""`noctuary import`: a file read by its importer and sent in chunks."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import noctuary
from daemon.cli import exits
from daemon.cli.arguments import Usage, text_of
from daemon.importers import locomo, turns
from daemon.importers.plan import Runner, UnknownShape

FORMATS = {"turns": turns.read, "locomo": locomo.read}


def run(client: noctuary.Client, words: list[str]) -> tuple[int, dict[str, Any]]:
    """The exit code and what to tell. Raises Usage, and noctuary.InvalidInput for a file of another shape."""
    form, path = asked(words)
    try:
        plan = FORMATS[form](text_of(path, most_bytes=None))
    except UnknownShape as error:
        raise refusal(f"{path}: {error}") from error
    if not plan.items:
        raise refusal(f"{path}: nothing to import was recognised")

    def send(batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
        answer = client.call("remember_many", {"items": batch, "atomic": False}, dict)
        return list(answer["results"])

    client.hello(via="importer")
    report = Runner(send).run(plan)
    return (exits.REFUSED if report.refused else exits.OK), asdict(report)


def format_of(words: list[str]) -> str | None:
    """The format that is asked for, None when none is."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--format":
            return following
        if word.startswith("--format="):
            return word.removeprefix("--format=")
    return None


def asked(words: list[str]) -> tuple[str, str]:
    """The format and the path. Raises Usage."""
    words = [part for word in words for part in (word.split("=", 1) if word.startswith("--format=") else [word])]
    if len(words) != 3 or "--format" not in words[:2]:
        raise Usage("import --format turns|locomo FILE, import --format frames FILE --state DIR")
    place = words.index("--format")
    form, path = words[place + 1], words[0 if place else 2]
    if form not in FORMATS:
        raise Usage(f"no format {form!r} (allowed: {', '.join(FORMATS)}, frames)")
    return form, path


def refusal(message: str) -> noctuary.InvalidInput:
    return noctuary.InvalidInput(message, -32602, {"reason": "invalid_input", "parameter": "FILE"})
