"""`noctuary export` and `noctuary import --format frames`: a whole store as lines of JSON, and back.

Which store is exported is found as for `audit`: nobody holds it, then this process reads it and writes nothing under
the state directory; else the daemon that has it open is asked, page by page, up to the head it names first.
An import makes a store and needs no daemon. Progress is shown on a terminal only, as everywhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

import noctuary
from daemon.cli import arguments, auditing, exits, progressing
from daemon.cli.arguments import Usage
from daemon.cli.complaining import complain
from daemon.cli.keyed import take_key_file
from daemon.cli.sameness import require_served
from daemon.config import default_state
from daemon.keyfile import master_keys
from journal.errors import EXPORT_AGAIN, CannotCreate, DamagedStore, StoreLocked
from journal.exporting import EXPORT_FORM, export_file, export_lines, hash_key_check
from journal.frames import Level
from journal.layout import StateDir

EXPORT = (
    "export [--tenant NAME] [--level skeleton|sealed|content] [--out FILE] [--force] [--state DIR] [--master-key FILE]"
)
IMPORT = "import --format frames FILE [--state DIR] [--master-key FILE]"
PAGE_RECORDS = 1000

Step = Callable[[int, int], None]


def export(given: dict[str, Any], words: list[str]) -> int:
    """Write an export; the exit code. Raises Usage, noctuary.NoctuaryError, NoctuaryFault."""
    key_file, words = take_key_file(words)
    state, rest = auditing.place_of(given["socket"], words)
    level, out, force = _options(rest)
    source = _Source(state, key_file, given["tenant"] or None)
    if out == "-":
        return _to_output(given, source, level)
    _refuse_state(Path(out), state)
    told: dict[str, Any] = {}
    frames = -1  # the first line is none
    with export_file(Path(out), replace=force) as file, _steps("export") as step:
        for line in _lines(given, source, level, step):
            told = told or msgspec.json.decode(line)
            file.write(line)
            frames += 1
    whose = {"tenant": source.tenant} if source.tenant else {}
    _show(given, {"file": out, **whose, "level": told["level"], "records": frames, "head": told["head"]}, "export")
    return exits.OK


class _Source(NamedTuple):
    """What is exported: the store in `state`, None for the daemon's; the file of its master key, if any; and `tenant`
    when only what that one has."""

    state: Path | None
    key_file: str | None
    tenant: str | None


def _refuse_state(out: Path, state: Path | None) -> None:
    """Raises CannotCreate for a place in a state directory: that of the store, which a daemon doesn't tell, or of any
    other. What a directory is says what lies in it: it can be reached under several names.
    """
    place = out.resolve()
    given = state is not None and place.is_relative_to(state.resolve())
    if given or any(StateDir(each).is_used() for each in place.parents):
        raise CannotCreate(f"{out} lies in a state directory, where nothing may rest in the clear")


def _options(words: list[str]) -> tuple[Level, str, bool]:
    """`(level, file, whether it may be replaced)`. Raises Usage."""
    level, out, force = str(Level.CONTENT), "-", "--force" in words
    words = [word for word in words if word != "--force"]
    names = {word.partition("=")[0] for word in words}
    if "--level" in names:
        level, words = arguments.take("--level", words)
    if "--out" in names:
        out, words = arguments.take("--out", words)
    if words:
        raise Usage(f"{EXPORT}; {words[0]!r} is too much")
    if level not in list(Level):
        raise Usage(f"no level {level!r} (allowed: {', '.join(Level)})")
    return Level(level), out, force


def _to_output(given: dict[str, Any], source: _Source, level: Level) -> int:
    """To standard output. One that nobody reads to its end is no export: that is not done in silence."""
    try:
        with _steps("export") as step:
            for line in _lines(given, source, level, step):
                sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return complain(given["json"], exits.IO_ERROR, "whoever read the export has gone before its end")
    return exits.OK


def _lines(given: dict[str, Any], source: _Source, level: Level, step: Step) -> Iterator[bytes]:
    """The lines of the export, of the store itself or of its daemon."""
    state = source.state
    if state is None:
        yield from _live(given, source, "", level, step)
        return
    from daemon.cli.offline import open_to_read, store_at

    try:
        keyless = level is not Level.CONTENT
        with (
            master_keys(source.key_file, keyless=keyless) as keys,
            open_to_read(state, keys) as (store, destroying),
        ):
            if source.tenant is None:
                yield from export_lines(store, destroying, level, step)
                return
            from daemon.cli import export_tenant

            yield from export_tenant.offline(store, destroying, source.tenant, level, step)
            return
    except StoreLocked:
        wanted = store_at(state)
    yield from _live(given, source, wanted, level, step)


def _live(given: dict[str, Any], source: _Source, wanted: str, level: Level, step: Step) -> Iterator[bytes]:
    """What the daemon answers. Raises noctuary.Unavailable when it serves another store than the one that is meant, and
    DamagedStore when that is not all."""
    client = noctuary.Client(given["socket"], None, None)
    try:
        head = client.call("head", {}, dict)
        if source.state is not None:
            require_served(client, source.state, wanted)
        if source.tenant is None:
            yield from _live_store(client, head, level, step)
            return
        from daemon.cli import export_tenant

        yield from export_tenant.live(client, source.tenant, level, step)
    finally:
        client.close()


def _live_store(client: noctuary.Client, head: dict[str, Any], level: Level, step: Step) -> Iterator[bytes]:
    """All records up to `head`, checked to be one line. Raises DamagedStore when they are not."""
    params = {"store_wide": True, "level": str(level), "limit": PAGE_RECORDS}
    page = client.call("records", params, dict)
    first = {"export": EXPORT_FORM, "store": head["store"], "epoch": head["epoch"], "head": head}
    more: dict[str, str] = {}
    if level is Level.CONTENT:
        check = hash_key_check(head["store"], page["hash_key"])
        more = {"hash_key": page["hash_key"], "hash_key_check": check}
    yield msgspec.json.encode({**first, "level": str(level), **more}) + b"\n"
    chain, expected = str(head["store"]), 1
    while True:
        for frame in page["frames"]:
            if expected > head["seq"]:
                break
            if (frame["seq"], frame["prev"]) != (expected, chain):
                found = f"the daemon's record {frame['seq']} does not follow on {expected - 1}"
                raise DamagedStore("export", found, EXPORT_AGAIN, expected)
            chain, expected = frame["chain"], expected + 1
            yield msgspec.json.encode(frame) + b"\n"
        step(expected - 1, head["seq"])
        if expected > head["seq"] or page["next_cursor"] is None:
            break
        page = client.call("records", {**params, "cursor": page["next_cursor"]}, dict)
    if (expected - 1, chain) != (head["seq"], head["chain"]):
        found = f"the daemon's records end at {expected - 1}, its head is record {head['seq']}"
        raise DamagedStore("export", found, EXPORT_AGAIN)


# --- import ----------------------------------------------------------------------------------------


def import_frames(given: dict[str, Any], words: list[str]) -> int:
    """Make a store of an export; the exit code. Raises Usage, NoctuaryFault."""
    from journal.importing import import_frames as make

    if given["tenant"] or given["socket"] is not None:
        raise Usage("an import of frames makes a store: it takes --state, no --socket and no --tenant")
    key_file, words = take_key_file(words)
    path, state = _import_options(words)
    with master_keys(key_file) as keys, _source(path) as file, _steps("import") as step:
        made = make(state, file, step, keys.master)
    source = made.source
    told = {"store": source.store.hex(), "epoch": source.epoch, "seq": source.seq, "chain": source.chain.hex()}
    _show(
        given,
        {"state": str(state), "store": made.store_id.hex(), "records": made.records, "source": told},
        "import_frames",
    )
    return exits.OK


def _import_options(words: list[str]) -> tuple[str, Path]:
    """`(file, state directory)`. Raises Usage."""
    _, words = arguments.take("--format", words)
    state = os.environ.get("NOCTUARY_STATE", "")
    if any(word.partition("=")[0] == "--state" for word in words):
        state, words = arguments.take("--state", words)
    if len(words) != 1 or (words[0].startswith("-") and words[0] != "-"):
        raise Usage(IMPORT)
    return words[0], Path(state or default_state(os.environ))


@contextmanager
def _source(path: str) -> Iterator[BinaryIO]:
    if path == "-":
        yield sys.stdin.buffer
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Usage(f"can't read {path}: {error.strerror}") from error
    with open(descriptor, "rb") as file:
        yield file


# --- both --------------------------------------------------------------------------------------------


@contextmanager
def _steps(phase: str) -> Iterator[Step]:
    """What to call with (done, of): it shows a line on a terminal, nothing elsewhere."""
    with progressing.shown() as on_progress:
        yield lambda done, of: None if on_progress is None else on_progress(noctuary.Progress(0, done, of, phase))


def _show(given: dict[str, Any], told: dict[str, Any], form: str) -> None:
    from daemon.cli import render

    print(msgspec.json.encode(told).decode() if given["json"] else render.render(told, form))
