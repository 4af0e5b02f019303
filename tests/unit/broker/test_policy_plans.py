"""Plans for a whole namespace: the broker computes them for a few topics at a time, and serves clients in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.acts.kinds.topics.policy_losses import losses
from broker.conf import BrokerSettings
from broker.core.policies import Policies
from broker.core.topic_name import TopicName
from broker.storage.topics import policies as store
from broker.topics.policies import Holder, PolicyChanges, PolicyDocuments

NAMES = [TopicName.parse(f"t{number}") for number in range(1000)]
HOLDER = Holder.of_namespace("public/default")


class _Pool:
    @asynccontextmanager
    async def use(self) -> AsyncIterator[None]:
        yield None


async def test_policies_of_many_topics_are_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    async def in_force(_: object, names: Sequence[str]) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
        asked.append(len(names))
        return [(name, {}, {"message_ttl_ms": 5} if name.endswith("/t7") else {}) for name in names]

    monkeypatch.setattr(store, "in_force", in_force)
    documents = PolicyDocuments(cast(Any, _Pool()), BrokerSettings.from_environment({}))
    found = await documents.of_topics_with(HOLDER, {"message_ttl_ms": 9}, NAMES)
    assert asked == [200] * 5
    assert {policies.message_ttl_ms for name, policies in found.items() if name != NAMES[7].full} == {9}
    assert (len(found), found[NAMES[7].full].message_ttl_ms) == (1000, 5)


async def test_policies_of_many_topics_are_applied_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    async def in_force(_: object, names: Sequence[str]) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
        asked.append(len(names))
        return [(name, {"message_ttl_ms": 9}, {}) for name in names]

    async def loads_done() -> None:
        pass

    async def reload_policies(covers: object) -> int:
        return 2

    monkeypatch.setattr(store, "in_force", in_force)
    applied: list[int] = []
    topics = [
        SimpleNamespace(
            name=name, is_open=True, set_policies=lambda policies: applied.append(policies.message_ttl_ms)
        )
        for name in NAMES
    ]
    changes = PolicyChanges(
        PolicyDocuments(cast(Any, _Pool()), BrokerSettings.from_environment({})),
        cast(Any, SimpleNamespace(all=lambda: topics, loads_done=loads_done)),
        cast(Any, SimpleNamespace(reload_policies=reload_policies)),
    )
    assert await changes.reload(HOLDER) == 1002
    assert asked == [200] * 5
    assert applied == [9] * 1000


async def test_losses_of_many_topics_are_computed_in_slices_that_let_other_tasks_run() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    same = Policies()
    topics = [SimpleNamespace(name=name, policies=same, subscriptions={}) for name in NAMES]
    after = {name.full: same for name in NAMES}
    task = asyncio.create_task(others())
    try:
        found = await losses(cast(Any, None), cast(Any, topics), after, 0)
    finally:
        task.cancel()
    assert (found.lost_messages, found.freed_bytes) == (0, 0)
    assert turns >= 5
