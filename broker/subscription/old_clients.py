"""Clients from before batches: protocol versions below 4 cannot split one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.errors import UnsupportedVersion

if TYPE_CHECKING:
    from broker.core.client_identity import ClientIdentity
    from broker.log.topic_log import TopicLog

__all__ = ["check_batches", "splits_batches"]

_FIRST_WITH_BATCHES: Final = 4


def splits_batches(identity: ClientIdentity) -> bool:
    """Whether this client can be sent a batch."""
    return identity.protocol_version >= _FIRST_WITH_BATCHES


def check_batches(log: TopicLog, identity: ClientIdentity) -> None:
    """Refuse a subscriber that the first batch would cut off. Raises UnsupportedVersion.

    A topic has seen a batch of two or more when it counted more messages than entries, trimmed ones included.
    """
    if not splits_batches(identity) and log.ledgers.total_messages > log.ledgers.total_entries:
        raise UnsupportedVersion(
            f"{log.name} holds batches, which clients of protocol version {identity.protocol_version} cannot read;"
            " use a newer client, or set VELA_REFUSE_OLD_CLIENTS=0 to let it in until it meets one"
        )
