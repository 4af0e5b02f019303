"""Send stored notifications, and try failed notifications again.

If a worker dies between sending a notification and recording the delivery, the notification is sent twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from smtplib import SMTPException
from typing import Any, Final

from django.core.mail import send_mail

from broker.conf import broker_settings
from broker.core.alerts import ATTEMPTS_MOST, retry_after_s
from broker.storage import alerts as store
from broker.upkeep.alerts.webhook import WebhookFailed, post

__all__ = ["send_due"]

logger = logging.getLogger(__name__)

# After this time, another worker may send the notification.
_LEASE_S: Final = 60


def send_due(*, budget_s: float) -> int:
    """Send due notifications, and return the number of attempts. No attempt begins after `budget_s` seconds."""
    until = time.monotonic() + budget_s
    attempts = 0
    while time.monotonic() < until:
        notification = store.claim(lease_s=_LEASE_S)
        if notification is None:
            break
        attempts += 1
        try:
            _send(notification)
        except WebhookFailed as failure:
            _failed(notification, str(failure))
        except (SMTPException, OSError, ValueError) as error:
            _failed(notification, f"the notification could not be mailed: {error or type(error).__name__}")
        else:
            store.sent(notification.id)
    return attempts


def _send(notification: store.Notification) -> None:
    body = notification.body
    if notification.channel == "webhook" and notification.webhook_url:
        allows_local = broker_settings().alert_local_webhooks
        post(notification.webhook_url, {**body, "id": notification.id}, allows_local=allows_local)
    elif notification.channel == "email" and notification.email:
        send_mail(_subject(body), _letter(body), None, [notification.email])
    else:
        raise WebhookFailed("the rule no longer has an address of this kind")


def _subject(body: Mapping[str, Any]) -> str:
    return " ".join(f"[Vela {body['severity']}] {body['title']}".split())


def _letter(body: Mapping[str, Any]) -> str:
    return f"{body['condition']}\n\n{body['text']}\n"


def _failed(notification: store.Notification, error: str) -> None:
    is_last = notification.attempts >= ATTEMPTS_MOST
    retry_s = None if is_last else retry_after_s(notification.attempts)
    store.failed(notification.id, error, retry_s=retry_s)
    logger.warning(
        "a notification of the alert rule %r was not delivered; %s: %s",
        notification.body["rule"],
        "Vela gives up" if is_last else f"the next attempt follows in {retry_s} s",
        error,
    )
