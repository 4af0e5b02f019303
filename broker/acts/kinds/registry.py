"""All kinds of act, in the order in which users see them."""

from __future__ import annotations

from typing import Any, Final

from broker.acts.kinds.base import ActKind
from broker.acts.kinds.cursors.bookmarks import CreateBookmark, DeleteBookmark
from broker.acts.kinds.cursors.dead_letter import SendToDeadLetters
from broker.acts.kinds.cursors.expire import Expire
from broker.acts.kinds.cursors.reset import Reset
from broker.acts.kinds.cursors.skip import Clear, Skip, SkipEntries, SkipOne
from broker.acts.kinds.cursors.undo import Undo
from broker.acts.kinds.logged import LOGGED
from broker.acts.kinds.namespaces.namespaces import CreateNamespace, DeleteNamespace
from broker.acts.kinds.namespaces.tenants import DeleteTenant, SetTenant
from broker.acts.kinds.parameters import ActInvalid
from broker.acts.kinds.pipeline.runs import CancelJob, ContinueJob, RunJob
from broker.acts.kinds.pipeline.schedules import ScheduleJob, UnscheduleJob
from broker.acts.kinds.subscriptions.consumers import Disconnect, Redeliver
from broker.acts.kinds.subscriptions.pause import Pause, Resume
from broker.acts.kinds.subscriptions.redrive import Redrive
from broker.acts.kinds.subscriptions.subscriptions import (
    CreateSubscription,
    DeleteSubscription,
    SetSubscriptionProperties,
)
from broker.acts.kinds.topics.compaction import Compact, DeleteCompaction
from broker.acts.kinds.topics.create import CreateTopic
from broker.acts.kinds.topics.partitions import UpdatePartitions
from broker.acts.kinds.topics.publish import Publish
from broker.acts.kinds.topics.schemas import DeleteSchema
from broker.acts.kinds.topics.set_policies import SetNamespacePolicies, SetTopicPolicies
from broker.acts.kinds.topics.topics import DeleteTopic, TerminateTopic, TruncateTopic, UnloadTopic
from broker.acts.kinds.topics.trim import TrimTopic

__all__ = ["KINDS", "find_kind"]

_ALL: Final[tuple[ActKind[Any], ...]] = (
    Reset(),
    Skip(),
    SkipOne(),
    Clear(),
    Expire(),
    Undo(),
    Pause(),
    Resume(),
    Disconnect(),
    Redeliver(),
    CreateSubscription(),
    DeleteSubscription(),
    CreateBookmark(),
    DeleteBookmark(),
    SendToDeadLetters(),
    Redrive(),
    SetNamespacePolicies(),
    SetTopicPolicies(),
    Publish(),
    CreateNamespace(),
    DeleteNamespace(),
    CreateTopic(),
    UpdatePartitions(),
    Compact(),
    DeleteCompaction(),
    TerminateTopic(),
    TruncateTopic(),
    UnloadTopic(),
    DeleteTopic(),
    RunJob(),
    ContinueJob(),
    CancelJob(),
    ScheduleJob(),
    UnscheduleJob(),
    SkipEntries(),
    SetSubscriptionProperties(),
    DeleteSchema(),
    TrimTopic(),
    SetTenant(),
    DeleteTenant(),
    *LOGGED,
)

KINDS: Final = {kind.name: kind for kind in _ALL}


def find_kind(name: str) -> ActKind[Any]:
    """Return the kind with this name. Raises ActInvalid for an unknown name."""
    kind = KINDS.get(name)
    if kind is None:
        known = ", ".join(each.name for each in _ALL if each.can_be_requested)
        raise ActInvalid(f"unknown act {name!r}: use one of {known}")
    return kind
