"""Entry filters and dispatch interceptors, which a project can add to the broker.

Filters and interceptors run in the broker's event loop before each delivery, so they must do no I/O and take only
microseconds. They do not see messages of non-persistent topics, or messages that clients pull over HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any, Protocol

from broker.conf import SettingInvalid

__all__ = [
    "DispatchInterceptor",
    "EntryFilter",
    "FilteredEntry",
    "SentEntry",
    "Verdict",
    "load_plugins",
]


class Verdict(Enum):
    """A filter's decision about one entry for one subscription."""

    ACCEPT = "accept"
    REJECT = "reject"  # Ack the entry and never send it
    RESCHEDULE = "reschedule"  # Ask again after VELA_FILTER_RESCHEDULE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredEntry:
    """An entry that a subscription is about to send. A batch is filtered as a whole."""

    topic: str
    subscription: str
    subscription_type: str  # Exclusive, Shared, Failover or Key_Shared
    ledger_id: int
    entry_id: int
    messages: int
    append_ms: int  # Unix time of the append
    redelivery_count: int
    data: bytes  # Pulsar's wire format, which vela.wire.entry decodes


class EntryFilter(Protocol):
    """Decides whether a subscription gets an entry."""

    def verdict(self, entry: FilteredEntry) -> Verdict:
        """Decide about an entry before each delivery and redelivery. An exception counts as RESCHEDULE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentEntry:
    """An entry that is being sent to a consumer."""

    topic: str
    subscription: str
    consumer: str
    ledger_id: int
    entry_id: int
    messages: int  # Number of unacked messages in the entry
    redelivery_count: int
    data: bytes


class DispatchInterceptor(Protocol):
    """Observes each entry that is sent."""

    def sending(self, entry: SentEntry) -> None:
        """Observe an entry before it is written to the consumer.

        An exception does not stop the delivery. Only the first exception of each interceptor is logged.
        """


def load_plugins(setting: str, paths: Sequence[str], method: str) -> tuple[Any, ...]:
    """Create the filters or interceptors of one setting.

    Raises SettingInvalid if an object cannot be created or lacks the required method.
    """
    return tuple(_load(setting, path, method) for path in paths)


def _load(setting: str, path: str, method: str) -> Any:
    module_name, _, name = path.rpartition(".")
    try:
        made: object = getattr(import_module(module_name), name)()
    except Exception as error:  # The project's code may raise anything
        raise SettingInvalid(f"{setting}: {path} cannot be created: {error!r}") from error
    if not callable(getattr(made, method, None)):
        raise SettingInvalid(f"{setting}: {path} has no method {method}(entry)")
    return made
