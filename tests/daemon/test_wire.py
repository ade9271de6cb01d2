"""The wire types say what the codes and the contract say."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from daemon.wire import vocabulary as words
from daemon.wire.params import AnyParams, ReadParams
from daemon.wire.verbs import VERBS
from journal import codes

ABOUT_THE_STORE = {"cancel", "rebuild", "backup", "residue"}
"""Neither a write nor a question about tenants."""


@pytest.mark.parametrize(
    ("literal", "codes_", "without"),
    [
        (words.KindWord, codes.Kind, set()),
        (words.OriginWord, codes.Origin, set()),
        (words.RoleWord, codes.Role, {"none"}),
        (words.StatusWord, codes.Status, set()),
        (words.ExternalWord, codes.ExternalKind, set()),
        (words.ViaWord, codes.Via, {"relay", "daemon"}),
        (words.TenantStateWord, codes.TenantState, set()),
    ],
)
def test_words_are_those_of_the_codes(literal: Any, codes_: Any, without: set[str]) -> None:
    assert list(get_args(literal)) == [code.wire for code in codes_ if code.wire not in without]


@pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))
def test_every_verb_has_a_schema_and_the_common_parameters(verb: Any) -> None:
    msgspec.json.schema(verb.result)
    schema = msgspec.json.schema(verb.params)
    properties = schema["$defs"][verb.params.__name__]["properties"]
    assert {"tenant", "correlation", "progress"} <= properties.keys()
    assert ("idempotency_key" in properties) == verb.writes
    reads = not verb.writes and verb.name not in ABOUT_THE_STORE
    assert ("tenants" in properties) == reads
    if issubclass(verb.params, AnyParams):
        assert issubclass(verb.params, ReadParams) == reads
