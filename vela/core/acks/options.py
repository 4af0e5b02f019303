"""A consumer's options for acks and redelivery."""

from __future__ import annotations

from dataclasses import dataclass

from vela.core.acks.grouping import DEFAULT_GROUP_MS, DEFAULT_GROUP_SIZE
from vela.core.acks.negative_acks import DEFAULT_NEGATIVE_ACK_DELAY_MS, NegativeAckTimer
from vela.core.acks.unacked import DEFAULT_TICK_MS
from vela.wire.redelivery_backoff import RedeliveryBackoff

__all__ = ["AckOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AckOptions:
    """The options of one consumer. Its trackers refuse wrong values when the consumer is created."""

    # Shared or Key_Shared: single entries can be asked for again, cumulative acks are refused
    is_shared: bool
    is_persistent: bool = True  # the topic stores its messages; if not, acks are not sent
    batch_index_acks: bool = False
    group_ms: int = DEFAULT_GROUP_MS  # 0 = every ack at once
    group_size: int = DEFAULT_GROUP_SIZE  # ids
    receipts: bool = False  # an ack is done when the broker has stored it
    receipt_timeout_s: float = 30.0
    ack_timeout_ms: int = 0  # 0 = none
    ack_timeout_tick_ms: int = DEFAULT_TICK_MS
    ack_timeout_backoff: RedeliveryBackoff | None = None
    negative_ack_delay_ms: int = DEFAULT_NEGATIVE_ACK_DELAY_MS
    negative_ack_backoff: RedeliveryBackoff | None = None
    negative_ack_timer: NegativeAckTimer = NegativeAckTimer.PRECISE
