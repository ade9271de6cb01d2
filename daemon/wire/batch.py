"""A batch that isn't atomic, decoded item by item: one that is malformed is refused alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from daemon import limits
from daemon.refusal import Refused
from daemon.wire import params as p

Explain = Callable[[str, type[msgspec.Struct]], Refused]
"""What msgspec found in parameters of a type → the refusal."""


class _Apart(p.WriteParams, frozen=True, kw_only=True):
    """`remember_many` with its items unread."""

    items: Annotated[list[msgspec.Raw], Meta(min_length=1, max_length=limits.BATCH)]
    atomic: bool | UnsetType = UNSET


_APART = msgspec.json.Decoder(_Apart)
_ITEM = msgspec.json.Decoder(p.RememberItem)


def decode_apart(raw: msgspec.Raw, explain: Explain) -> p.RememberManyParams | None:
    """The batch with the refusal of an item in its place; None when it is atomic, or malformed as a whole."""
    try:
        batch = _APART.decode(raw)
    except msgspec.ValidationError:
        return None
    if batch.atomic is not False:
        return None
    items: list[Any] = []
    for index, item in enumerate(batch.items):
        try:
            items.append(_ITEM.decode(item))
        except msgspec.ValidationError as error:
            refused = explain(str(error), p.RememberItem)
            refused.data["index"] = index
            items.append(refused)
    return p.RememberManyParams(
        items=items, atomic=False, idempotency_key=batch.idempotency_key, tenant=batch.tenant,
        correlation=batch.correlation, progress=batch.progress,
    )  # fmt: skip
