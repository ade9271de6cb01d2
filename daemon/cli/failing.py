"""Faults that are no refusals: of a store that was opened here, of files, of this program. Imported only then."""

from __future__ import annotations

import traceback

import msgspec

from daemon.cli import exits
from daemon.cli.complaining import complain
from journal.errors import NoctuaryFault


def tell(as_json: bool, error: Exception) -> int:
    """Say what went wrong; the exit code. What nobody foresaw is shown with its traceback."""
    if isinstance(error, NoctuaryFault):
        return complain(as_json, int(error.exit_code), str(error), {"reason": error.reason})
    if isinstance(error, OSError):
        where = f"{error.filename}: " if isinstance(error.filename, str) else ""
        return complain(as_json, exits.IO_ERROR, f"{where}{error.strerror or error}", {"reason": "io_error"})
    if isinstance(error, msgspec.MsgspecError):
        return complain(as_json, exits.INTERNAL, f"an answer that is none: {error}", {"reason": "internal"})
    if not as_json:
        traceback.print_exception(error)
    return complain(as_json, exits.INTERNAL, f"{type(error).__name__}: {error}", {"reason": "internal"})
