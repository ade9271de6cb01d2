"""Which memories a selection means, in id order: what the header rows can tell, then what only unsealing can.

The header rows come from the working set when it stands where the question's snapshot stands, else from the snapshot's
pages: the same rows either way. Tags are looked up in the Blooms first, which rule out most of those that don't have
them without unsealing anything; what they don't rule out is unsealed like all the rest, so that an answer is complete
and exact however warm the columns are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from daemon.asked import content_of, window
from daemon.prepare import UNSET, parse_memory, parse_session
from daemon.reads.filing import particulars_of
from daemon.reads.holding import holds
from daemon.reads.reading import Reading, is_purged
from daemon.refusal import Reason, Refused
from daemon.selections import stamp_fits
from daemon.wire import params as p
from journal.codes import Kind, Origin, Status
from journal.errors import DamagedRecord, PartUnreadable
from projections import removed
from projections.columns import HEADER, Columns, Mask, codes_table, statuses
from projections.header_columns import Segment, View, read_segments
from projections.lineage_scan import rows_of
from projections.rows import NO_TIME, MemoryRow
from projections.sealed_scan import CHUNK_MEMORIES, NO_TEXT, Plaintexts, SealedScan
from projections.tag_blooms import ANY, may_have

Tsids = npt.NDArray[np.uint64]
_NOTHING = p.Selection()
_DEAD = frozenset(map(int, (Status.FORGOTTEN, Status.PRUNED, Status.PURGED, Status.QUARANTINED)))
"""The statuses that a memory can have whose header row a vacuum took away."""


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
    """One selection of one question. `statuses` are those that are meant when it doesn't say which."""

    def __init__(self, reading: Reading, sel: Any, statuses: Sequence[str] = (Status.ACTIVE.wire,)) -> None:
        self._reading = reading
        self._sel = _NOTHING if sel is UNSET else sel
        self._statuses = statuses
        self._sealed = content_of(self._sel)
        self._since, self._until = window("sel.", self._sel)
        self._in_time = self._since is not None or self._until is not None
        self._scan: SealedScan | None = None
        if self._sealed and not reading.content:  # before anything is looked at: nor do the Blooms tell
            raise Refused(Reason.DENIED, "selecting by content needs the grant `content`", parameter="sel")

    @property
    def by_headers(self) -> bool:
        """Whether the header rows say all."""
        return not self._sealed and not self._in_time and self._reading.as_of_ms is None

    def candidates(self) -> Tsids:
        """The memories of our tenants that fit as far as the columns can tell, in id order. Raises Refused."""
        keeps = self._header_conditions()
        looked_at = chain(segments(self._reading), removed_segments(self._reading) if self._may_be_dead() else ())
        kept = [segment.rows["tsid"][_all(keeps, segment)] for segment in looked_at]
        found: Tsids = np.concatenate([np.zeros(0, np.uint64), *kept])
        found.sort(kind="stable")
        return found

    def _may_be_dead(self) -> bool:
        """Whether a memory can be meant whose header row a vacuum took away."""
        return not _DEAD.isdisjoint(self._shown)

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
                chunk = self._those_in_time(chunk)
            if self._reading.as_of_ms is not None:
                chunk = self._those_that_hold(chunk, self._reading.as_of_ms)
            yield from self._with_content(chunk) if self._sealed else chunk

    # --- what the header rows say ------------------------------------------------------------------

    def _header_conditions(self) -> list[Callable[[Segment], Mask]]:
        """Each a condition that a row has to meet; those that most rows don't meet come first."""
        found = self._lasting_conditions()
        if self._sel.tags is not UNSET:
            tags = tuple(self._sel.tags)
            found.append(lambda segment: may_have(segment.blooms, tags))
        shown = codes_table(self._shown)
        found.append(lambda segment: shown[statuses(segment.rows)])
        return found

    @property
    def _shown(self) -> frozenset[int]:
        """The codes of the statuses that are meant."""
        words = self._statuses if self._sel.status is UNSET else self._sel.status
        return frozenset(int(Status.from_wire(word)) for word in words)

    def _lasting_conditions(self) -> list[Callable[[Segment], Mask]]:
        """Those that ask for what never changes."""
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
        named = self.producers()
        if named is not None:
            producers = np.array(named, np.uint32)
            found.append(lambda segment: np.isin(segment.rows["producer"], producers))
        if sel.kinds is not UNSET:
            kinds = codes_table(int(Kind.from_wire(word)) for word in sel.kinds)
            found.append(lambda segment: kinds[segment.rows["kind"]])
        if sel.origins is not UNSET:
            origins = codes_table(int(Origin.from_wire(word)) for word in sel.origins)
            found.append(lambda segment: origins[segment.rows["origin"]])
        return found

    def producers(self) -> list[int] | None:
        """The numbers of the stamps that the selection means, 0 for none at all; None when it doesn't say."""
        match = self._sel.producer
        if match is UNSET:
            return None
        found = [0] if stamp_fits(match, None, None, None, None) else []
        for stamp, number in list(self._reading.names.producers.items()):
            if stamp[0] in self._reading.tenants and stamp_fits(match, *stamp[1:]):
                found.append(number)
        return sorted(found)

    # --- what else has to be looked at ---------------------------------------------------------------

    def _those_in_time(self, tsids: list[int]) -> list[int]:
        """Those written in the window, which ends before `until`."""
        asked = np.array(tsids, np.uint64)
        at_ms = rows_of(self._reading.snapshot, asked, lambda done, of: None)["at_ms"]
        kept = np.ones(len(asked), np.bool_)
        if self._since is not None:
            kept &= at_ms >= self._since
        if self._until is not None:
            kept &= at_ms < self._until
        found: list[int] = asked[kept].tolist()
        return found

    def _those_that_hold(self, tsids: list[int], at_ms: int) -> list[int]:
        """Those that hold then. The rows tell which ended before; of the others the records tell since when they hold.
        One whose record can't be read comes back as damaged."""
        asked = np.array(tsids, np.uint64)
        ends_ms = rows_of(self._reading.snapshot, asked, lambda done, of: None)["valid_to"]
        held: list[int] = []
        for tsid in asked[(ends_ms == NO_TIME) | (ends_ms > at_ms)].tolist():
            row = self._reading.memory(tsid)
            try:
                if row is not None and holds(self._reading, row):
                    held.append(tsid)
            except DamagedRecord:
                held.append(tsid)
        return held

    def _with_content(self, tsids: list[int]) -> Iterator[int]:
        if self._scan is None:
            self._scan = self._reading.scan()
        texts: Plaintexts
        if self._sealed is not None and self._sealed.text is not None:
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
            text = reading.text(event) if self._sealed is not None and self._sealed.text is not None else ""
        except (PartUnreadable, DamagedRecord) as error:
            if isinstance(error, DamagedRecord) or error.state == "damaged":
                reading.note_damage(row.seq, "what a selection asks for")
                return True  # it can't be told; it comes back as damaged, not left out in silence
            return False
        return self._fits(particulars, text)

    def _fits(self, particulars: Any, text: str) -> bool:
        return self._sealed is None or self._sealed.fits(particulars, text)


def segments(reading: Reading) -> Iterator[Segment]:
    """The segments of all partitions of our tenants: from the columns when they are those of the question, else from
    its snapshot, without the blank rows of a vacuum that is under way. Raises DamagedRow."""
    view: View | None = reading.columns()
    for partition in _partitions(reading):
        for segment in read_segments(reading.state, partition) if view is None else view.segments(partition):
            there = segment.rows["tsid"] != 0
            yield segment if there.all() else Segment(*(column[there] for column in segment))


def removed_segments(reading: Reading) -> Iterator[Segment]:
    """The rows of our tenants that a vacuum took away. Raises DamagedRow."""
    for partition in _partitions(reading):
        taken = [header for _, header in removed.of_partition(reading.state, partition)]
        if taken:
            rows = np.frombuffer(b"".join(taken), HEADER)
            yield Segment(rows, np.full(len(rows), ANY, np.uint64), np.zeros(len(rows), np.bool_))


def _partitions(reading: Reading) -> list[int]:
    return [n for tenant in sorted(reading.tenants) for n in reading.names.partitions.get(tenant, ())]


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
