"""One act on each partition of a partitioned topic."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from vela.cli.acts.flow import Asked
from vela.cli.console import ConsoleApi
from vela.cli.errors import CliError, Exit, say
from vela.cli.text.names import short_name, topic_path
from vela.core.topic_name import partition_name

__all__ = ["on_partitions_with_it", "on_partitions_without_it"]

_PAUSED_AFTER: Final = {"pause": True, "resume": False}


def on_partitions_with_it(api: ConsoleApi, asked: Asked) -> list[Asked]:
    """Return the act for each partition that has the subscription. Raises CliError if none has it."""
    found = _of_name(api, asked, asked.subscription)
    if not found:
        raise CliError(
            f"there is no subscription {asked.subscription} on {asked.topic}",
            Exit.NOTHING,
            code="NothingToActOn",
        )
    topics = sorted(found, key=lambda name: (len(name), name))
    partitions = api.get(topic_path(asked.topic))["partitions"]
    everywhere = [partition_name(asked.topic, index) for index in range(partitions)]
    if lacking := [short_name(topic) for topic in everywhere if topic not in found]:
        say(f"there is no {asked.subscription} on {', '.join(lacking)}")
    if asked.kind in _PAUSED_AFTER:
        wanted = _PAUSED_AFTER[asked.kind]
        already = {topic for topic, row in found.items() if row["paused"] is wanted}
        topics = _without(topics, already, f"{asked.subscription} is {'' if wanted else 'not '}paused")
    return [
        Asked(kind=asked.kind, topic=topic, subscription=asked.subscription, parameters=asked.parameters)
        for topic in topics
    ]


def on_partitions_without_it(api: ConsoleApi, asked: Asked) -> list[Asked]:
    """Return the act that creates a subscription, for each partition that lacks it.

    Raises CliError if the topic is not partitioned.
    """
    partitions = api.get(topic_path(asked.topic))["partitions"]
    if not partitions:
        raise CliError(
            f"{short_name(asked.topic)} is not partitioned: leave out --all-partitions", Exit.USAGE
        )
    name = str(asked.parameters["name"])
    everywhere = [partition_name(asked.topic, index) for index in range(partitions)]
    topics = _without(everywhere, _of_name(api, asked, name).keys(), f"{name} is there")
    return [Asked(kind=asked.kind, topic=topic, parameters=asked.parameters) for topic in topics]


def _of_name(api: ConsoleApi, asked: Asked, subscription: str) -> dict[str, dict[str, Any]]:
    """Return the subscription's rows by partition."""
    rows = api.rows(f"{topic_path(asked.topic)}/subscriptions", "subscriptions", most=0)
    return {row["topic"]: row for row in rows if row["name"] == subscription}


def _without(topics: list[str], already: Collection[str], how: str) -> list[str]:
    """Leave out the topics that are so already, and say so. If none were left, return all: the broker refuses them."""
    left = [topic for topic in topics if topic not in already]
    if not left:
        return topics
    if skipped := [short_name(topic) for topic in topics if topic in already]:
        say(f"{how} already on {', '.join(skipped)}")
    return left
