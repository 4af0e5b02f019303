"""Answers of the operations on alerts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from broker.models import Measure, Severity

__all__ = ["AlertSeverity", "Alerts", "Rule", "Rules"]

AlertSeverity = Annotated[
    Severity, WithJsonSchema({"type": "string", "enum": [each.value for each in Severity]})
]
"""The schema is inline, because the OpenAPI document has another schema named Severity."""


class _Answer(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class Rule(_Answer):
    """An alert rule. The address of its webhook is left out, because it may contain a secret."""

    id: int
    name: str
    measure: Measure
    threshold: int | None = Field(description="in messages, ms, bytes or per second, as the measure says")
    within_ms: int | None = Field(
        description="dead letters only: the period in which new letters are counted"
    )
    for_ms: int = Field(
        description="how long the value must be above the threshold before an alert fires, and not above it before the"
        " alert clears"
    )
    condition: str = Field(description="measure, threshold and times in words")
    namespaces: str
    topics: str
    subscriptions: str
    severity: AlertSeverity
    has_webhook: bool
    email: str
    silent_until: datetime | None
    who: str = Field(description="who created it")
    firing: int = Field(description="how many alerts of the rule fire now")
    evaluated_ms: int | None = Field(description="when Celery last evaluated it; null: not yet")
    told_at: datetime | None = Field(description="when its latest notification was stored; null: none yet")
    sent_at: datetime | None = Field(description="when that notification was sent")
    attempts: int | None = Field(description="how often sending it was tried")
    next_at: datetime | None = Field(description="when sending is tried next; null: it is not tried again")
    error: str | None = Field(description="why the last attempt failed")


class Rules(_Answer):
    """Alert rules, sorted by name."""

    rules: list[Rule]


class Alert(_Answer):
    """An alert about a subscription, a topic or the broker. Names that do not apply are empty."""

    id: int
    rule_id: int | None = Field(description="null: the rule was deleted")
    rule_name: str
    severity: AlertSeverity
    measure: Measure
    topic_name: str
    subscription_name: str
    value: int = Field(
        description="the last value over the limit, in the measure's unit; ms for a measure without one"
    )
    value_words: str
    over_since_ms: int
    fired_ms: int
    cleared_ms: int | None


class Alerts(_Answer):
    """A page of alerts."""

    alerts: list[Alert]
    next_after: str | None
