"""What a record can say: the closed union of events.

Each event is a frozen, array-like msgspec Struct with an integer tag that is never reused. Fields are
only ever added at the end, with a default; stored bytes never change. Decoding forbids unknown trailing
fields, because msgspec would otherwise drop them in silence.

An event holds outcomes, never recipes to be run again: every number, name and id stands in it, assigned
by `decide`. Ids are TSIDs as unsigned 64-bit integers; times are UTC milliseconds; a `Ref` is
`(kind code, TSID)`. What a caller wrote freely is never in an event: it is in the sealed parts that the
event's `parts` name. `ops/docs/formats.md` has the table of all events, generated from this file.

Tags: 1-15 store, tenants and names; 16-31 memories; 32-39 partitions; 40-47 passes; 48-55 proposals and
cohorts; 56-79 sleep and graph; 80-95 bookkeeping.
"""

from __future__ import annotations

import re
from typing import Union, get_args

from journal.events.bookkeeping import Keyed, OperatorCrossed, Upgraded
from journal.events.memories import (
    EmbedFailed,
    FactAdded,
    Forgotten,
    Held,
    Marked,
    MemoryCreated,
    Moved,
    Purged,
    PurgeTarget,
    Reaffirmed,
    Recovered,
    Reinforced,
    Related,
    ResolvableChanged,
    Superseded,
    Verified,
    Weakened,
)
from journal.events.partitions import PartitionChanged, PartitionOpened, Vacuumed
from journal.events.passes import PassCommitted, PassFailed, TurnsReopened, Unparked
from journal.events.proposals import CohortLifted, CohortMade, ProposalDecided, ProposalMade
from journal.events.root import Change, Event, External, FactHead, Ref, RegionRow, SealedPart, TurnScore
from journal.events.sleep import (
    BulkChanged,
    CycleCheckpointed,
    CycleEnded,
    CycleReverted,
    CycleStarted,
    CycleTaken,
    EntityMerged,
    HyperedgePut,
    Interfered,
    Linked,
    MeanMoved,
    Pruned,
    Recalled,
    RelayEnded,
    Rescored,
    SoulSet,
    Unlinked,
)
from journal.events.store import (
    EntityNamed,
    Opened,
    ProducerNamed,
    Restored,
    SessionClosed,
    SessionOpened,
    SessionReopened,
    SessionTouched,
    TenantBegan,
    TenantChanged,
)

AnyEvent = Union[
    Opened,
    Restored,
    TenantBegan,
    TenantChanged,
    ProducerNamed,
    EntityNamed,
    SessionOpened,
    SessionReopened,
    SessionClosed,
    SessionTouched,
    MemoryCreated,
    Forgotten,
    Recovered,
    Purged,
    Verified,
    Reinforced,
    Weakened,
    Reaffirmed,
    Marked,
    Superseded,
    Related,
    Moved,
    Held,
    FactAdded,
    ResolvableChanged,
    EmbedFailed,
    PartitionOpened,
    PartitionChanged,
    Vacuumed,
    PassCommitted,
    PassFailed,
    Unparked,
    TurnsReopened,
    ProposalMade,
    ProposalDecided,
    CohortMade,
    CohortLifted,
    SoulSet,
    MeanMoved,
    CycleStarted,
    CycleTaken,
    RelayEnded,
    CycleCheckpointed,
    CycleEnded,
    CycleReverted,
    BulkChanged,
    Recalled,
    Pruned,
    Rescored,
    Unlinked,
    Interfered,
    EntityMerged,
    HyperedgePut,
    Linked,
    Keyed,
    OperatorCrossed,
    Upgraded,
]

EVENT_WORDS: dict[type, str] = {
    event_type: re.sub(r"(?<!^)(?=[A-Z])", "_", event_type.__name__).lower() for event_type in get_args(AnyEvent)
}
"""What each event is called on the wire: `MemoryCreated` is `memory_created`."""

HOUSEKEEPING: tuple[type, ...] = (Opened, Restored, Upgraded)
"""Events that no logical digest covers."""

__all__ = [
    "EVENT_WORDS",
    "HOUSEKEEPING",
    "AnyEvent",
    "BulkChanged",
    "Change",
    "CohortLifted",
    "CohortMade",
    "CycleCheckpointed",
    "CycleEnded",
    "CycleReverted",
    "CycleStarted",
    "CycleTaken",
    "EmbedFailed",
    "EntityMerged",
    "EntityNamed",
    "Event",
    "External",
    "FactAdded",
    "FactHead",
    "Forgotten",
    "Held",
    "HyperedgePut",
    "Interfered",
    "Keyed",
    "Linked",
    "Marked",
    "MeanMoved",
    "MemoryCreated",
    "Moved",
    "Opened",
    "OperatorCrossed",
    "PartitionChanged",
    "PartitionOpened",
    "PassCommitted",
    "PassFailed",
    "ProducerNamed",
    "ProposalDecided",
    "ProposalMade",
    "Pruned",
    "PurgeTarget",
    "Purged",
    "Reaffirmed",
    "Recalled",
    "Recovered",
    "Ref",
    "RegionRow",
    "Reinforced",
    "Related",
    "RelayEnded",
    "Rescored",
    "ResolvableChanged",
    "Restored",
    "SealedPart",
    "SessionClosed",
    "SessionOpened",
    "SessionReopened",
    "SessionTouched",
    "SoulSet",
    "Superseded",
    "TenantBegan",
    "TenantChanged",
    "TurnScore",
    "TurnsReopened",
    "Unlinked",
    "Unparked",
    "Upgraded",
    "Vacuumed",
    "Verified",
    "Weakened",
]
