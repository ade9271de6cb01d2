"""The purges file: what was purged, in a form that a restored backup can be purged with again.

One line of JSON for each PURGE is its whole story: its address (store, epoch, seq, chain; `first` is the number of the
first PURGE of the same command), the memories (`[kind, id]`), the parts (`[owner seq, part, slot, digest]`), the name
of the tenant, reason and cascade (codes), when (UTC ms) and by whom (`[uid, role, via]`) it was done, the first time if
it was done `again`, and under which addresses restores told of it before (`earlier`); of one that keeps texts from
coming again also what stands of these in the record, and which memories said them. Before it stand the CRC-32C of the
JSON, 8 hex digits, and a blank.
Lines are only ever added. Invariant: every PURGE record has a line, at the latest when the store is
next opened; a line that was cut short by a crash is passed over, and the next one starts on its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from crc32c import crc32c
from msgspec import Meta

from journal.codes import Cascade, PurgeReason
from journal.errors import StoreIO
from journal.events import Purged
from journal.layout import FILE_MODE, sync_directory, write_all
from journal.record import MAX_EPOCH, Record

Hex = Annotated[str, Meta(pattern=r"^([0-9a-f]{2}){16,64}\Z")]
Number = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class DirectedPart(msgspec.Struct, frozen=True, array_like=True):
    """A part to destroy, where the owner's record has that digest (32 hex digits)."""

    owner_seq: Number
    part: Number
    slot: Number
    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]


class Directive(msgspec.Struct, frozen=True, omit_defaults=True):
    """One PURGE. `store` and `chain` are hex digits, as are the key and the fingerprints of texts that it keeps from
    coming again: only a purge that does has them, and `fingerprinted`, the ids of the memories that said these texts.
    `again`: (store, epoch, seq) of the purge that this one did again after a restore, and `earlier` (epoch, seq) of
    those that had done it again before."""

    store: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
    epoch: Annotated[int, Meta(ge=0, le=MAX_EPOCH)]
    seq: Number
    chain: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    memories: tuple[tuple[int, int], ...]
    parts: tuple[DirectedPart, ...]
    first: Number
    tenant: str
    reason: Annotated[int, Meta(ge=0, le=int(max(PurgeReason)))]
    cascade: Annotated[int, Meta(ge=0, le=int(max(Cascade)))]
    at: int
    actor: tuple[int, int, int]
    again: tuple[str, int, int] | None = None
    fingerprint_key: Hex | None = None
    fingerprints: tuple[Hex, ...] = ()
    fingerprinted: tuple[int, ...] = ()
    earlier: tuple[tuple[int, int], ...] = ()


class Purges(NamedTuple):
    """What the file holds, and the numbers (from 1) of the lines that could not be read. Those of them that a crash
    doesn't explain are `lost_lines`: it leaves the last one without its end, and its whole is written again further
    down. A last line that has its end was complete once, so that it is lost too.
    """

    directives: tuple[Directive, ...]
    damaged_lines: tuple[int, ...]
    lost_lines: tuple[int, ...] = ()


_ENCODE = msgspec.json.Encoder().encode
_DECODE = msgspec.json.Decoder(Directive).decode
_LAST_OF_A_LINE = b"}"
"""No other byte of a line is one: a line that has it was not cut short, even where the newline is not what it was."""


def directive(store_id: bytes, epoch: int, record: Record, chain: bytes) -> Directive:
    """The directive of a PURGE record. Parts that an import found purged already are not here to be destroyed."""
    event = record.event
    assert isinstance(event, Purged)
    again = None if event.directive is None else (event.directive[0].hex(), *event.directive[1:])
    actor = record.actor
    return Directive(
        store_id.hex(), epoch, record.seq, chain.hex(),
        tuple((target.kind, target.id) for target in event.targets),
        tuple(DirectedPart(p.owner_seq, p.part, p.slot, p.digest.hex()) for p in event.parts if p.slot),
        record.cause.first_seq, event.tenant_name, event.reason, event.cascade, event.first_at or record.at_ms,
        event.first_actor or (actor.uid, actor.role, actor.via), again,
        None if event.fingerprint_key is None else event.fingerprint_key.hex(),
        tuple(each.hex() for each in event.fingerprints),
        tuple(target.id for target in event.targets if target.is_fingerprinted), event.earlier,
    )  # fmt: skip


def merge_purges(path: Path, directives: Iterable[Directive]) -> None:
    """Add those that the file lacks, each once. Raises StoreIO."""
    wanted = dict.fromkeys(directives)
    for known in read_purges(path).directives:
        wanted.pop(known, None)
    append_purges(path, wanted)


def append_purges(path: Path, directives: Iterable[Directive]) -> None:
    """Add lines, on the disk when this returns. Raises StoreIO."""
    bodies = [_ENCODE(each) for each in directives]
    lines = b"".join(b"%08x %b\n" % (crc32c(body), body) for body in bodies)
    if not lines:
        return
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, FILE_MODE)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                lines = b"\n" + lines  # a line was cut short
            write_all(descriptor, lines)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if not size:  # the file may be new; later its name is there, and each purge's head syncs the directory too
            sync_directory(path.parent)
    except OSError as error:
        raise StoreIO(f"{path.name}: {error.strerror}") from error


def read_purges(path: Path) -> Purges:
    """All directives in the file; none when there is no file. Raises StoreIO."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Purges((), ())
    except OSError as error:
        raise StoreIO(f"{path.name}: {error.strerror}") from error
    found: list[Directive] = []
    sound: list[bytes] = []
    damaged: dict[int, bytes] = {}
    lines = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        checksum, _, body = line.partition(b" ")
        if not line:
            continue
        try:
            if checksum != b"%08x" % crc32c(body):
                raise ValueError("its CRC does not hold")
            found.append(_DECODE(body))
            sound.append(line)
        except ValueError:  # msgspec's errors are ValueErrors
            damaged[number] = line
    explained = {number for number, line in damaged.items() if any(map(_begins(line), sound))}
    if _LAST_OF_A_LINE not in lines[-1]:  # what stands behind the last \n
        explained.add(len(lines))
    return Purges(tuple(found), tuple(damaged), tuple(number for number in damaged if number not in explained))


def _begins(cut_short: bytes) -> Callable[[bytes], bool]:
    return lambda line: line.startswith(cut_short)
