"""A consumer's options for what the broker delivers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vela.core.consuming.entry_opening import Decrypt
from vela.options import ConsumerCryptoFailureAction
from vela.schema.base import Schema

__all__ = ["DeliveryOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOptions:
    """The options of one consumer."""

    is_durable: bool  # whether the subscription is durable
    schema: Schema[Any] | None  # None = bytes
    decrypt: Decrypt | None  # None = no keys
    crypto_failure_action: ConsumerCryptoFailureAction
    max_uncompressed_bytes: int
    max_pending_chunked_messages: int  # 0 = no limit
    chunk_expiry_ms: int  # 0 = never
    # beyond the limit, the oldest incomplete message is acked (True) or delivered again (False)
    acks_oldest_chunks: bool
