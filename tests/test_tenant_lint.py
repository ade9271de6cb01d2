"""Whatever reads for a caller reads as its tenants may: what goes around the bound view is named here, with the reason.

Method: the syntax of every file of the daemon that can read for a caller is walked for the ways to what is not bound:
the projections' snapshot and what is made from it, an environment of LMDB, a state that is made by hand, the journal.
`Reading.state`, `Reading.memory`, `Reading.record` and `Building.view` are bound (`projections/bound.py`), so they are
not looked for. In the rooms of reads and commands, and in what of the daemon itself looks for somebody, each function
is named; what opens, folds, copies and writes the store as a whole is named by file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("daemon/reads", "daemon/commands")
UNBOUND = frozenset(
    {
        "snapshot", "scan", "columns", "looking", "record_of_any", "_whole", "_inner", "_record", "_snapshot", "_txn",
        "all_open", "env", "_value_of",
    }
)  # fmt: skip
"""Attributes by which something is read that nobody has compared with the caller's tenants."""
MADE_BY_HAND = frozenset({"State", "Unchanged", "TxnSnapshot", "ProjectionStore", "SealedScan"})
LMDB = frozenset({"lmdb.open", "lmdb.Environment"})
JOURNAL = "store.log"

_OF_THE_STORE = "tells of the whole store, to operators and auditors; it names no content"
_OF_ITS_MEMORY = "by a memory's id, which `Tracing.memory` found to be the tenant's"
_MASKED = "ids that were selected within the tenants' partitions, or that `Reading.memories` let through"
_THE_VIEW = "the bound view itself"
_BOUND_BEFORE = "what it was made with is the view of a reading or of a command"
_OF_ITS_PARTITION = (
    "the rows of one partition, which `Vacuum._chosen` took from those of the tenant, and what they lead to"
)
_A_NUMBER = "the number of the record that the snapshot stands at"

ALLOWED: dict[tuple[str, str], str] = {
    ("audit.py", "_audit"): _OF_THE_STORE,
    ("audit.py", "head_result"): _OF_THE_STORE,
    ("audit.py", "_keys"): _OF_THE_STORE,
    ("audit.py", "_digests"): _OF_THE_STORE,
    ("audit.py", "region_findings"): _OF_THE_STORE,
    ("audit.py", "tenant_findings"): _OF_THE_STORE,
    ("audit.py", "_slot_findings"): _OF_THE_STORE,
    ("audit.py", "_folded"): _OF_THE_STORE,
    ("audit.py", "_against"): _OF_THE_STORE,
    ("residue.py", "residue"): _OF_THE_STORE,
    ("residue.py", "_type"): _OF_THE_STORE,
    ("residue.py", "tenants_told"): "whose the memories are that an operator is told of; it leaves a record with each",
    ("holdings.py", "holdings"): "`tenancy.entries_of` gives only entries of the tenant",
    ("audit_living.py", "living_findings"): "of the whole store; tells ids only of tenants that the caller may read",
    ("audit_living.py", "_purged"): "of the whole store, for the above",
    ("holdings.py", "_look_at_parts"): "passes over each record that is not the tenant's",
    ("operator.py", "Operator.read"): _OF_THE_STORE,
    ("operator.py", "Operator._status"): _OF_THE_STORE,
    ("operator.py", "Operator.findings"): _OF_THE_STORE,
    ("operator.py", "Operator._partition_states"): "counts the partitions whose row says they are the tenant's",
    ("operator.py", "_usage"): "by the tenant's number",
    ("chain_happenings.py", "events_told"): _OF_ITS_MEMORY,
    ("chain_lineage.py", "supersession"): _OF_ITS_MEMORY,
    ("chain_produced.py", "proposals_told"): _OF_ITS_MEMORY,
    ("chain_produced.py", "_check_facts"): _OF_ITS_MEMORY,
    ("chain_produced.py", "_newest_added"): _OF_ITS_MEMORY,
    ("chain_tracing.py", "Tracing.require"): "only whether there is an entry at all, whosever it is",
    ("chain_tracing.py", "Tracing.record"): "compares the record's tenant itself, and counts what it passes over",
    ("once.py", "OnceReading.record_of_any"): _THE_VIEW,
    ("known.py", "KnownReading.record_of_any"): _THE_VIEW,
    ("known.py", "KnownReading.record_about"): _THE_VIEW,
    ("purges.py", "_one"): "the records behind one of ours, and the snapshot's own; each is asked whose it is",
    ("cohorts.py", "Planned.token"): _A_NUMBER,
    ("cohorts.py", "Planned._refs"): _MASKED,
    ("comparing.py", "_side"): _MASKED,
    ("downstream.py", "_made_from"): "by ids that are the tenants'; what it finds goes through `Reading.memories`",
    ("downstream.py", "_ours"): _MASKED,
    ("lineage.py", "_Walk.run"): "by ids that are the tenants'; what it finds goes through `Reading.memory`",
    ("proposals.py", "ids_newest_first"): "by the number of each of the tenants; `row_of` compares the row's own",
    ("records.py", "_Search.__init__"): "a record is admitted by its own tenant (`_Query.admits`)",
    ("records.py", "_Search._count"): "by the number of each of the tenants",
    ("records.py", "_Search._matches"): "a record is admitted by its own tenant (`_Query.admits`)",
    ("review.py", "Scan.edges"): _MASKED,
    ("review.py", "uncertain"): _MASKED,
    ("review.py", "flagged"): "the state is bound",
    ("selecting.py", "Selecting._those_in_time"): _MASKED,
    ("selecting.py", "Selecting._those_that_hold"): _MASKED,
    ("selecting.py", "Selecting._with_content"): _MASKED,
    ("selecting.py", "segments"): "by partitions that are the tenants'",
    ("daemon/cascading.py", "Going.__init__"): _BOUND_BEFORE,
    ("daemon/cascading.py", "Going._stands_outside"): _BOUND_BEFORE,
    ("daemon/erasing.py", "Plan.__init__"): _BOUND_BEFORE,
    ("daemon/erasing.py", "Plan._erase"): _BOUND_BEFORE,
    ("daemon/erasing.py", "Plan._event"): _BOUND_BEFORE,
    ("daemon/feed.py", "Feed.__init__"): "the head, and what frames are made of",
    ("daemon/feed.py", "Feed._frames"): "a record is sent by its own tenant (`Feed._is_wanted`)",
    ("daemon/feed.py", "_place"): "compares the chain at a place that the caller names",
    ("daemon/feed.py", "behind_damage"): "the number and the chain of a place, to go on from",
    ("daemon/feed.py", "subscribe"): "the head of the journal",
    ("daemon/looking.py", "_cohort"): _A_NUMBER,
    ("daemon/looking.py", "submit"): "makes the bound view (`reading`), and asks how large the projections are",
    ("daemon/looking.py", "submit_at_once"): "how large the projections are",
    ("daemon/purge_looking.py", "_token"): _A_NUMBER,
    ("daemon/purge_looking.py", "_resolved"): _A_NUMBER,
    ("daemon/service.py", "Service.__init__"): _OF_THE_STORE,
    ("daemon/service.py", "Service._with_changes_due"): "the daemon's own: it seals partitions whose day is over",
    ("daemon/vacuum.py", "Vacuum.was_answered"): "by a key of the tenant's",
    ("daemon/vacuum.py", "Vacuum._row"): "by the number of a partition of the tenant's",
    ("daemon/vacuum.py", "Vacuum._free_bytes"): "how many bytes are free",
    ("daemon/vacuum_looking.py", "Destroying.__init__"): "numbers of records",
    ("daemon/vacuum_looking.py", "Looking.row_bytes"): _OF_ITS_PARTITION,
    ("daemon/vacuum_looking.py", "Looking.left_of"): _OF_ITS_PARTITION,
    ("daemon/vacuum_looking.py", "Looking.slice"): _OF_ITS_PARTITION,
    ("daemon/vacuum_looking.py", "Looking.late"): _OF_ITS_PARTITION,
    (
        "daemon/vacuum_looking.py",
        "Looking.rest",
    ): "records of the tenant: `_take_destroyed` compares them",
    ("daemon/vacuum_looking.py", "Looking._take_destroyed"): "compares the record's tenant itself",
    ("daemon/vacuum_looking.py", "_There.__init__"): "keeps what `Looking` gives it",
    ("daemon/vacuum_looking.py", "_There.take"): "parts that the records of its tenant list",
    ("daemon/vacuum_looking.py", "Looking._listed"): _OF_ITS_PARTITION,
    ("daemon/vacuum_looking.py", "Looking._all_parts"): _OF_ITS_PARTITION,
    ("daemon/vacuum_looking.py", "Looking._there"): _OF_ITS_PARTITION,
    ("daemon/vacuum_looking.py", "Looking._record"): _OF_ITS_PARTITION,
}
"""`(file, where in it)`: why what is read there is nobody else's."""
VIEWS = frozenset({"reading.py", "view.py"})
"""What makes the bound view: that of questions, and that of commands."""
_FOLDS = "folds, copies or exchanges the projections as a whole; nothing of it is told"
OF_THE_DAEMON: dict[str, str] = {
    "admission.py": "writes what was decided through the view of commands",
    "backup.py": "copies the journal as a whole, for operators",
    "main.py": "opens the store",
    "metrics.py": "counts and sizes, without a tenant, an id or a word of anybody's",
    "opening.py": "opens the store",
    "rebuilding.py": _FOLDS,
    "repurging.py": "a restore, before anybody can ask",
    "scrubbing.py": _FOLDS,
    "supervising.py": "how large what is there is",
    "tending.py": _FOLDS,
    "vacuum_swap.py": _FOLDS,
    "writer.py": "makes the view of commands",
}
"""Files of the daemon itself in which nothing is read for a caller."""


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    if isinstance(node, ast.Call):
        return f"{dotted(node.func)}()"
    return node.id if isinstance(node, ast.Name) else ""


def is_unbound(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in UNBOUND or dotted(node) in LMDB or dotted(node).endswith((JOURNAL, "._log.env"))
    return isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in MADE_BY_HAND


def unbound_places(source: str) -> Iterator[str]:
    """Where in a file something is read that is not bound: the functions, outermost names first."""

    def visit(node: ast.AST, where: str) -> Iterator[str]:
        in_class = isinstance(node, ast.ClassDef)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{where}.{child.name}" if in_class else where or child.name
                yield from visit(child, inner)
                continue
            if is_unbound(child):
                yield where
            yield from visit(child, where)

    yield from visit(ast.parse(source), "")


def places() -> set[tuple[str, str]]:
    found = set()
    for room in ROOMS:
        for file in sorted((ROOT / room).glob("*.py")):
            if file.name not in VIEWS:
                found |= {(file.name, where) for where in unbound_places(file.read_text("utf-8"))}
    for file in sorted((ROOT / "daemon").glob("*.py")):
        if file.name not in VIEWS and file.name not in OF_THE_DAEMON:
            found |= {(f"daemon/{file.name}", where) for where in unbound_places(file.read_text("utf-8"))}
    return found


def test_nothing_goes_around_the_bound_view_but_what_is_named() -> None:
    beyond = places() - set(ALLOWED)
    assert not beyond, f"read through Reading or Building, or say here why it is nobody else's: {sorted(beyond)}"


def test_what_is_named_is_still_there() -> None:
    assert set(ALLOWED) - places() == set()
    assert all(len(why) > 10 for why in ALLOWED.values())
    for name in OF_THE_DAEMON:
        assert list(unbound_places((ROOT / "daemon" / name).read_text("utf-8"))), f"{name} reads nothing any more"


@pytest.mark.parametrize(
    "source",
    [
        "def f(reading):\n    return reading.snapshot.get('memories', b'')",
        "def f(reading):\n    return reading.store.log.get(None, 1)",
        "class A:\n    def f(self):\n        return State(self.x, 1, 2)",
        "def f(building):\n    return building.view._whole.memory(1)",
        "def f(service):\n    with service.projections.snapshot() as found:\n        return found",
        "def f(reading):\n    return reading.record_of_any(1)",
        "async def f(reading):\n    return [each for each in reading.scan().rows]",
        "def f(projections):\n    with projections.env.read() as txn:\n        return txn.get(b'a')",
        "def f(reading):\n    with reading.store.env.read() as txn:\n        return txn.get(b'a')",
        "def f(snapshot, x):\n    return Unchanged(snapshot, x, x).memory(1)",
        "import lmdb\ndef f(path):\n    return lmdb.open(path)",
        "import lmdb\ndef f(path):\n    return lmdb.Environment(path)",
        "def f(reading):\n    return reading._value_of(1)",
    ],
)
def test_each_way_around_it_is_found(source: str) -> None:
    assert list(unbound_places(source))


def test_what_is_bound_is_not() -> None:
    source = (
        "def f(reading, building):\n    reading.state.get('a', b'')\n    building.view.record(1)\n    reading.memory(1)"
    )
    assert not list(unbound_places(source))
