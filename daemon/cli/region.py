"""`noctuary region`: the provenance region of a tenant, as a file of 72-byte rows or as a table.

Read from a store that nobody has open, without a daemon; a held lock is exit 75. The region is folded from the journal
in a scratch directory, so that what is shown is what the journal says, and nothing is written under the state
directory. The file has the rows in the order in which they were made (byte table: `projections/region.py` and
`formats.md`), then zeros up to the next multiple of 8192 rows.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from daemon.cli import arguments, exits
from daemon.cli.arguments import Usage
from daemon.cli.complaining import complain
from daemon.cli.offline import open_to_read
from daemon.config import default_state
from daemon.wire.allowed import TENANT_WORDS
from daemon.wire.vocabulary import TENANT_PATTERN
from journal.errors import CannotCreate, StoreLocked
from journal.exporting import export_file
from journal.tsid import format_tsid, memory_ref
from projections import names, provenance, region, tables
from projections.region import DUMP_MULTIPLE_ROWS, ROW_BYTES, STATE_WORDS, RegionRow
from projections.state import State
from projections.store import ProjectionStore

FORM: Final = "region dump FILE|- [--force] [--state DIR] | region show [--state DIR]"
_FOLDED: Final = ("names", "provenance")
_FOLDED_TO_SHOW: Final = (*_FOLDED, "memories")
"""A row says of its source only in which tier it is; its kind is in its own row."""


def run(given: dict[str, Any], words: list[str]) -> int:
    """Dump or show it; the exit code. Raises Usage, NoctuaryFault."""
    state, words, force = _options(given, words)
    tenant = given["tenant"] or os.environ.get("NOCTUARY_TENANT") or "default"
    if not re.fullmatch(TENANT_PATTERN, tenant):
        raise Usage(f"--tenant is {TENANT_WORDS}")
    showing = words == ["show"] and not force
    if not showing and (len(words) != 2 or words[0] != "dump"):
        raise Usage(FORM)
    try:
        return _show(given, state, tenant) if showing else _dump(given, state, tenant, words, force)
    except StoreLocked as error:
        raise StoreLocked(f"{error}; stop that daemon, or restore a backup elsewhere and give its --state") from error


def _dump(given: dict[str, Any], state: Path, tenant: str, words: list[str], force: bool) -> int:
    if words[1] == "-":
        return _to_output(given, state, tenant)
    out = Path(words[1])
    if out.resolve().is_relative_to(state.resolve()):
        raise CannotCreate(f"{out} lies in the state directory")
    with _pages(state, tenant) as pages, export_file(out, replace=force) as file:
        rows = sum(file.write(piece) for piece in pages) // ROW_BYTES
        file.write(bytes(_padding_rows(rows) * ROW_BYTES))
    told = {"file": str(out), "tenant": tenant, "rows": rows, "room": rows + _padding_rows(rows)}
    return _tell(given, told, "region")


def _options(given: dict[str, Any], words: list[str]) -> tuple[Path, list[str], bool]:
    """`(state directory, the other words, whether a file may be replaced)`. Raises Usage."""
    if given["socket"] is not None:
        raise Usage("region reads a store that no daemon has open: it takes --state, no --socket")
    state = os.environ.get("NOCTUARY_STATE", "")
    if any(word.partition("=")[0] == "--state" for word in words):
        state, words = arguments.take("--state", words)
    rest = [word for word in words if word != "--force"]
    for word in rest:
        if word.startswith("-") and word != "-":
            raise Usage(f"region has no option {word}; {FORM}")
    return Path(state or default_state(os.environ)), rest, "--force" in words


@contextmanager
def _pages(state: Path, tenant: str) -> Iterator[Iterator[bytes]]:
    """The pages of the tenant's region; none for one that was never written to. Raises NoctuaryFault."""
    with _folded(state, _FOLDED) as folded:
        yield _rows_of(folded, tenant)


@contextmanager
def _folded(state: Path, projections: tuple[str, ...]) -> Iterator[State]:
    """These projections of the store, folded from its journal. Raises NoctuaryFault."""
    with open_to_read(state) as (store, _), tempfile.TemporaryDirectory(prefix="noctuary-region-") as scratch:
        folded = ProjectionStore.open(Path(scratch) / "folded", store.boot_id)
        try:
            folded.head = store.log.head()
            folded.fold_anew(store.log, projections)
            with folded.snapshot() as snapshot:
                yield State(snapshot, folded.counters, folded.head)
        finally:
            folded.close(clean=False)


def _rows_of(state: State, tenant: str) -> Iterator[bytes]:
    for key, value in state.prefix(tables.TENANTS, b""):
        if names.unpack_tenant(key, value).name == tenant:
            yield from provenance.all_rows(state, int.from_bytes(key, "big"))


def _padding_rows(rows: int) -> int:
    """How many rows of zeros stand behind so many."""
    return max(DUMP_MULTIPLE_ROWS, -(-rows // DUMP_MULTIPLE_ROWS) * DUMP_MULTIPLE_ROWS) - rows


def _to_output(given: dict[str, Any], state: Path, tenant: str) -> int:
    try:
        with _pages(state, tenant) as pages:
            rows = 0
            for piece in pages:
                sys.stdout.buffer.write(piece)
                rows += len(piece) // ROW_BYTES
        sys.stdout.buffer.write(bytes(_padding_rows(rows) * ROW_BYTES))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return complain(given["json"], exits.IO_ERROR, "whoever read the region has gone before its end")
    return exits.OK


def _show(given: dict[str, Any], state: Path, tenant: str) -> int:
    with _folded(state, _FOLDED_TO_SHOW) as folded:
        rows = [
            _told(folded, region.unpack(piece[at : at + ROW_BYTES]))
            for piece in _rows_of(folded, tenant)
            for at in range(0, len(piece), ROW_BYTES)
        ]
    return _tell(given, {"tenant": tenant, "rows": rows}, "region_rows")


def _told(folded: State, row: RegionRow) -> dict[str, Any]:
    """The fields by their names in the byte table, ids as references."""
    source = folded.memory(row.source_tsid) if row.source_tsid else None
    told: dict[str, Any] = {
        **row._asdict(),
        "flags": STATE_WORDS[row.flags],
        "target": memory_ref(row.prefix_kind, row.target_tsid),
        "session_id": f"session:{format_tsid(row.session_id)}" if row.session_id else None,
        "source_tsid": None if source is None else memory_ref(source.kind, row.source_tsid),
    }
    del told["target_tsid"]
    return told


def _tell(given: dict[str, Any], told: dict[str, Any], form: str) -> int:
    import msgspec

    from daemon.cli import render

    print(msgspec.json.encode(told).decode() if given["json"] else render.render(told, form))
    return exits.OK
