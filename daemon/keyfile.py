"""Where the master key comes from: a file that is named, else the credential that systemd hands over.

Named is it by `--master-key FILE`, `master_key` of the configuration or `$NOCTUARY_MASTER_KEY`; else the file
`noctuary-master-key` in `$CREDENTIALS_DIRECTORY` counts if it is there. Only paths ever stand in arguments and
environments. Invariant: before a key is read, this process can't dump core, nor be read by others of its user.
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from journal.masterkey import Keys, read_master_key

CREDENTIAL = "noctuary-master-key"
VARIABLE = "NOCTUARY_MASTER_KEY"
_PR_SET_DUMPABLE = 4


def key_file(given: str | None, environ: Mapping[str, str]) -> Path | None:
    """The file that the master key is read from; None when there is none."""
    if given:
        return Path(given)
    directory = environ.get("CREDENTIALS_DIRECTORY")
    credential = Path(directory, CREDENTIAL) if directory else None
    return credential if credential is not None and os.path.lexists(credential) else None


@contextmanager
def master_keys(given: str | None, environ: Mapping[str, str] | None = None, keyless: bool = False) -> Iterator[Keys]:
    """How the vault is opened, with the master key that there is; it is wiped behind the block. `keyless`: what is
    asked needs no key. Raises MasterKeyFault for a file that can't be used.
    """
    path = key_file(given, os.environ if environ is None else environ)
    if path is None:
        yield Keys(None, keyless)
        return
    harden()
    with read_master_key(path) as master:
        yield Keys(master, keyless)


def harden() -> None:
    """No core dumps, no reading of this process's memory by others of the same user."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
