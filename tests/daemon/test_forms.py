"""The forms of strings: what a request is refused for, wherever in it the string stands."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.wire.forms import AGENT_PATTERN, NOT_BLANK_PATTERN, STAMP_PATTERN, TIME_PATTERN, fault_in
from daemon.wire.params import ProducerIn, RememberItem, SessionKeyIn
from daemon.wire.request import Rejected, decode_request

BLANK = " \t\u2003"
WHERE: list[tuple[dict[str, Any], str]] = [
    ({"text": BLANK}, "text"),
    ({"topic": BLANK}, "topic"),
    ({"tags": ["a", BLANK]}, "tags"),
    ({"entities": [{"name": "n", "type": "x"}, {"name": BLANK, "type": "x"}]}, "entities.name"),
    ({"facts": [{"subject": "s", "predicate": "p", "value": "v", "valid_to": "2026-01-01"}]}, "facts.valid_to"),
    ({"producer": {"model": "LATEST"}}, "producer.model"),
    ({"producer": {"agent": "two words"}}, "producer.agent"),
    ({"session": {"agent": "two words", "key": "k"}}, "session.agent"),
    ({"session": {"agent": "a", "key": BLANK}}, "session.key"),
    ({"derived_from": ["raw:0000000000000", {"kind": "url", "id": BLANK}]}, "derived_from.id"),
    ({"occurred_at": "2026-01-01T00:00:00"}, "occurred_at"),
    ({"occurred_at": "2026-01-01T00:00:00.1234Z"}, "occurred_at"),
    ({"imported": {"format": "f", "foreign_id": BLANK}}, "imported.foreign_id"),
]


@pytest.mark.parametrize(("given_params", "parameter"), WHERE, ids=[where for _, where in WHERE])
def test_a_string_without_its_form_is_named_by_its_parameter(given_params: dict[str, Any], parameter: str) -> None:
    params = {"kind": "raw", "text": "t", "role": "user", **given_params}
    for method, inner in (("remember", params), ("remember_many", {"items": [{**params, **given_params}]})):
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": inner}).encode()
        with pytest.raises(Rejected) as rejected:
            decode_request(line)
        assert rejected.value.refused.reason.wire == "invalid_input"
        assert rejected.value.refused.data["parameter"] == parameter
        assert rejected.value.refused.data.get("index") == (0 if method == "remember_many" else None)


def holds(params: Any) -> bool:
    return fault_in(params) is None


@given(st.one_of(st.text(max_size=8), st.text(st.sampled_from(" \t\n\x1c\x85\u2028a"), max_size=4)))
def test_what_is_taken_matches_the_pattern_in_the_schema(text: str) -> None:
    assert holds(RememberItem(kind="raw", text=text)) == bool(re.search(NOT_BLANK_PATTERN, text))
    agent = bool(re.fullmatch(AGENT_PATTERN.removesuffix("$"), text))
    assert holds(RememberItem(kind="raw", text="t", session=SessionKeyIn(agent=text, key="k"))) == agent
    if holds(RememberItem(kind="raw", text="t", producer=ProducerIn(model=text))):
        assert re.fullmatch(STAMP_PATTERN.removesuffix("$"), text)


@given(st.from_regex(TIME_PATTERN, fullmatch=True))
def test_every_time_of_the_pattern_is_taken(time: str) -> None:
    assert holds(RememberItem(kind="raw", text="t", occurred_at=time.rstrip("\n")))
    assert not holds(RememberItem(kind="raw", text="t", occurred_at=f"{time} "))
