"""Which memories a selection means, in id order: what the header rows can tell, then what only unsealing can.

The header rows come from the working set when it stands where the question's snapshot stands, else from the snapshot's
pages: the same rows either way. Tags are looked up in the Blooms first, which rule out most of those that don't have
them without unsealing anything; what they don't rule out is unsealed like all the rest, so that an answer is complete
and exact however warm the columns are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from daemon.prepare import UNSET, parse_memory, parse_session, parse_time
from daemon.reads.memories import particulars_of
from daemon.reads.reading import Reading, is_purged
from daemon.refusal import Reason, Refused
from daemon.wire import params as p
from journal.codes import Kind, Origin, Status
from journal.errors import DamagedRecord, PartUnreadable
from projections.columns import Columns, Mask, codes_table, statuses
from projections.header_columns import Segment, View, read_segments
from projections.rows import MemoryRow
from projections.sealed_scan import CHUNK_MEMORIES, NO_TEXT, Plaintexts, SealedScan
from projections.tag_blooms import may_have

Tsids = npt.NDArray[np.uint64]
_SEALED_FIELDS = ("subject", "entity", "text", "tags", "project")
_NOTHING = p.Selection()


class _Asked(msgspec.Struct, array_like=True, gc=False):
    """The beginning of `journal.particulars.Particulars`: nothing behind what a selection can ask is decoded."""

    topic: str | None = None
    tags: tuple[str, ...] = ()
    entities: tuple[tuple[str, str], ...] = ()
    speaker: str | None = None
    subject: str | None = None
    project: str | None = None


_DECODE = msgspec.msgpack.Decoder(_Asked).decode


class Selecting:
    """One selection of one question."""

    def __init__(self, reading: Reading, sel: Any) -> None:
        self._reading = reading
        self._sel = _NOTHING if sel is UNSET else sel
        self._sealed = tuple(name for name in _SEALED_FIELDS if getattr(self._sel, name) is not UNSET)
        self._since, self._until = _time(self._sel, "since"), _time(self._sel, "until")
        self._in_time = self._since is not None or self._until is not None
        self._scan: SealedScan | None = None
        if self._sealed and not reading.content:  # before anything is looked at: nor do the Blooms tell
            raise Refused(Reason.DENIED, "selecting by content needs the grant `content`", parameter="sel")

    @property
    def by_headers(self) -> bool:
        """Whether the header rows say all."""
        return not self._sealed and not self._in_time

    def candidates(self) -> Tsids:
        """The memories of our tenants that fit as far as the columns can tell, in id order. Raises Refused."""
        keeps = self._header_conditions()
        kept = [segment.rows["tsid"][_all(keeps, segment)] for segment in segments(self._reading)]
        found: Tsids = np.concatenate([np.zeros(0, np.uint64), *kept])
        found.sort(kind="stable")
        return found

    def matching(self, tsids: Tsids) -> Iterator[int]:
        """Those of the candidates that fit in every respect. Raises Refused, NotBrief."""
        if self.by_headers:
            yield from tsids.tolist()
            return
        for first in range(0, len(tsids), CHUNK_MEMORIES):
            self._reading.asking.step("select", first, len(tsids))
            chunk = tsids[first : first + CHUNK_MEMORIES].tolist()
            self._reading.spend(len(chunk))
            if self._in_time:
                chunk = [tsid for tsid in chunk if self._is_in_time(tsid)]
            yield from self._with_content(chunk) if self._sealed else chunk

    # --- what the header rows say ------------------------------------------------------------------

    def _header_conditions(self) -> list[Callable[[Segment], Mask]]:
        """Each a condition that a row has to meet; those that most rows don't meet come first."""
        sel = self._sel
        found: list[Callable[[Segment], Mask]] = []
        if sel.session is not UNSET:
            number = self._reading.session_number(parse_session("sel.session", sel.session))
            if number is None:
                raise Refused(Reason.NOT_FOUND, "no such session", parameter="sel.session")
            found.append(lambda segment: segment.rows["session"] == number)
        if sel.ids is not UNSET:
            refs = [parse_memory("sel.ids", ref) for ref in sel.ids]
            found.append(lambda segment: _are(segment.rows, refs))
        if sel.tags is not UNSET:
            tags = tuple(sel.tags)
            found.append(lambda segment: may_have(segment.blooms, tags))
        if sel.producer is not UNSET:
            producers = np.array(list(self._producers(sel.producer)), np.uint32)
            found.append(lambda segment: np.isin(segment.rows["producer"], producers))
        if sel.kinds is not UNSET:
            kinds = codes_table(int(Kind.from_wire(word)) for word in sel.kinds)
            found.append(lambda segment: kinds[segment.rows["kind"]])
        if sel.origins is not UNSET:
            origins = codes_table(int(Origin.from_wire(word)) for word in sel.origins)
            found.append(lambda segment: origins[segment.rows["origin"]])
        words = (Status.ACTIVE.wire,) if sel.status is UNSET else sel.status
        shown = codes_table(int(Status.from_wire(word)) for word in words)
        found.append(lambda segment: shown[statuses(segment.rows)])
        return found

    def _producers(self, match: Any) -> Iterator[int]:
        """The numbers of the stamps that fit, 0 for none at all."""
        wanted = [getattr(match, name) for name in ("agent", "model", "version", "extractor")]
        if all(each is UNSET or each is None for each in wanted):
            yield 0
        for stamp, number in list(self._reading.names.producers.items()):
            fits = all(each is UNSET or each == has for each, has in zip(wanted, stamp[1:], strict=True))
            if fits and stamp[0] in self._reading.tenants:
                yield number

    # --- what else has to be looked at ---------------------------------------------------------------

    def _is_in_time(self, tsid: int) -> bool:
        row = self._reading.state.memory(tsid)
        if row is None:
            return False
        since, until = self._since, self._until
        return (since is None or since <= row.at_ms) and (until is None or row.at_ms < until)

    def _with_content(self, tsids: list[int]) -> Iterator[int]:
        if self._scan is None:
            self._scan = self._reading.scan()
        texts: Plaintexts
        if "text" in self._sealed:
            particulars, texts = self._scan.with_texts(tsids)
        else:
            particulars, texts = self._scan.particulars(tsids), [NO_TEXT] * len(tsids)
        for tsid, said, text in zip(tsids, particulars, texts, strict=True):
            if said is None or text is None:
                fits = self._matches_slowly(tsid)
            else:
                fits = self._fits(_DECODE(said), text.decode())
            if fits:
                yield tsid

    def _matches_slowly(self, tsid: int) -> bool:
        """For what didn't open at once: a purged memory, or a damaged one."""
        row = self._reading.memory(tsid)
        return row is not None and self._opens_and_fits(row)

    def _opens_and_fits(self, row: MemoryRow) -> bool:
        reading = self._reading
        if is_purged(row):
            return False
        try:
            _, event = reading.genesis(row)
            particulars = particulars_of(reading, row, event)
            text = reading.text(event) if "text" in self._sealed else ""
        except (PartUnreadable, DamagedRecord) as error:
            if isinstance(error, DamagedRecord) or error.state == "damaged":
                reading.note_damage(row.seq, "what a selection asks for")
                return True  # it can't be told; it comes back as damaged, not left out in silence
            return False
        return self._fits(particulars, text)

    def _fits(self, particulars: Any, text: str) -> bool:
        sel = self._sel
        return (
            (sel.subject is UNSET or particulars.subject == sel.subject)
            and (sel.project is UNSET or particulars.project == sel.project)
            and (sel.entity is UNSET or any(name == sel.entity for name, _ in particulars.entities))
            and (sel.tags is UNSET or set(sel.tags) <= set(particulars.tags))
            and (sel.text is UNSET or sel.text.casefold() in text.casefold())
        )


def _time(sel: Any, name: str) -> int | None:
    given = getattr(sel, name)
    return None if given is UNSET else parse_time(f"sel.{name}", given)[0]


def segments(reading: Reading) -> Iterator[Segment]:
    """The segments of all partitions of our tenants: from the columns when they are those of the question, else from
    its snapshot. Raises DamagedRow."""
    view: View | None = reading.columns()
    for partition in [n for tenant in sorted(reading.tenants) for n in reading.names.partitions.get(tenant, ())]:
        yield from read_segments(reading.state, partition) if view is None else view.segments(partition)


def _all(conditions: list[Callable[[Segment], Mask]], segment: Segment) -> Mask:
    kept = conditions[0](segment)
    for condition in conditions[1:]:
        if not kept.any():
            return kept
        kept = kept & condition(segment)
    return kept


def _are(rows: Columns, refs: list[tuple[int, int]]) -> Mask:
    """Which rows are one of these memories, by kind and id."""
    found = np.zeros(len(rows), np.bool_)
    for kind in {kind for kind, _ in refs}:
        tsids = np.array([tsid for each, tsid in refs if each == kind], np.uint64)
        found |= (rows["kind"] == kind) & np.isin(rows["tsid"], tsids)
    return found
