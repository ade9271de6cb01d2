"""What `describe` tells of a result is all of it, and what the daemon answers fits it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from daemon.wire.schema import INSIDE, schemas_of
from daemon.wire.verbs import VERBS

ANY_OBJECT = {
    ("DescribeResult", "params"), ("DescribeResult", "result"),  # JSON Schemas themselves
    ("ItemError", "data"), ("Frame", "event"), ("Memory", "metadata"),
}  # fmt: skip
"""Objects that are open by contract: what they hold depends on the error, the event, the writer."""


def options_of(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The alternatives of a field, and those of its items."""
    for option in schema.get("anyOf", [schema]):
        yield {name: value for name, value in option.items() if name not in ("default", "description")}
        if option.get("type") == "array" and option.get("items"):
            yield from options_of(option["items"])


def is_open(option: dict[str, Any]) -> bool:
    if not option:
        return True
    if option.get("type") == "array":
        return not option.get("items")
    return option.get("type") == "object" and not option.get("additionalProperties")


@pytest.mark.parametrize("verb", VERBS)
def test_no_result_has_a_list_of_anything_or_a_struct_that_is_not_told(verb: str) -> None:
    defs = schemas_of(verb)["result"]["$defs"]
    found = {
        (name, field)
        for name, struct in defs.items()
        for field, schema in struct.get("properties", {}).items()
        if any(is_open(option) for option in options_of(schema))
    }
    assert found <= ANY_OBJECT


@pytest.mark.parametrize("verb", VERBS)
def test_every_reference_of_a_schema_leads_somewhere(verb: str) -> None:
    def refs(told: Any) -> Iterator[str]:
        if isinstance(told, list):
            for item in told:
                yield from refs(item)
        elif isinstance(told, dict):
            for name, item in told.items():
                if name == "$ref":
                    yield item
                else:
                    yield from refs(item)

    for told in schemas_of(verb).values():
        assert {ref.rpartition("/")[2] for ref in refs(told)} <= told["$defs"].keys()


def test_get_tells_of_all_forms_of_a_memory_and_of_its_chain() -> None:
    defs = schemas_of("get")["result"]["$defs"]
    items = defs["GetResult"]["properties"]["memories"]["items"]["anyOf"]
    assert [item["$ref"].rpartition("/")[2] for item in items] == ["Memory", "PurgedMemory", "DamagedMemory"]
    for form in ("Memory", "PurgedMemory", "DamagedMemory"):
        assert defs[form]["properties"]["provenance"]["$ref"] == "#/$defs/Chain"
        assert "provenance" not in defs[form].get("required", ())
    assert "edge_created_at" in defs["ChainVersion"]["properties"]


def test_what_is_said_of_open_fields_names_fields_that_exist() -> None:
    told: dict[str, Any] = {}
    for verb in VERBS:
        told |= schemas_of(verb)["result"]["$defs"]
    for struct, field in INSIDE:
        assert field in told[struct]["properties"]
