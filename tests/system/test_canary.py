"""Planted words: after every kind of write they are in no file of the state directory and in no log line."""

from __future__ import annotations

import base64
import socket
from typing import Any

from tests.system.process import DaemonProcess

CANARY = "zqXcanary7Yk"


def word(place: str) -> str:
    """The canary of one place; the places are told apart when one is found."""
    return f"{CANARY}{place}"


def plant(daemon: DaemonProcess) -> None:
    session = {"agent": "tester", "key": word("key")}
    rich: dict[str, Any] = {
        "kind": "raw", "role": "user", "text": word("text") * 20, "session": session, "topic": word("topic"),
        "tags": [word("tag")], "entities": [{"name": word("entity"), "type": "person"}],
        "speaker": word("speaker"), "subject": word("subject"), "project": word("project"),
        "source_entity": word("source_entity"), "metadata": {word("metadata"): word("metadata")},
        "facts": [{"subject": word("fact"), "predicate": word("fact"), "value": word("fact")}],
        "idempotency_key": word("idempotency"),
    }  # fmt: skip
    first = daemon.call("remember", **rich)
    assert daemon.call("remember", **rich)["duplicate"] is True
    note = {"kind": "note", "subtype": "observation", "origin": "inferred", "text": word("note")}
    source = {"kind": "url", "id": word("external"), "resolvable": True}
    daemon.call("remember", **note, derived_from=[first["id"]], evidence=[source])
    daemon.call("session_open", agent="tester", key=word("name"), project=word("project"))
    daemon.call("forget", id=first["id"], note=word("note"))
    daemon.call("recover", id=first["id"], note=word("note"))
    (memory,) = daemon.call("get", ids=[first["id"]])["memories"]
    assert word("text") in memory["text"], "planted where it can't be found"
    assert daemon.call("list", sel={"text": word("text")})["total"] == 1
    torn(daemon)


def torn(daemon: DaemonProcess) -> None:
    """Lines that are refused with the canary in every part of them."""
    lines = (
        f'{{"{CANARY}',
        f'{{"jsonrpc":"2.0","id":"{CANARY}","method":"{CANARY}","params":{{"{CANARY}":"{CANARY}"}}}}',
        f'{{"jsonrpc":"2.0","id":1,"method":"remember","params":{{"kind":"{CANARY}","text":"{CANARY}"}}}}',
        f'{{"jsonrpc":"2.0","id":2,"method":"get","params":{{"ids":["{CANARY}"]}}}}',
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.connect(str(daemon.socket))
        stream.sendall("\n".join(lines).encode() + b"\n")
        stream.shutdown(socket.SHUT_WR)
        with stream.makefile("rb") as answers:
            assert len(answers.readlines()) == len(lines)


def forms(text: str) -> list[bytes]:
    """The ways in which a word could stand in a file."""
    plain = text.encode()
    return [plain, plain.lower(), text.encode("utf-16-le"), plain.hex().encode(), base64.b64encode(plain)[:-4]]


def found_in(daemon: DaemonProcess) -> list[str]:
    return [
        f"{path.name}: {form!r}"
        for path, content in daemon.files().items()
        for form in forms(CANARY)
        if form in content
    ]  # fmt: skip


def test_no_planted_word_is_at_rest_or_logged(daemon: DaemonProcess) -> None:
    plant(daemon)
    assert found_in(daemon) == []
    daemon.kill()
    assert found_in(daemon) == []
    daemon.start()
    assert daemon.audit()["findings"] == []
    assert daemon.stop() == 0
    assert found_in(daemon) == []
    logged = daemon.logged()
    assert '"ready"' in logged, "no log to look into"
    assert CANARY not in logged


def test_the_search_itself_finds(daemon: DaemonProcess) -> None:
    """A stamp is public by contract: found in the journal, so the search above would see more."""
    daemon.call("remember", kind="raw", text="a", role="user", producer={"agent": CANARY})
    assert any(line.startswith("data.mdb") for line in found_in(daemon))
