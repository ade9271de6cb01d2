"""Which versions a chain tells: the rule of `daemon/reads/chain_walk.py`, by hand and against a plain reading of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb
import pytest

from daemon.reads import chain_walk
from daemon.reads.chain_walk import Walked, walk
from projections import rows
from projections.revisions import KEY, VALUE, Towards

EDGES = 50
BUDGET = 24
Edge = tuple[int, int, int]  # (successor, predecessor, edge id)
ROOT = 500


@contextmanager
def kept(directory: Path, edges: list[Edge]) -> Iterator[lmdb.Cursor]:
    """A cursor over these edges as `revisions` has them."""
    with lmdb.open(str(directory), max_dbs=1, map_size=1 << 26) as env:
        database = env.open_db(b"revisions")
        with env.begin(write=True) as txn:
            txn.drop(database, delete=False)
            for successor, predecessor, edge in edges:
                for near, side, far in (
                    (successor, Towards.PREDECESSORS, predecessor),
                    (predecessor, Towards.SUCCESSORS, successor),
                ):
                    key = KEY.pack(near, side, far, edge)
                    txn.put(key, rows.seal_row(key, VALUE.pack(3, 2, edge)), db=database)
        with env.begin() as txn, txn.cursor(db=database) as cursor:
            yield cursor


def found(cursor: lmdb.Cursor, root: int = ROOT, foreign: frozenset[int] = frozenset()) -> Walked:
    return walk(cursor, root, lambda tsid: tsid not in foreign, BUDGET, EDGES)


def brief(walked: Walked) -> list[tuple[str, int, int, int]]:
    """(side, depth, memory, edge) of each row."""
    return [(row.side.name[:4].lower(), row.depth, row.tsid, row.edge.edge) for row in walked.versions]


def chain(count: int) -> list[Edge]:
    """Versions 1 to `count`, each the successor of the one before."""
    return [(number + 1, number, 1000 + number) for number in range(1, count)]


def test_the_first_of_27_versions_has_its_24_successors_and_says_that_there_are_more(tmp_path: Path) -> None:
    with kept(tmp_path, chain(27)) as cursor:
        walked = found(cursor, 1)
    assert brief(walked) == [("succ", depth, 1 + depth, 1000 + depth) for depth in range(1, 25)]
    assert walked.truncated


def test_exactly_25_versions_are_all_told_and_nothing_is_truncated(tmp_path: Path) -> None:
    with kept(tmp_path, chain(25)) as cursor:
        for root in (1, 13, 25):
            walked = found(cursor, root)
            assert len(walked.versions) == 24 and not walked.truncated


def test_the_middle_of_27_versions_has_the_nearest_twelve_on_each_side(tmp_path: Path) -> None:
    with kept(tmp_path, chain(27)) as cursor:
        walked = found(cursor, 14)
    assert [(row.side, row.depth) for row in walked.versions] == [
        (side, depth) for depth in range(1, 13) for side in Towards
    ]
    assert walked.truncated


def test_a_shared_predecessor_stands_once_for_each_edge_to_it(tmp_path: Path) -> None:
    edges = [(ROOT, 20, 1), (ROOT, 30, 2), (20, 10, 3), (30, 10, 4), (20, 10, 5)]
    with kept(tmp_path, edges) as cursor:
        assert brief(found(cursor)) == [
            ("pred", 1, 20, 1), ("pred", 1, 30, 2), ("pred", 2, 10, 3), ("pred", 2, 10, 4), ("pred", 2, 10, 5),
        ]  # fmt: skip
        assert not found(cursor).truncated


def test_a_cycle_ends_without_a_row_for_the_traced_memory(tmp_path: Path) -> None:
    with kept(tmp_path, [(ROOT, 9, 1), (9, ROOT, 2)]) as cursor:
        assert brief(found(cursor)) == [("pred", 1, 9, 1)]
    with kept(tmp_path, [(ROOT, 7, 1), (7, 8, 2), (8, 9, 3), (9, ROOT, 4)]) as cursor:
        assert brief(found(cursor)) == [("pred", 1, 7, 1), ("succ", 1, 9, 4), ("pred", 2, 8, 2)]


def test_what_lies_behind_a_memory_that_both_walks_reach_is_found_in_both(tmp_path: Path) -> None:
    with kept(tmp_path, [(ROOT, 9, 1), (9, ROOT, 2), (9, 3, 3), (12, 9, 4)]) as cursor:
        assert brief(found(cursor)) == [("pred", 1, 9, 1), ("pred", 2, 3, 3), ("succ", 2, 12, 4)]


def test_at_one_depth_lower_ids_come_first_whichever_side_they_are_on(tmp_path: Path) -> None:
    edges = [(ROOT, 600 + number, number) for number in range(20)] + [(400 + n, ROOT, 100 + n) for n in range(20)]
    with kept(tmp_path, edges) as cursor:
        walked = found(cursor)
    assert [row.tsid for row in walked.versions] == [*range(400, 420), *range(600, 604)]
    assert walked.truncated


def test_fifty_edges_are_told_by_depth_version_and_edge(tmp_path: Path) -> None:
    edges = [(ROOT, far, 100 * far + number) for far in (3, 2, 1) for number in range(20)]
    with kept(tmp_path, edges) as cursor:
        walked = found(cursor)
        assert [row.edge.edge for row in walked.versions] == sorted(edge for _, _, edge in edges)[:50]
        assert walked.truncated
    with kept(tmp_path, edges[:50]) as cursor:
        assert len(found(cursor).versions) == 50 and not found(cursor).truncated


def test_what_is_not_the_tenants_is_neither_told_nor_walked_through_nor_counted(tmp_path: Path) -> None:
    with kept(tmp_path, [(ROOT, 9, 1), (9, 8, 2), *((ROOT, far, far) for far in range(10, 34))]) as cursor:
        walked = found(cursor, foreign=frozenset({9}))
    assert [row.tsid for row in walked.versions] == list(range(10, 34))
    assert not walked.truncated


def test_no_more_of_an_index_is_looked_at_than_the_budget_asks_for(tmp_path: Path) -> None:
    asked: list[int] = []

    def ours(tsid: int) -> bool:
        asked.append(tsid)
        return True

    with kept(tmp_path, [(ROOT, far, far) for far in range(1000, 3000)]) as cursor:
        walk(cursor, ROOT, ours, BUDGET, EDGES)
    assert asked == list(range(1000, 1000 + BUDGET + 1))


def plainly(edges: list[Edge], root: int, budget: int, most: int) -> tuple[list[tuple[str, int, int, int]], bool]:
    """The rule as it is written down, without regard to cost."""
    reached, taken, truncated = plainly_taken(edges, root, budget)
    told: dict[int, tuple[int, int, int, Towards]] = {}
    for side, near, far, edge in both_ways(edges):
        if near in reached[side] and far in taken and taken[far][0] is side:
            row = (taken[far][1], far, edge, side)
            told[edge] = min(told.get(edge, row), row)
    ordered = [(side.name[:4].lower(), depth, far, edge) for depth, far, edge, side in sorted(told.values())]
    return ordered[:most], truncated or len(ordered) > most


def plainly_taken(
    edges: list[Edge], root: int, budget: int
) -> tuple[dict[Towards, dict[int, int]], dict[int, tuple[Towards, int]], bool]:
    reached = {side: {root: 0} for side in Towards}
    taken: dict[int, tuple[Towards, int]] = {}
    for depth in range(1, len(edges) + 2):
        level = {
            (far, side)
            for side, near, far, _ in both_ways(edges)
            if reached[side].get(near) == depth - 1 and far not in reached[side]
        }
        for far, side in sorted(level):
            if far not in taken and len(taken) == budget:
                return reached, taken, True
            taken.setdefault(far, (side, depth))
            reached[side][far] = depth
    return reached, taken, False


def both_ways(edges: list[Edge]) -> Iterator[tuple[Towards, int, int, int]]:
    for successor, predecessor, edge in edges:
        yield Towards.PREDECESSORS, successor, predecessor, edge
        yield Towards.SUCCESSORS, predecessor, successor, edge


@pytest.mark.parametrize("few", [chain_walk.FEW, 0])
@pytest.mark.parametrize("seed", range(40))
def test_any_graph_is_told_as_the_rule_says(
    tmp_path: Path, seed: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether edges are looked up all at once, or only where they are wanted."""
    monkeypatch.setattr(chain_walk, "FEW", few)
    chooser = random.Random(seed)
    memories = chooser.sample(range(1, 1000), chooser.choice((3, 8, 20, 60)))
    edges = [
        (*pair, edge)
        for edge in range(1, chooser.choice((4, 30, 120)))
        if (pair := (chooser.choice(memories), chooser.choice(memories)))[0] != pair[1]
    ]
    with kept(tmp_path, edges) as cursor:
        for root in memories[:3]:
            walked = walk(cursor, root, lambda tsid: True, 12, 25)
            assert (brief(walked), walked.truncated) == plainly(edges, root, 12, 25)
