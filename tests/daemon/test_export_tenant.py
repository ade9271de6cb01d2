"""An export of one tenant ends well only when it is all that the tenant has."""

from __future__ import annotations

import base64

import msgspec
import pytest

from daemon.cli.arguments import Usage
from daemon.cli.export_tenant import held_offline, whole
from journal.errors import DamagedStore
from journal.exporting import tenant_lines
from journal.frames import Level, decode_frame, encode_frame
from tests.daemon.told import Told

NOTHING: frozenset[int] = frozenset()


def frames(told: Told, tenant: str) -> list[bytes]:
    last = held_offline(told.store, tenant).head.seq
    return list(tenant_lines(told.store, NOTHING, Level.CONTENT, tenant, last))


def furnish(told: Told) -> None:
    for tenant in ("default", "other"):
        told.note(told.raw("a turn", tenant=tenant), tenant=tenant)


def test_all_of_a_tenant_is_told_with_its_name_first(told: Told) -> None:
    furnish(told)
    first, *rest = whole(held_offline(told.store, "other"), Level.CONTENT, frames(told, "other"))
    assert msgspec.json.decode(first)["tenant"] == "other" and rest == frames(told, "other")
    assert {decode_frame(line).tenant for line in rest} == {"other"}


@pytest.mark.parametrize("at", [0, 2, -1])
def test_a_frame_that_is_left_out_ends_it(told: Told, at: int) -> None:
    furnish(told)
    lines = frames(told, "other")
    del lines[at]
    with pytest.raises(DamagedStore, match="frames of"):
        list(whole(held_offline(told.store, "other"), Level.CONTENT, lines))


def test_a_frame_that_is_told_twice_in_place_of_another_ends_it(told: Told) -> None:
    furnish(told)
    lines = frames(told, "other")
    created = next(n for n, line in enumerate(lines) if decode_frame(line).type == "memory_created")
    lines[created] = lines[created - 1]
    with pytest.raises(DamagedStore, match="memories: the frames tell 1 of 2"):
        list(whole(held_offline(told.store, "other"), Level.CONTENT, lines))


def test_a_frame_of_another_tenant_ends_it(told: Told) -> None:
    furnish(told)
    lines = frames(told, "other")
    lines[0] = frames(told, "default")[0]
    with pytest.raises(DamagedStore, match="is not the tenant's"):
        list(whole(held_offline(told.store, "other"), Level.CONTENT, lines))


def test_a_frame_that_was_changed_ends_it(told: Told) -> None:
    furnish(told)
    lines = frames(told, "other")
    frame = decode_frame(lines[-1])
    body = bytearray(base64.b64decode(frame.body))
    body[-1] ^= 1
    frame.body = base64.b64encode(bytes(body)).decode()
    lines[-1] = encode_frame(frame)
    with pytest.raises(DamagedStore):
        list(whole(held_offline(told.store, "other"), Level.CONTENT, lines))


def test_who_never_began_has_nothing_to_export(told: Told) -> None:
    furnish(told)
    with pytest.raises(Usage, match="no tenant never"):
        list(whole(held_offline(told.store, "never"), Level.CONTENT, []))
