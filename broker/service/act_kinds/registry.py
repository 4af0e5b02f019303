"""Every kind of act, in the order in which people read them. A new kind is a class and its line here."""

from __future__ import annotations

from typing import Any, Final

from broker.service.act_kinds.base import ActKind
from broker.service.act_kinds.bookmarks import CreateBookmark, DeleteBookmark
from broker.service.act_kinds.consumers import Disconnect, Redeliver
from broker.service.act_kinds.create_topic import CreateTopic
from broker.service.act_kinds.expire import Expire
from broker.service.act_kinds.logged import LOGGED
from broker.service.act_kinds.parameters import ActInvalid
from broker.service.act_kinds.partitions import UpdatePartitions
from broker.service.act_kinds.pause import Pause, Resume
from broker.service.act_kinds.redrive import Redrive
from broker.service.act_kinds.reset import Reset
from broker.service.act_kinds.set_policies import SetNamespacePolicies, SetTopicPolicies
from broker.service.act_kinds.skip import Clear, Skip, SkipOne
from broker.service.act_kinds.subscriptions import CreateSubscription, DeleteSubscription
from broker.service.act_kinds.topics import DeleteTopic, TerminateTopic, TruncateTopic, UnloadTopic
from broker.service.act_kinds.undo import Undo

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
    Redrive(),
    SetNamespacePolicies(),
    SetTopicPolicies(),
    CreateTopic(),
    UpdatePartitions(),
    TerminateTopic(),
    TruncateTopic(),
    UnloadTopic(),
    DeleteTopic(),
    *LOGGED,
)

KINDS: Final = {kind.name: kind for kind in _ALL}


def find_kind(name: str) -> ActKind[Any]:
    """The kind of that name. Raises ActInvalid, naming those that can be asked for."""
    kind = KINDS.get(name)
    if kind is None:
        known = ", ".join(each.name for each in _ALL if each.is_asked_for)
        raise ActInvalid(f"unknown act {name!r}; one of {known}")
    return kind
