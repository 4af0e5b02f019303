"""Answers of the history operations."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["History"]


class HistoryStep(BaseModel):
    """One step of the history."""

    model_config = ConfigDict(from_attributes=True)

    at_ms: int = Field(description="when the step begins")
    message_rate_in: float | None = Field(
        description="per second, like the other rates; for a subscription, the rate of its topic"
    )
    byte_rate_in: float | None
    message_rate_out: float | None = Field(description="redeliveries included")
    message_rate_acked: float | None = Field(description="by consumers")
    message_rate_redelivered: float | None
    backlog_messages: int | None = Field(
        description="when the step ends; for a topic, the largest of a subscription, summed over partitions"
    )
    backlog_most_messages: int | None = Field(description="the largest backlog during the step")
    stored_bytes: int | None = Field(description="when the step ends; null for a subscription")
    ack_p50_ms: int | None = Field(
        description="the time from delivery to ack that half of the acked messages did not exceed, interpolated between"
        " powers of two; null for a topic, and if nothing was acked"
    )
    ack_p95_ms: int | None
    ack_p99_ms: int | None


class ActMark(BaseModel):
    """An act that was applied in the time range of the history."""

    id: int
    kind: str
    asked: str = Field(description="the requested act in words")
    topic: str
    subscription: str = Field(description="empty for an act on a topic or namespace")
    who: str
    at_ms: int


class History(BaseModel):
    """The history over a time range that ends now. The oldest step comes first."""

    range: str
    step_s: int
    from_ms: int
    to_ms: int = Field(description="the last step may be shorter and ends here")
    steps: list[HistoryStep] = Field(description="at most 360")
    acts: list[ActMark] = Field(description="the newest 50, newest first")
