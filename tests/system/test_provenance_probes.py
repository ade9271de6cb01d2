"""The evaluation of provenance chains: two tenants, one scenario, exact label sets (P1 to P28).

`provenance_chain_recall` and `provenance_chain_precision` count every row of every section of every probe, and must be
1.0; `provenance_foreign_ids` counts ids of the other tenant anywhere in a chain, and must be 0. Measured live, after
everything was folded anew from the journal, and after a kill in the middle of a batch; the chains are the same bytes.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import noctuary
from tests.system.probing import TENANTS, Labels, all_chains, chain_bytes, frames, measure, references, seed
from tests.system.process import DaemonProcess
from tests.system.provenance_probes.probes import PROBES
from tests.system.provenance_probes.scenario import scenario as operations
from tests.system.raw_client import RawClient, request

BATCH = 400
BATCHES = 40


class Scenario(NamedTuple):
    """A stopped store with the scenario in it, its labels, the chains as they were told while it was written, and the
    records of the first tenant."""

    state: Path
    labels: dict[str, Labels]
    chains: dict[str, bytes]
    records: list[dict[str, Any]]


@pytest.fixture(scope="module")
def scenario() -> Iterator[Scenario]:
    with tempfile.TemporaryDirectory(prefix="noctuary-") as name:
        daemon = DaemonProcess(Path(name))
        try:
            daemon.start()
            labels = seed(daemon)
            chains = all_chains(daemon, labels)
            assert all_chains(daemon, labels, wide=True) == chains, "no question is answered from both at once"
            records = list(frames(daemon, "a"))
            assert daemon.stop() == 0, daemon.logged()[-2000:]
            yield Scenario(daemon.state, labels, chains, records)
        finally:
            daemon.close()


@pytest.fixture
def served(scenario: Scenario, stopped: DaemonProcess) -> DaemonProcess:
    """A daemon on a copy of the scenario's store, not started yet."""
    shutil.copytree(scenario.state, stopped.state)
    return stopped


def assert_exact(chains: dict[str, bytes], labels: dict[str, Labels]) -> None:
    for tenant in TENANTS:
        measured = measure(chains, labels, tenant)
        assert measured.wrong == [], "\n".join(measured.wrong)
        assert (measured.recall, measured.precision, len(measured.foreign)) == (1.0, 1.0, 0), measured
        assert measured.expected > 250, "the probes ask for next to nothing"


def test_each_probe_is_numbered_as_in_the_plan_and_all_are_asked() -> None:
    asked = {int(probe.name.split()[0][1:]) for probe in PROBES}
    assert asked | {23, 25, 26} == set(range(1, 29)) and asked & {23, 25, 26} == set()


def test_chains_are_exact_and_name_nothing_of_the_other_tenant(scenario: Scenario) -> None:
    """Also P25: the other tenant wrote the same, and its chains tell the same of its own."""
    assert_exact(scenario.chains, scenario.labels)
    ours, theirs = (scenario.labels[tenant] for tenant in TENANTS)
    assert not ours.own & theirs.own and set(ours.ids) == set(theirs.ids) and len(ours.ids) > 350


def test_the_measure_sees_a_row_that_is_missing_one_too_many_and_a_foreign_id(scenario: Scenario) -> None:
    """A measure that can't fail measures nothing."""
    ours, theirs = (scenario.labels[tenant] for tenant in TENANTS)
    ref = ours.ids["five.v3"]
    chain = json.loads(scenario.chains[ref])
    told = chain["supersession"]["predecessors"]
    (row, _) = told
    for spoilt, recall, precision, foreign in (
        (told[:1], False, True, 0),
        ([*told, row], True, False, 0),
        ([{**row, "id": theirs.ids["five.v2"]}, *told[1:]], False, False, 1),
    ):
        chain["supersession"]["predecessors"] = spoilt
        measured = measure({**scenario.chains, ref: json.dumps(chain).encode()}, scenario.labels, "a")
        found = (measured.recall == 1.0, measured.precision == 1.0, len(measured.foreign))
        assert found == (recall, precision, foreign)


def test_no_chain_tells_any_words_but_topics(scenario: Scenario) -> None:
    """Texts, the words of facts, what an import brought: none of it, however it is written; topics are told."""
    told = b"".join(scenario.chains.values()).decode().casefold()
    said = {word for op in operations() for word in words(op.params)}
    assert len(said) > 100 and {"dark green", "tea, not coffee", "by another program", "row 17"} <= said
    assert [word for word in said if word.casefold() in told] == []
    assert '"topic":"five.v1"' in told


def words(params: Any) -> Iterator[str]:
    """What is said in them beside topics, references, and words of the protocol."""
    if isinstance(params, list):
        for each in params:
            yield from words(each)
    if not isinstance(params, dict):
        return
    for name, value in params.items():
        if isinstance(value, str) and name in {"text", "subject", "predicate", "value", "created", "foreign_id", "key"}:
            yield value
        elif name != "fields":
            yield from words(value)


def test_folded_anew_from_the_journal_chains_are_the_same_bytes(scenario: Scenario, served: DaemonProcess) -> None:
    shutil.rmtree(served.state / "projections")
    served.start()
    chains = all_chains(served, scenario.labels)
    assert chains == scenario.chains
    assert_exact(chains, scenario.labels)


def test_killed_in_the_middle_of_batches_chains_are_the_same_bytes(scenario: Scenario, served: DaemonProcess) -> None:
    """What was answered before is told as it was, byte for byte, and so are its records (T8); of the batches under way
    each is there as a whole or not at all."""
    served.start()
    source = scenario.labels["a"].ids["turn"]
    item = {"kind": "note", "origin": "inferred", "text": "under way", "derived_from": [source]}
    acked: list[list[str]] = []
    with RawClient(served.socket) as client:
        sending = threading.Thread(target=_send_all, args=(client, item))
        sending.start()
        acked.append([each["id"] for each in client.answer()["result"]["results"]])
        served.kill()
        with suppress(ConnectionError):  # it was killed while it wrote
            while (line := client.line()).endswith(b"\n"):
                acked.append([each["id"] for each in json.loads(line)["result"]["results"]])
        sending.join()
    assert len(acked) < BATCHES, "nothing was under way when it was killed"
    served.start()
    chains = all_chains(served, scenario.labels)
    assert chains == scenario.chains
    assert_exact(chains, scenario.labels)
    records = list(frames(served, "a"))
    assert records[: len(scenario.records)] == scenario.records, "what was written is never written again"
    written = [
        frame["event"]["id"] for frame in records
        if frame["type"] == "memory_created" and frame["cause"]["verb"] == "remember_many"
    ]  # fmt: skip
    assert len(written) % BATCH == 0 and {ref for batch in acked for ref in batch} <= set(written)
    last = written[-1]
    before = chain_bytes(served, [last], tenant="a")
    assert [event["event_kind"] for event in json.loads(before[last])["events"]["items"]] == ["create"]
    shutil.rmtree(_stopped(served) / "projections")
    served.start()
    assert chain_bytes(served, [last], tenant="a") == before and all_chains(served, scenario.labels) == scenario.chains


def _send_all(client: RawClient, item: dict[str, Any]) -> None:
    with suppress(ConnectionError):  # it is killed meanwhile
        for number in range(BATCHES):
            client.send(request("remember_many", number, items=[item] * BATCH, tenant="a"))


def _stopped(daemon: DaemonProcess) -> Path:
    assert daemon.stop() == 0
    return daemon.state


def test_foreign_unknown_and_lower_case_ids(scenario: Scenario, served: DaemonProcess) -> None:
    """P23. Where we differ: references are upper case, so that what differs in case is lower case here; and a
    reference names a kind, which is a word and has one case."""
    served.start()
    ours, theirs = (scenario.labels[tenant].ids["five.v3"] for tenant in TENANTS)
    kind, _, tsid = ours.partition(":")
    unknown = f"{kind}:0000000000001"
    asked = [theirs, unknown, f"{kind}:{tsid.lower()}", ours]
    found = served.call("get", ids=asked, include=["provenance"], tenant="a")
    assert found["not_found"] == [theirs, unknown]
    assert [memory["id"] for memory in found["memories"]] == [ours]
    assert found["memories"][0]["provenance"] == json.loads(scenario.chains[ours])


def test_five_of_ones_own_are_answered_in_order_and_six_are_too_many(scenario: Scenario, served: DaemonProcess) -> None:
    """P26."""
    served.start()
    refs = [scenario.labels["a"].ids[f"five.v{number}"] for number in (3, 1, 5, 2, 4)]
    found = served.call("get", ids=refs, include=["provenance"], tenant="a")
    assert [memory["id"] for memory in found["memories"]] == refs and found["not_found"] == []
    assert all(set(references(memory["provenance"])) <= scenario.labels["a"].own for memory in found["memories"])
    with pytest.raises(noctuary.InvalidInput) as refused:
        served.call("get", ids=[*refs, refs[0]], include=["provenance"], tenant="a")
    assert refused.value.data["limit"] == 5
