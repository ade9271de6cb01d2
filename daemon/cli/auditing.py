"""`noctuary audit`: which store is meant, and whether this process reads it or the daemon is asked.

`--state`, else `--socket` alone means the daemon there, else NOCTUARY_STATE, else NOCTUARY_SOCKET alone means the
daemon there, else the default place when a store is there. A held lock asks the daemon, which must serve that store.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import noctuary
from daemon.cli import arguments, exits


def place_of(socket: str | None, words: list[str]) -> tuple[Path | None, list[str]]:
    """The state directory that is meant, None for the daemon's; and the other words. Raises Usage."""
    if any(word.partition("=")[0] == "--state" for word in words):
        state, rest = arguments.take("--state", words)
        return Path(state), rest
    if socket is not None:
        return None, words
    if state := os.environ.get("NOCTUARY_STATE", ""):
        return Path(state), words
    if os.environ.get("NOCTUARY_SOCKET"):
        return None, words
    from daemon.config import default_state

    default = Path(default_state(os.environ))
    return (default if os.path.lexists(default / "FORMAT") else None), words


def run(given: dict[str, Any], words: list[str]) -> dict[str, Any]:
    """The result. Raises Usage, noctuary.NoctuaryError, NoctuaryFault."""
    from daemon.cli.keyed import take_key_file

    key_file, words = take_key_file(words)
    state, rest = place_of(given["socket"], words)
    params = arguments.parameters("audit", rest)
    if state is None:
        return asked(given, params)
    from daemon.cli import progressing
    from daemon.cli.offline import audit_offline, store_at
    from daemon.keyfile import master_keys

    with master_keys(key_file, keyless=True) as keys, progressing.shown() as on_progress:
        of_tenant = {"tenant": given["tenant"]} if given["tenant"] else {}
        told = audit_offline(state, checked({**params, **of_tenant}), progressing.teller(on_progress), keys)
    return asked(given, params, state, store_at(state)) if told is None else told


def checked(params: dict[str, Any], kind: Any = None) -> Any:
    """The parameters as the daemon would take them, of `kind` (AuditParams). Raises noctuary.InvalidInput."""
    import msgspec

    from daemon.refusal import Refused
    from daemon.wire.checks import check_params
    from daemon.wire.exchange_params import AuditParams
    from daemon.wire.request import explain

    kind = AuditParams if kind is None else kind
    try:
        typed = msgspec.convert(params, kind)
        check_params(typed)
        return typed
    except msgspec.ValidationError as error:
        refused = explain(str(error), kind)
    except Refused as error:
        refused = error
    raise noctuary.InvalidInput(refused.message, refused.reason.code, {"reason": refused.reason.wire, **refused.data})


def asked(
    given: dict[str, Any], params: dict[str, Any], state: Path | None = None, wanted: str = "", verb: str = "audit"
) -> dict[str, Any]:
    """The daemon's answer. One that serves another store than `wanted` is not asked. Raises noctuary.NoctuaryError."""
    client = noctuary.Client(given["socket"], given["tenant"], None)
    try:
        if state is not None:
            from daemon.cli.sameness import require_served

            require_served(client, state, wanted)
        from daemon.cli import progressing

        with progressing.shown() as on_progress:
            return dict(client.call(verb, params, dict, on_progress))
    finally:
        client.close()


def code_of(result: dict[str, Any]) -> int:
    """Every finding is damage: of the journal, or of a projection that differs from it. So is a head that was noted and
    is not there any more."""
    lost = any(told != "same" for told in result.get("against") or ())
    return exits.DAMAGED if result.get("findings") or lost else exits.OK
