"""What a project may put between the log and its consumers: entry filters and dispatch interceptors (S1.7, S1.19).

Both are named in settings as `package.module.Name` and made once, without arguments, when the broker starts. They run
inside the broker's event loop, for every entry of every subscription: no I/O, and microseconds, not milliseconds.
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
    """What a filter says of one entry for one subscription."""

    ACCEPT = "accept"  # ask the next filter; after the last one it is sent
    REJECT = "reject"  # acked for this subscription, never sent
    RESCHEDULE = "reschedule"  # asked about again after VELA_FILTER_RESCHEDULE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredEntry:
    """One entry that one subscription is about to send."""

    topic: str  # full name
    subscription: str
    subscription_type: str  # Exclusive, Shared, Failover or Key_Shared
    ledger_id: int
    entry_id: int
    messages: int  # in the entry; a batch is filtered whole
    append_ms: int  # broker clock, milliseconds since 1970
    redelivery_count: int
    data: bytes  # Pulsar's wire format; vela.wire.entry.parse_header and decode_messages read it


class EntryFilter(Protocol):
    """Decides whether a subscription gets an entry (semantics S1.7)."""

    def verdict(self, entry: FilteredEntry) -> Verdict:
        """Called before each delivery, repeated ones too. What raises counts as RESCHEDULE: nothing is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentEntry:
    """One entry on its way to one consumer. Permits are spent and the pending ack is recorded already."""

    topic: str  # full name
    subscription: str
    consumer: str
    ledger_id: int
    entry_id: int
    messages: int  # not acked yet: what the consumer gets of the entry
    redelivery_count: int
    data: bytes  # Pulsar's wire format


class DispatchInterceptor(Protocol):
    """Sees what is sent, changes nothing (semantics S1.19)."""

    def sending(self, entry: SentEntry) -> None:
        """Called before the entry is written to the consumer. What it raises is logged once and disturbs nothing."""


def load_plugins(setting: str, paths: Sequence[str], method: str) -> tuple[Any, ...]:
    """The objects that `paths` name, each of which must have `method`. Raises SettingInvalid naming `setting`."""
    return tuple(_load(setting, path, method) for path in paths)


def _load(setting: str, path: str, method: str) -> Any:
    module_name, _, name = path.rpartition(".")
    if not module_name:
        raise SettingInvalid(f"{setting} names {path!r}: it takes package.module.Name, by commas")
    try:
        made: object = getattr(import_module(module_name), name)()
    except Exception as error:  # whatever the project's code raises, the operator must know which name it was
        raise SettingInvalid(f"{setting}: {path} cannot be made: {error!r}") from error
    if not callable(getattr(made, method, None)):
        raise SettingInvalid(f"{setting}: {path} has no method {method}(entry)")
    return made
