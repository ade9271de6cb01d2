"""The manifest of a backup: what it names lies in its directory; and every form that is checked is checked whole."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import msgspec
import pytest

from daemon.wire.verbs import VERBS
from journal.errors import DamagedStore
from journal.manifest import MANIFEST, FileEntry, Manifest, PartEntry, opens, read_manifest
from journal.purges import Directive

AT = "2026-11-30T00:00:00.000Z"


def entry(name: str = "vault-1-5", *, epoch: int = 1, seq: int = 5, vault_next: int = 4) -> PartEntry:
    return PartEntry(epoch, seq, "ab" * 32, vault_next, AT, (FileEntry(name, 1, "cd" * 32),))


def written(directory: Path, name: str) -> Path:
    """A manifest that holds, of a vault in the file `name`."""
    line = msgspec.json.encode(Manifest(1, "ef" * 16, 1, "test", None, entry(name)))
    digest = blake2b(line, digest_size=32).hexdigest().encode()
    (directory / MANIFEST).write_bytes(line + b"\n" + digest + b"\n")
    return directory


@pytest.mark.parametrize(
    "name", ["../vault-1-5", "/etc/vault-1-5", "x/journal-1-5", "\nvault-1-5", "vault-1-5\n", "vault-1-5/..", "vault"]
)
def test_a_name_that_leads_out_of_the_directory_is_no_manifest_s(tmp_path: Path, name: str) -> None:
    with pytest.raises(DamagedStore, match="decoded"):
        read_manifest(written(tmp_path, name))
    vault = read_manifest(written(tmp_path, "vault-1-5.1")).vault
    assert vault is not None and vault.file.name == "vault-1-5.1"


def test_a_vault_opens_no_journal_that_is_ahead_of_it() -> None:
    journal = entry()
    assert opens(entry(), journal) and opens(entry(seq=9, vault_next=7), journal)
    assert not opens(entry(vault_next=3), journal) and not opens(entry(seq=4), journal)
    assert opens(entry(epoch=2, seq=2), journal)  # of the fork that was made of it: they count anew
    assert not opens(entry(epoch=2, seq=2, vault_next=3), journal)


def patterns(kind: msgspec.inspect.Type, seen: set[type]) -> Iterator[str]:
    """Of all strings in a type."""
    if isinstance(kind, msgspec.inspect.StrType) and kind.pattern is not None:
        yield kind.pattern
    if isinstance(kind, msgspec.inspect.StructType) and kind.cls not in seen:
        seen.add(kind.cls)
        for field in kind.fields:
            yield from patterns(field.type, seen)
    for name in ("item_type", "key_type", "value_type", "type"):
        if isinstance(inner := getattr(kind, name, None), msgspec.inspect.Type):
            yield from patterns(inner, seen)
    for name in ("types", "item_types"):
        for inner in getattr(kind, name, ()):
            yield from patterns(inner, seen)


def test_every_pattern_is_of_the_whole_string() -> None:
    """msgspec looks for one anywhere in the string; `$` would also let a newline stand behind it."""
    seen: set[type] = set()
    kinds = [Manifest, Directive, *(verb.params for verb in VERBS.values())]
    found = [pattern for kind in kinds for pattern in patterns(msgspec.inspect.type_info(kind), seen)]
    assert len(found) >= 8 and Manifest in seen
    assert [pattern for pattern in found if not (pattern.startswith("^") and pattern.endswith(r"\Z"))] == []
