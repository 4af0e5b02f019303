"""A project's own code between the log and its consumers: entry filters and dispatch interceptors.

Settings name filters and interceptors as `package.module.Name`. The broker creates each once, without arguments, when
it starts. They run inside the broker's event loop for each entry that a subscription is about to send: they must do
no I/O and take microseconds. Pulled messages and those of non-persistent topics do not pass through them.
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

    ACCEPT = "accept"  # ask the next filter; after the last one, send the entry
    REJECT = "reject"  # ack the entry for this subscription and never send it
    RESCHEDULE = "reschedule"  # ask again after VELA_FILTER_RESCHEDULE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredEntry:
    """One entry that one subscription is about to send."""

    topic: str  # full name
    subscription: str
    subscription_type: str  # Exclusive, Shared, Failover or Key_Shared
    ledger_id: int
    entry_id: int
    messages: int  # in the entry; a batch is filtered as a whole
    append_ms: int  # broker clock, milliseconds since 1970
    redelivery_count: int
    data: bytes  # Pulsar's wire format; vela.wire.entry.parse_header and decode_messages read it


class EntryFilter(Protocol):
    """Decides whether a subscription gets an entry (S1.7 in docs/reference/behaviour.md)."""

    def verdict(self, entry: FilteredEntry) -> Verdict:
        """Decide about an entry before each delivery, redeliveries included.

        An exception counts as RESCHEDULE, so that no entry is lost.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SentEntry:
    """One entry that is being sent to one consumer. The consumer's permits for it are already spent."""

    topic: str  # full name
    subscription: str
    consumer: str
    ledger_id: int
    entry_id: int
    messages: int  # in the entry and not yet acked; the consumer gets these
    redelivery_count: int
    data: bytes  # Pulsar's wire format


class DispatchInterceptor(Protocol):
    """Observes each entry as it is sent, and changes nothing (S1.19 in docs/reference/behaviour.md)."""

    def sending(self, entry: SentEntry) -> None:
        """Observe an entry before it is written to the consumer.

        An exception stops nothing. Only the first exception of each interceptor is logged.
        """


def load_plugins(setting: str, paths: Sequence[str], method: str) -> tuple[Any, ...]:
    """Create the objects that `paths` name.

    Raises SettingInvalid, with `setting` in its message, if one cannot be created or lacks `method`.
    """
    return tuple(_load(setting, path, method) for path in paths)


def _load(setting: str, path: str, method: str) -> Any:
    module_name, _, name = path.rpartition(".")
    try:
        made: object = getattr(import_module(module_name), name)()
    except Exception as error:  # the project's code may raise anything; tell the operator the path
        raise SettingInvalid(f"{setting}: {path} cannot be created: {error!r}") from error
    if not callable(getattr(made, method, None)):
        raise SettingInvalid(f"{setting}: {path} has no method {method}(entry)")
    return made
