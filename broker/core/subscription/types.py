"""Subscription types, and which consumers may attach to a subscription."""

from __future__ import annotations

import unicodedata
from enum import Enum
from typing import Final

from broker.core.counted import counted
from broker.core.errors import ConsumerBusy, NotAllowed, SubscriptionBusy

RESERVED_NAMES: Final = frozenset({"__compaction", "pulsar.dedup"})
_RESERVED_PREFIXES: Final = ("pulsar.repl",)
_MAX_NAME_BYTES: Final = 1024  # PostgreSQL limits an index entry to about 2,700 bytes


class SubscriptionType(Enum):
    """How entries are divided among consumers. The values are Pulsar's names."""

    EXCLUSIVE = "Exclusive"
    SHARED = "Shared"
    FAILOVER = "Failover"
    KEY_SHARED = "Key_Shared"

    @property
    def single_active(self) -> bool:
        return self in (SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER)


def check_name(name: str) -> None:
    """Raise NotAllowed if a subscription may not have this name."""
    if not name:
        raise NotAllowed("a subscription needs a name")
    check_storable("subscription", name)
    if name != name.strip():
        raise NotAllowed(f"subscription name {name!r} begins or ends with spaces; remove them")
    if name in (".", ".."):
        raise NotAllowed(
            f"subscription name {name!r} is resolved in a URL by clients and proxies; choose another"
        )
    if name in RESERVED_NAMES or name.startswith(_RESERVED_PREFIXES):
        raise NotAllowed(f"subscription name {name!r} is reserved; choose another")


def check_storable(what: str, name: str) -> None:
    """Raise NotAllowed if a name is too long or has a control character or a surrogate.

    PostgreSQL's text type cannot store NUL or surrogates.
    """
    size_bytes = len(name.encode(errors="surrogatepass"))
    if size_bytes > _MAX_NAME_BYTES:
        raise NotAllowed(f"{what} name is {size_bytes} bytes long; at most {_MAX_NAME_BYTES}")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        raise NotAllowed(f"the {what} name {name!r} contains a control character; remove it")


def check_attach(
    wanted: SubscriptionType,
    *,
    current: SubscriptionType | None,
    consumers: int,
    read_compacted: bool = False,
    persistent: bool = True,
) -> None:
    """Check that one more consumer may attach.

    Raises NotAllowed if a compacted read is impossible, SubscriptionBusy if consumers of another type are connected,
    and ConsumerBusy if an Exclusive consumer is connected.
    """
    if read_compacted and not (wanted.single_active and persistent):
        raise NotAllowed("readCompacted needs an Exclusive or Failover subscription of a persistent topic")
    if consumers and current is not None and current is not wanted:
        others = counted(
            consumers, f"consumer of type {current.value} is", f"consumers of type {current.value} are"
        )
        raise SubscriptionBusy(f"{others} connected, so none of type {wanted.value} can join")
    if consumers and wanted is SubscriptionType.EXCLUSIVE:
        raise ConsumerBusy("an Exclusive consumer is connected already")
