"""The configuration is read again while requests wait: what was asked before is done and told as its caller may now."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.asking import Asking
from daemon.call import Call, Outcome
from daemon.caller import Caller
from daemon.peers import Credentials, PeerEntry, Peers
from daemon.refusal import Reason, Refused
from daemon.rights import Rights
from daemon.wire.verbs import VERBS
from journal.codes import CallerRole, Via
from tests.daemon.told import Told
from tests.model.opened import OPERATOR

UID = 4_321
TURN = {"kind": "raw", "origin": "stated", "text": "a"}


def entry(role: CallerRole = CallerRole.AGENT, tenant: str = "default", **more: Any) -> PeerEntry:
    return PeerEntry(role=role, tenant=tenant, uid=UID, **more)


@pytest.fixture
def peers() -> Peers:
    return Peers((entry(writes=frozenset({"library"}), reads=frozenset({"library"})),))


def caller_and_rights(peers: Peers) -> tuple[Caller, Rights]:
    credentials = Credentials(UID, frozenset())
    caller = peers.caller(credentials, Via.CLIENT)
    assert caller is not None
    return caller, Rights(peers, credentials, peers.generation)


class Held(Told):
    """Its writer can be held up, so that what is asked waits in the queue."""

    def asked(self, verb: str, params: dict[str, Any], caller: Caller, rights: Rights) -> None:
        typed = msgspec.convert(params, VERBS[verb].params)
        self.service.submit(Call(verb, typed, caller, lambda outcome: None, rights=rights))

    def answer(self) -> Outcome:
        return self._answers.get(timeout=30)[1]

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """The writer takes nothing meanwhile."""
        entered, go_on = threading.Event(), threading.Event()

        def hold() -> None:
            entered.set()
            go_on.wait(30)

        waiting = threading.Thread(target=self.service.writer.between, args=(hold,))
        waiting.start()
        assert entered.wait(30)
        try:
            yield
        finally:
            go_on.set()
            waiting.join()


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    opened = Held(tmp_path / "state")
    yield opened
    opened.close(True)


CHANGES: list[tuple[tuple[PeerEntry, ...], Reason | None]] = [
    ((entry(CallerRole.AUDITOR),), Reason.DENIED),
    ((PeerEntry(role=CallerRole.AGENT, tenant="default", uid=1),), Reason.DENIED),
    ((entry(tenant="elsewhere"),), Reason.NOT_FOUND),
    ((entry(tenant="elsewhere", writes=frozenset({"default", "library"})),), None),
    ((entry(CallerRole.OPERATOR),), None),
]


@pytest.mark.parametrize("verb", ["remember", "remember_many"])
@pytest.mark.parametrize(("entries", "reason"), CHANGES)
def test_a_write_that_waits_is_done_only_for_who_may_it_now(
    held: Held, peers: Peers, entries: tuple[PeerEntry, ...], reason: Reason | None, verb: str
) -> None:
    caller, rights = caller_and_rights(peers)
    with held.held_up():
        held.asked(verb, TURN if verb == "remember" else {"items": [TURN], "atomic": False}, caller, rights)
        peers.replace(entries)
        head = held.store.log.head()
    answer = held.answer()
    if reason is None:
        assert not isinstance(answer, Refused) and held.store.log.head().seq > head.seq
        return
    assert isinstance(answer, Refused) and answer.reason is reason
    assert held.store.log.head() == head


GRANTED = entry(grants=frozenset({"purge"}))
PURGES: list[tuple[PeerEntry, PeerEntry, dict[str, Any], Reason | None]] = [
    (GRANTED, entry(), {}, Reason.DENIED),
    (GRANTED, entry(), {"cascade": "derived"}, Reason.DENIED),
    (GRANTED, GRANTED, {"cascade": "derived"}, None),
    (GRANTED, entry(CallerRole.OPERATOR), {}, None),
    (entry(CallerRole.OPERATOR), entry(), {}, Reason.DENIED),
    (entry(CallerRole.OPERATOR), entry(), {"cascade": "derived"}, Reason.DENIED),
    (entry(CallerRole.OPERATOR), GRANTED, {"cascade": "derived"}, None),
    (entry(CallerRole.OPERATOR), GRANTED, {"sel": {"kinds": ["raw"]}}, Reason.DENIED),
    (entry(CallerRole.OPERATOR), entry(CallerRole.AUDITOR), {}, Reason.DENIED),
]


@pytest.mark.parametrize(("before", "after", "more", "reason"), PURGES)
def test_a_purge_that_waits_is_carried_out_only_with_the_grant_of_now(
    held: Held, peers: Peers, before: PeerEntry, after: PeerEntry, more: dict[str, Any], reason: Reason | None
) -> None:
    ref = held.raw("gone")
    peers.replace((before,))
    caller, rights = caller_and_rights(peers)
    asked = dict(more)
    if "sel" in asked:
        asked["token"] = held.write("purge", asked)["token"]
    else:
        asked["ids"] = [ref]
    with held.held_up():
        held.asked("purge", asked, caller, rights)
        peers.replace((after,))
        head = held.store.log.head()
    answer = held.answer()
    if reason is None:
        assert not isinstance(answer, Refused) and held.memory(ref)["status"] == "purged"
        return
    assert isinstance(answer, Refused) and answer.reason is reason
    assert held.store.log.head() == head and held.memory(ref)["status"] == "active"


def compactable(held: Held) -> None:
    for text in ("one", "two"):
        held.do("forget", held.raw(text))


def vacuumed(held: Held, rights: Rights, caller: Caller, on_step: Callable[[], None], **params: Any) -> Call:
    def step(phase: str, done: int, of: int) -> None:
        on_step()

    typed = msgspec.convert(params, VERBS["vacuum"].params)
    asking = Asking(lambda: False, step)
    call = Call("vacuum", typed, caller, lambda outcome: None, asking=asking, rights=rights)
    held.service.submit(call)
    return call


@pytest.mark.parametrize("entries", [(entry(),), (entry(CallerRole.AUDITOR),), ()])
@pytest.mark.parametrize("when", ["before it begins", "between"])
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_vacuum_goes_on_only_for_who_may_it_now(
    held: Held, peers: Peers, entries: tuple[PeerEntry, ...], when: str, dry_run: bool
) -> None:
    compactable(held)
    peers.replace((entry(CallerRole.OPERATOR),))
    caller, rights = caller_and_rights(peers)
    if when != "between":
        peers.replace(entries)
    head, before = held.store.log.head(), held.read("partitions", {})
    with pytest.raises(Refused) as caught:
        vacuumed(held, rights, caller, lambda: peers.replace(entries), force=True, dry_run=dry_run)
    assert caught.value.reason is Reason.DENIED and held._answers.empty()
    assert held.store.log.head() == head and held.read("partitions", {}) == before


def test_what_a_vacuum_counted_is_not_told_to_who_is_an_operator_of_another_tenant_by_now(
    held: Held, peers: Peers
) -> None:
    compactable(held)
    peers.replace((entry(CallerRole.OPERATOR),))
    caller, rights = caller_and_rights(peers)
    elsewhere = (entry(CallerRole.OPERATOR, "elsewhere"),)
    with pytest.raises(Refused) as caught:
        vacuumed(held, rights, caller, lambda: peers.replace(elsewhere), dry_run=True)
    assert caught.value.reason is Reason.UNAVAILABLE and held._answers.empty()


def test_a_vacuum_of_who_may_it_still_is_done(held: Held, peers: Peers) -> None:
    compactable(held)
    peers.replace((entry(CallerRole.OPERATOR),))
    caller, rights = caller_and_rights(peers)
    same = (entry(CallerRole.OPERATOR),)
    vacuumed(held, rights, caller, lambda: peers.replace(same), force=True)
    answer: Any = held.answer()
    assert [result.compacted for result in answer.results] == [True]


def test_who_has_another_role_by_now_stands_in_the_record_so(held: Held, peers: Peers) -> None:
    caller, rights = caller_and_rights(peers)
    peers.replace((entry(CallerRole.OPERATOR, "elsewhere"),))
    held.asked("remember", TURN, caller, rights)
    held.answer()
    records = [record for chunk in held.store.log.chunks() for record in chunk if record.tenant]
    assert {record.actor.role for record in records} == {CallerRole.OPERATOR}
    assert type(records[-1].event).__name__ == "OperatorCrossed"


def test_a_shared_tenant_that_is_shared_no_more_is_not_written(held: Held, peers: Peers) -> None:
    caller, rights = caller_and_rights(peers)
    peers.replace((entry(),))
    held.asked("remember", {**TURN, "tenant": "library"}, caller, rights)
    answer = held.answer()
    assert isinstance(answer, Refused) and answer.reason is Reason.NOT_FOUND


def test_the_same_entries_read_again_change_nothing(held: Held, peers: Peers) -> None:
    caller, rights = caller_and_rights(peers)
    peers.replace((entry(writes=frozenset({"library"}), reads=frozenset({"library"})),))
    held.asked("remember", TURN, caller, rights)
    assert not isinstance(held.answer(), Refused)
    rights.may_be_told(caller, VERBS["list"], msgspec.convert({}, VERBS["list"].params))


@pytest.mark.parametrize(
    ("entries", "params", "reason"),
    [
        ((entry(CallerRole.AUDITOR),), {}, Reason.DENIED),
        ((entry(),), {"tenant": "library"}, Reason.NOT_FOUND),
        ((entry(),), {}, Reason.UNAVAILABLE),
        ((entry(tenant="elsewhere"),), {}, Reason.UNAVAILABLE),
        ((PeerEntry(role=CallerRole.AGENT, tenant="default", uid=1),), {}, Reason.DENIED),
    ],
)
def test_what_was_found_is_told_only_to_who_may_see_it_now(
    peers: Peers, entries: tuple[PeerEntry, ...], params: dict[str, Any], reason: Reason
) -> None:
    caller, rights = caller_and_rights(peers)
    peers.replace(entries)
    with pytest.raises(Refused) as caught:
        rights.may_be_told(caller, VERBS["review"], msgspec.convert(params, VERBS["review"].params))
    assert caught.value.reason is reason


class WithdrawnAfter:
    """Rights that are withdrawn when they were asked for so often."""

    def __init__(self, times: int) -> None:
        self.left = times

    def may_write(self, was: Caller, *asked: Any) -> Caller:
        self.may_be_told(was)
        return was

    def may_be_told(self, *asked: Any) -> None:
        self.left -= 1
        if self.left < 0:
            raise Refused(Reason.DENIED, "not any more")


@pytest.mark.parametrize("times", [0, 1, 2])
@pytest.mark.parametrize("action", ["quarantine", "compare"])
def test_what_a_selection_finds_is_looked_for_and_told_only_to_who_may_it_now(
    held: Held, times: int, action: str
) -> None:
    held.write("remember", TURN)
    sel = {"kinds": ["raw"]}
    params: dict[str, Any] = {"sel": sel, "action": action, **({"with": sel} if action == "compare" else {})}
    rights: Any = WithdrawnAfter(times)
    call = Call("cohort", msgspec.convert(params, VERBS["cohort"].params), OPERATOR, lambda outcome: None)
    if times < 2:
        with pytest.raises(Refused) as caught:
            held.service.submit(call._replace(rights=rights))
        assert caught.value.reason is Reason.DENIED and held._answers.empty()
        return
    held.service.submit(call._replace(rights=rights))
    assert not isinstance(held.answer(), Refused)
    assert rights.left == 0
