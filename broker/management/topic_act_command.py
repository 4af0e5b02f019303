"""The common part of the commands on whole topics and namespaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.acts import requests as acts
from broker.management.act_command import ActCommand
from broker.management.caller import caller

__all__ = ["TopicActCommand", "is_namespace"]


def is_namespace(text: str) -> bool:
    """Return whether a name is `tenant/namespace`. A topic's name has no slash, two slashes, or a domain in front."""
    return text.count("/") == 1


class TopicActCommand(ActCommand):
    """Plans and applies an act on a topic or namespace, without a subscription."""

    def run_on(
        self, name: str, kind: str, parameters: Mapping[str, object], options: Mapping[str, Any]
    ) -> None:
        """Plan an act of this kind on `tenant/namespace` or a topic, and apply it as `plan_and_apply` does."""
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
