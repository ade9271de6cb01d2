"""The option `--master-key FILE` of commands that open or make a store themselves."""

from __future__ import annotations

import os

from daemon.cli import arguments
from daemon.keyfile import VARIABLE

OPTION = "--master-key"


def take_key_file(words: list[str]) -> tuple[str | None, list[str]]:
    """`(the file named, by the option or else by the environment; the other words)`. Raises Usage."""
    if any(word.partition("=")[0] == OPTION for word in words):
        return arguments.take(OPTION, words)
    return os.environ.get(VARIABLE) or None, words
