"""`purges`: receipts as they are asked for; with `--receipt EPOCH/SEQ --html` one whole receipt as a page of HTML. A
first word that is no option is a receipt too."""

from __future__ import annotations

from typing import Any

import noctuary
from daemon.cli import arguments
from daemon.cli.arguments import Usage

PAGE = 1000


def run(given: dict[str, Any], words: list[str]) -> int:
    """The exit code. Raises Usage, noctuary.NoctuaryError."""
    from daemon.cli import entry

    as_page = "--html" in words
    params = arguments.parameters("purges", named([word for word in words if word != "--html"]))
    if not as_page:
        return entry.asked(given, "purges", params)
    if given["json"] or "receipt" not in params:
        raise Usage("--html makes a page of one receipt: purges --receipt EPOCH/SEQ --html, without --json")
    from daemon.cli.render_erasure_page import page

    return entry.printed(page(whole(given, params)), 0)


def named(words: list[str]) -> list[str]:
    """The words with the option that the first stands for."""
    is_receipt = bool(words) and not words[0].startswith("-")
    return [f"--receipt={words[0]}", *words[1:]] if is_receipt else words


def whole(given: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    """A receipt with all its results. Raises noctuary.NoctuaryError."""
    client = noctuary.Client(given["socket"], given["tenant"], 60.0)
    try:
        answer = client.call("purges", {**params, "limit": PAGE}, dict)
        receipt: dict[str, Any] = answer["purges"][0]
        while answer.get("next_cursor"):
            answer = client.call("purges", {**params, "limit": PAGE, "cursor": answer["next_cursor"]}, dict)
            receipt["results"] += answer["purges"][0]["results"]
    finally:
        client.close()
    return receipt
