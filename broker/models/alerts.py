"""Alert rules, the alerts that they found, and the notifications about them."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from broker.core.alerts import Measure, Severity

__all__ = ["AlertFiring", "AlertNotification", "AlertRule", "Measure", "Severity"]


class AlertRule(models.Model):
    """A condition, and the addresses to notify when it is met. Operators write rules in the console or by its API."""

    name = models.TextField(unique=True)
    measure = models.CharField(max_length=16, choices=[(each.value, each.value) for each in Measure])
    threshold = models.BigIntegerField(null=True)  # in the measure's unit; NULL = the measure has no limit
    # For dead letters: only those of the last `within_ms` count.
    within_ms = models.BigIntegerField(null=True)
    # How long a value must be over the limit until the alert fires, and below it until the alert clears.
    for_ms = models.BigIntegerField()
    namespaces = models.TextField()  # *, tenant/* or tenant/namespace
    topics = models.TextField(default="*")  # local names; * stands for anything
    subscriptions = models.TextField(default="*")
    severity = models.CharField(max_length=16, choices=[(each.value, each.value) for each in Severity])
    webhook_url = models.TextField(default="")  # may contain a secret, so no page shows all of it
    email = models.TextField(default="")
    silent_until = models.DateTimeField(null=True)
    who = models.TextField()
    created_at = models.DateTimeField(db_default=Now())
    evaluated_ms = models.BigIntegerField(null=True)  # when Celery last evaluated the rule
    notified_ms = models.BigIntegerField(null=True)  # when Celery last stored a notification

    class Meta:
        db_table = "vela_alert_rule"

    def __str__(self) -> str:
        return self.name


class AlertFiring(models.Model):
    """An alert that a rule raised about a subscription, a topic or the broker. It waits, fires, or has cleared."""

    rule = models.ForeignKey(AlertRule, models.SET_NULL, null=True)  # the history outlives its rule
    rule_name = models.TextField()
    severity = models.CharField(max_length=16)
    measure = models.CharField(max_length=16)
    # No foreign keys: the history outlives its subjects. 0 or NULL = none.
    topic_id = models.BigIntegerField()
    subscription_id = models.BigIntegerField()
    namespace_id = models.BigIntegerField(null=True)
    topic_name = models.TextField()
    subscription_name = models.TextField()
    value = models.BigIntegerField()
    over_since_ms = models.BigIntegerField()
    fired_ms = models.BigIntegerField(null=True)
    below_since_ms = models.BigIntegerField(null=True)
    cleared_ms = models.BigIntegerField(null=True)
    is_told = models.BooleanField(default=False)  # a notification names it as firing
    # A notification names it as cleared, or none is needed.
    is_clear_told = models.BooleanField(default=False)

    class Meta:
        db_table = "vela_alert_firing"
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "topic_id", "subscription_id"],
                name="vela_alert_firing_open",
                condition=models.Q(cleared_ms__isnull=True),
            ),
        ]
        indexes = [
            models.Index(
                fields=["cleared_ms"],
                name="vela_alert_firing_over",
                condition=models.Q(cleared_ms__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rule_name}: {self.subscription_name or self.topic_name}"


class AlertNotification(models.Model):
    """One notification to one address, stored with its text and sent later. After a crash it may be sent twice."""

    rule = models.ForeignKey(AlertRule, models.CASCADE)
    channel = models.CharField(max_length=16, choices=[("webhook", "webhook"), ("email", "e-mail")])
    body = models.JSONField()
    created_at = models.DateTimeField(db_default=Now())
    next_at = models.DateTimeField(null=True, db_default=Now())  # NULL = sent, or given up
    attempts = models.IntegerField(db_default=0)
    sent_at = models.DateTimeField(null=True)
    error = models.TextField(db_default="")  # why the latest attempt failed; "" = it succeeded, or none yet

    class Meta:
        db_table = "vela_alert_notification"
        indexes = [
            models.Index(
                fields=["next_at"],
                name="vela_alert_notification_due",
                condition=models.Q(next_at__isnull=False),
            ),
            models.Index(fields=["rule", "id"], name="vela_alert_notification_rule"),
        ]

    def __str__(self) -> str:
        return f"{self.channel} of {self.rule_id}"
