"""`trace`: as a tree, or drawn as Mermaid, DOT or SVG with `--format`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from daemon.cli import arguments, entry
from daemon.cli.arguments import Usage

FORMATS = {"mermaid": "draw_text.mermaid", "dot": "draw_text.dot", "svg": "draw_svg.svg"}


def run(given: dict[str, Any], words: list[str]) -> int:
    """Raises Usage, noctuary.NoctuaryError."""
    options = words[: words.index("--")] if "--" in words else words
    if not any(word.partition("=")[0] == "--format" for word in options):
        return entry.asked(given, "trace", arguments.parameters("trace", words))
    told, rest = arguments.take("--format", options)
    if told not in FORMATS:
        raise Usage(f"--format is {', '.join(FORMATS)}{arguments.nearest(told, FORMATS)}")
    if given["json"]:
        raise Usage("--json and --format: a trace is told in one way")
    params = arguments.parameters("trace", rest + words[len(options) :])
    result = entry.answered(given, "trace", params)
    module, _, name = FORMATS[told].partition(".")
    draw: Callable[[dict[str, Any]], str] = getattr(import_module(f"daemon.cli.{module}"), name)
    return entry.printed(draw(result), 0)
