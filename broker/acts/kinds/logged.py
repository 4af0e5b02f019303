"""Acts that clients or policies cause, such as a seek. Operators cannot request these acts."""

from __future__ import annotations

from typing import Final

from broker.acts.kinds.base import ActContext, ActKind, Plan
from broker.acts.kinds.parameters import ActInvalid, NoParameters

__all__ = ["LOGGED", "LoggedOnly"]

_WHY: Final = "cannot be requested: clients or policies cause it, and the act log only records it"


class LoggedOnly(ActKind[NoParameters]):
    """An act that is only recorded in the act log."""

    can_be_requested = False
    parameters = NoParameters

    async def plan(self, context: ActContext, given: NoParameters) -> Plan:
        raise ActInvalid(f"{self.name} {_WHY}")

    async def apply(self, context: ActContext, given: NoParameters) -> None:
        raise ActInvalid(f"{self.name} {_WHY}")


class _Seek(LoggedOnly):
    name = "seek"
    summary = "A client moved the cursor of its subscription."
    closes_consumers = True


class _Unsubscribe(LoggedOnly):
    name = "unsubscribe"
    summary = "A client deleted its subscription."
    closes_consumers = True


class _Commit(LoggedOnly):
    name = "commit"
    summary = "A pull consumer committed offsets."


class _Evict(LoggedOnly):
    name = "evict"
    summary = "A backlog quota moved the slowest cursor forward."


class _ExpireSubscription(LoggedOnly):
    name = "expire_subscription"
    summary = "The broker deleted a subscription that nobody had used for as long as its policy says."


LOGGED: Final = (_Seek(), _Unsubscribe(), _Commit(), _Evict(), _ExpireSubscription())
