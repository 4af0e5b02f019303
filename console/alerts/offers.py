"""Links that open the form for a new alert rule, filled in for a topic or a subscription."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _

from broker.models import Measure
from console.addresses import short_name
from console.alerts.form import MEASURES

__all__ = ["AlertOffer", "alert_offers"]

_OF_SUBSCRIPTION: Final = (
    Measure.BACKLOG,
    Measure.AGE,
    Measure.STUCK,
    Measure.NO_CONSUMER,
    Measure.REDELIVERIES,
)
_OF_TOPIC: Final = (Measure.BACKLOG, Measure.AGE, Measure.BEHIND, Measure.STORED)
_NAMES: Final = {
    Measure.BACKLOG: "backlog",
    Measure.AGE: "age",
    Measure.STUCK: "stuck",
    Measure.BEHIND: "behind",
    Measure.NO_CONSUMER: "no consumer",
    Measure.REDELIVERIES: "redeliveries",
    Measure.STORED: "stored",
}
_LIMITS: Final = {
    Measure.BACKLOG: "10000",
    Measure.AGE: "15m",
    Measure.REDELIVERIES: "5",
    Measure.STORED: "10GB",
}
_LONGEST_NAME: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertOffer:
    """A link to the form for a new rule."""

    words: str
    url: str


def alert_offers(topic: str, subscription: str = "") -> list[AlertOffer]:
    """Return the offers for a subscription, or for a topic if `subscription` is empty.

    For a partition, the offered rules cover the whole partitioned topic.
    """
    return [
        AlertOffer(
            words=_("When {measure}").format(measure=_(MEASURES[measure])),
            url=_form_url(measure, topic, subscription),
        )
        for measure in (_OF_SUBSCRIPTION if subscription else _OF_TOPIC)
    ]


def _form_url(measure: Measure, topic: str, subscription: str) -> str:
    local = re.sub(r"-partition-[0-9]+\Z", "", short_name(topic))
    asked = {
        "name": f"{_NAMES[measure]}: {subscription or local}"[:_LONGEST_NAME],
        "measure": measure.value,
        "limit": _LIMITS.get(measure, ""),
        "namespaces": "/".join(topic.split("/")[2:4]),
        "topics": local,
        "subscriptions": subscription,
    }
    return f"{reverse('console:new_alert_rule')}?{urlencode({name: text for name, text in asked.items() if text})}"
