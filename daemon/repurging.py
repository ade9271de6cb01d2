"""Purges that a restore does again: as the daemon purges, against the journal that was restored, as it is now.

A line of the purge list says which memories went, and where; what goes with them was decided in another state of the
store. Here it is decided anew (`erasing.py`): a text that no living memory shares any more, all that was said about
them since, proposals, copies, entities, a session when nothing is left in it. What a living memory needs stays. Reason,
cascade, time and who did it are those of the line, and so is what keeps texts from coming again, also where nothing
else of a purge is in this journal. The cascade is walked here too, and no number of memories is too many.

Method: the journal is folded into a scratch directory, and purges are admitted in batches as the writer's are. A hold
that stands here ends before, in a command of its own: what was purged once was not under hold. Invariant: whatever it
raises, no store was made.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import lmdb
from msgspec.structs import replace

from daemon import limits
from daemon.admission import Admission, Content
from daemon.cascading import Going
from daemon.commands.building import Building
from daemon.commands.purging import Purging, ToPurge, nothing
from daemon.decision import Draft
from daemon.erasing import PARTS_A_RECORD, TARGETS_A_RECORD, Piece, held_among, plan
from daemon.erasure_words import file_system
from daemon.moment import Moment
from daemon.view import View
from journal.codes import CallerRole, Cascade, PurgeReason, Via
from journal.destroying import is_destroying
from journal.errors import DamagedRecord, DamagedStore, PartUnreadable
from journal.events import Held, Purged, Ref, SealedPart
from journal.layout import read_boot_id
from journal.reapplying import Commanded, Here, Reapplied, Recorded, Step, Unfinished
from journal.record import Actor, Record, decode_body
from journal.tsid import TsidSource
from projections.rows import DamagedRow
from projections.state import State
from projections.store import ProjectionStore
from projections.warming import tenants
from projections.workingset import WorkingSet

PURGES_A_BATCH = 64
_ACTION = "Restore another backup."


class _Story(NamedTuple):
    """What stays of a purge, whatever it takes here."""

    reason: str
    cascade: str
    block_reingest: bool = False


class _Blocked(NamedTuple):
    """What one record says of texts that are kept out: as the lines say it."""

    key: bytes | None
    fingerprints: tuple[bytes, ...]


def again(made: Unfinished, purges: Sequence[Commanded], step: Step) -> Reapplied:
    """Append what the purges come to in a journal that is restored. Raises DamagedStore, StoreIO, lmdb.Error."""
    with made.log.env.read() as txn:
        here = Here(made.log, txn)
        done = Recorded(_destroying(made, txn))
        waiting = [each for each in purges if not here.is_recorded(each)]
    before = len(purges) - len(waiting)
    if not waiting:
        return Reapplied(already=before)
    projections = ProjectionStore.open(made.scratch / "folded", read_boot_id())
    try:
        projections.catch_up(made.log, lambda folded, of: step("fold", folded, of))
        found = _Again(made, projections, done).run(waiting, step)
    except (DamagedRow, DamagedRecord) as error:
        raise DamagedStore("backup, journal", f"a purge can't be done again: {error}", _ACTION) from error
    finally:
        projections.close(clean=False)
    return found._replace(already=found.already + before)


def _destroying(made: Unfinished, txn: lmdb.Transaction) -> Iterator[object]:
    for seq in made.log.destroying_seqs():
        record = made.log.get(txn, seq)
        if record is not None:
            yield record.event


class _Again:
    """One restore's purges."""

    def __init__(self, made: Unfinished, projections: ProjectionStore, done: Recorded) -> None:
        self._made, self._projections, self._done = made, projections, done
        self._moment = Moment(lambda: made.now_ms)
        self._actor = Actor(os.geteuid(), int(CallerRole.OPERATOR), int(Via.DAEMON))
        self._names = WorkingSet()
        self._held: dict[Ref, None] = {}
        with projections.snapshot() as snapshot:
            tenants(self._names, snapshot)
        self._to_purge = ToPurge(
            made.vault.hash_key, b"", file_system(made.root), lambda slot: slot in done.slots,
            lambda _seq: made.log.state.epoch, _raise,
        )  # fmt: skip

    def run(self, purges: Sequence[Commanded], step: Step) -> Reapplied:
        applied = already = not_found = 0
        for batch in _batches(purges):
            step("purges", applied + already + not_found, len(purges))
            for is_known, is_done in self._batch(batch):
                applied += is_done
                already += is_known and not is_done
                not_found += not is_known and not is_done
        return Reapplied(applied, already, not_found, held=tuple(self._held))

    def _batch(self, purges: Sequence[Commanded]) -> list[tuple[bool, bool]]:
        """Of each, whether anything of it is here, and whether something was recorded."""
        log = self._made.log
        with self._projections.snapshot() as snapshot, log.env.read() as txn:
            state = State(snapshot, self._projections.counters.copy(), log.head())
            admission, here = self._admission(state, txn)
            told = [_Purge(self, admission, here, each).run() for each in purges]
            if not admission.bodies:
                return told
            changes = state.finish()
        first = log.head().seq + 1
        records = [decode_body(seq, body) for seq, body in enumerate(admission.bodies, first)]
        seqs = tuple(record.seq for record in records if is_destroying(record.event))
        head = log.append(admission.bodies, [], log.state, destroying_seqs=seqs)
        self._projections.commit(changes, state.counters, head)
        self._names.take_over(admission.pending)
        return told

    def _admission(self, state: State, txn: lmdb.Transaction) -> tuple[Admission, Here]:
        made, content, pending = self._made, Content(), WorkingSet()

        def record(seq: int) -> Record | None:
            return content.records.get(seq) or made.log.get(txn, seq)

        view = View(
            state, self._names, pending, TsidSource(0, state.counters.tsid), made.now_ms, record, _unopened,
            self._moment.zone_name, self._moment.local_day,
            self._moment.vacuum_threshold,
        )  # fmt: skip
        return Admission(made, state, view, pending, content), Here(made.log, txn, record)


class _Purge:
    """One purge that is done again, in a batch: as one command, so that it has one receipt, in each tenant."""

    def __init__(self, of: _Again, admission: Admission, here: Here, purge: Commanded) -> None:
        self._of, self._admission, self._here, self._purge = of, admission, here, purge
        line = purge.lines[0]
        self._line = line
        self._cascade = Cascade(line.cascade)
        self._story = _Story(PurgeReason(line.reason).wire, self._cascade.wire)
        self._fingerprinted = purge.fingerprinted
        self._blocked = _in_records(purge.fingerprints, of._done.fingerprints)
        self._recorded = False

    def run(self) -> tuple[bool, bool]:
        """`(whether anything of it is here, whether something was recorded)`. Raises DamagedRow, DamagedRecord."""
        meant, sessions = self._meant(), self._sessions()
        for tenant in dict.fromkeys((*meant, *sessions, self._line.tenant)):
            blocked = self._blocked if tenant == self._line.tenant else []
            self._in_tenant(tenant, meant.get(tenant, []), sessions.get(tenant, []), blocked)
        return bool(meant or sessions), self._recorded

    def _meant(self) -> dict[str, list[int]]:
        """The memories that are here, by tenant."""
        found: dict[str, list[int]] = {}
        for kind, tsid in self._purge.memories:
            row = self._admission.state.memory(tsid)
            if row is not None and self._here.is_meant((kind, tsid), row.seq, self._purge):
                found.setdefault(self._of._names.tenants[row.tenant].name, []).append(tsid)
        return found

    def _sessions(self) -> dict[str, list[int]]:
        """The sessions whose keys it took, by tenant."""
        found: dict[str, list[int]] = {}
        for number in self._here.sessions(self._purge):
            row = self._admission.state.session(number)
            if row is not None:
                found.setdefault(self._of._names.tenants[row.tenant].name, []).append(number)
        return found

    def _in_tenant(
        self, tenant: str, tsids: Sequence[int], sessions: Sequence[int], blocked: Sequence[_Blocked]
    ) -> None:  # fmt: skip
        if not (tsids or sessions or blocked):
            return
        building = self._building(tenant)
        if not building.tenant:
            building.begin_tenant()
            self._admit(building)
            building = self._building(tenant)
        going = self._going(building.view, tsids)
        held = held_among(going.rows.items())
        if held:
            self._of._held.update(dict.fromkeys(held))
            building.add(Draft(Held(memories=tuple(held), on=False)))
            self._admit(building)
            building = self._building(tenant)
            going = self._going(building.view, tsids)
        pieces = self._pieces(building.view, going, sessions)
        pieces += [_nothing() for _ in range(len(blocked) - len(pieces))]
        Purging(building, self._story, self._of._to_purge, going).draft(pieces)
        self._tell(building, blocked)
        self._admit(building)

    def _going(self, view: View, tsids: Sequence[int]) -> Going:
        """What goes with these here. What only the cascade reaches, and is under hold, stays: nobody has taken that
        hold off."""
        going = Going(view.state, view.record, self._cascade, nothing, is_bounded=False)
        going.walk(tsids)
        held = held_among(going.rows.items())
        if held and self._cascade is not Cascade.NONE:
            own = Going(view.state, view.record, Cascade.NONE, nothing, is_bounded=False)
            own.walk(tsids)
            going.spare(tsid for _, tsid in held if tsid not in own.rows)
        return going

    def _pieces(self, view: View, going: Going, sessions: Sequence[int]) -> list[Piece]:
        is_shredded = self._of._to_purge.is_shredded
        pieces = plan(view.state, view.record, going, is_shredded).pieces if going.rows else []
        taken = {part.slot for piece in pieces for part in piece.parts}
        alone = _nothing()
        for number in sessions:
            none = Going(view.state, view.record, Cascade.NONE, nothing)
            for piece in plan(
                view.state, view.record, none, lambda slot: slot in taken or is_shredded(slot), number
            ).pieces:
                if len(alone.parts) + len(piece.parts) > PARTS_A_RECORD:
                    pieces.append(alone)
                    alone = _nothing()
                alone.parts.extend(piece.parts)
                alone.sessions.extend(piece.sessions)
        return [*pieces, alone] if alone.parts else pieces

    def _building(self, tenant: str) -> Building:
        return Building(self._admission.view, tenant, self._of._actor.uid)

    def _tell(self, building: Building, blocked: Sequence[_Blocked]) -> None:
        """The story of the line, in what is to be recorded."""
        waiting = iter(blocked)
        for at, draft in enumerate(building.drafts):
            if isinstance(draft.event, Purged):
                building.drafts[at] = Draft(self._told(draft.event, next(waiting, _Blocked(None, ()))))
                self._recorded = True

    def _told(self, event: Purged, blocked: _Blocked) -> Purged:
        line, said = self._line, self._fingerprinted
        targets = tuple(replace(each, is_fingerprinted=True) if each.id in said else each for each in event.targets)
        told = replace(
            event, targets=targets, file_system=self._of._to_purge.file_system, fingerprint_key=blocked.key,
            fingerprints=blocked.fingerprints, directive=(bytes.fromhex(line.store), *self._purge.origin),
            first_at=line.at, first_actor=line.actor, earlier=self._purge.earlier,
        )  # fmt: skip
        self._of._done.take(told)
        return told

    def _admit(self, building: Building) -> None:
        self._admission.admit(building, self._of._actor, "restore", None)


def _in_records(fingerprints: dict[bytes, tuple[bytes, ...]], known: set[bytes]) -> list[_Blocked]:
    """What is not known yet, as much of it together as a purge says in one record."""
    found: list[_Blocked] = []
    for key, of_key in fingerprints.items():
        new = [each for each in of_key if each not in known]
        for at in range(0, len(new), TARGETS_A_RECORD):
            found.append(_Blocked(key, tuple(new[at : at + TARGETS_A_RECORD])))
    return found


def _nothing() -> Piece:
    return Piece([], [], [], [], [])


def _batches(purges: Sequence[Commanded]) -> Iterator[list[Commanded]]:
    """As many as one transaction does: of large ones fewer."""
    batch: list[Commanded] = []
    memories = 0
    for each in purges:
        count = len(each.memories)
        if batch and (len(batch) == PURGES_A_BATCH or memories + count > limits.MEMORIES_PER_ACTION):
            yield batch
            batch, memories = [], 0
        batch.append(each)
        memories += count
    if batch:
        yield batch


def _unopened(part: SealedPart) -> bytes:
    """No content is needed here, and none is opened."""
    raise PartUnreadable(part.owner_seq, part.part, "purged")


def _raise(error: DamagedRecord) -> Any:
    """A backup was walked before it was taken: nothing of it may be damaged."""
    raise error
