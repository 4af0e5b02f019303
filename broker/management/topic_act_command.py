"""The common part of the commands that change a topic or a namespace. Such a change is called an act."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.acts import requests as acts
from broker.management.act_command import ActCommand
from broker.management.caller import caller

__all__ = ["TopicActCommand", "is_namespace"]


def is_namespace(text: str) -> bool:
    """Return whether a name is `tenant/namespace`. The name of a topic never has exactly one slash."""
    return text.count("/") == 1


class TopicActCommand(ActCommand):
    """The base class of commands that change a topic or a namespace."""

    def run_on(
        self, name: str, kind: str, parameters: Mapping[str, object], options: Mapping[str, Any]
    ) -> None:
        """Plan and apply an act of this kind on a topic or a namespace."""
        self.plan_and_apply(
            lambda: acts.plan(
                kind,
                topic=acts.full_name(kind, name),
                parameters=parameters,
                who=caller(),
                origin="command line",
                reason=options["reason"],
            ),
            options,
        )
