"""Alert rules, alerts and notifications."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from broker.core.alerts import Measure, Severity

__all__ = ["AlertFiring", "AlertNotification", "AlertRule", "Measure", "Severity"]


class AlertRule(models.Model):
    """A condition, and the addresses to notify when the condition is met."""

    name = models.TextField(unique=True)
    measure = models.CharField(max_length=16, choices=[(each.value, each.value) for each in Measure])
    threshold = models.BigIntegerField(null=True)  # NULL if the measure has no threshold
    # A rule about dead letters looks back this far.
    within_ms = models.BigIntegerField(null=True)
    # The alert fires when its condition has been true for this long, and clears when it has been false for this long.
    for_ms = models.BigIntegerField()
    namespaces = models.TextField()  # `*`, `tenant/*` or `tenant/namespace`
    topics = models.TextField(default="*")  # A pattern for local names, where `*` matches anything
    subscriptions = models.TextField(default="*")
    severity = models.CharField(max_length=16, choices=[(each.value, each.value) for each in Severity])
    webhook_url = models.TextField(default="")  # May contain a secret
    email = models.TextField(default="")
    silent_until = models.DateTimeField(null=True)
    who = models.TextField()
    created_at = models.DateTimeField(db_default=Now())
    evaluated_ms = models.BigIntegerField(null=True)
    notified_ms = models.BigIntegerField(null=True)

    class Meta:
        db_table = "vela_alert_rule"

    def __str__(self) -> str:
        return self.name


class AlertFiring(models.Model):
    """An alert about a subscription, a topic or the broker."""

    rule = models.ForeignKey(AlertRule, models.SET_NULL, null=True)
    rule_name = models.TextField()
    severity = models.CharField(max_length=16)
    measure = models.CharField(max_length=16)
    # No foreign keys, because an alert may outlive its topic and subscription.
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
    is_told = models.BooleanField(default=False)
    # True if a notification said that the alert cleared, or if no such notification is needed
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
    """One notification to one address. After a crash, the notification may be sent twice."""

    rule = models.ForeignKey(AlertRule, models.CASCADE)
    channel = models.CharField(max_length=16, choices=[("webhook", "webhook"), ("email", "e-mail")])
    body = models.JSONField()
    created_at = models.DateTimeField(db_default=Now())
    next_at = models.DateTimeField(null=True, db_default=Now())  # NULL after the last attempt
    attempts = models.IntegerField(db_default=0)
    sent_at = models.DateTimeField(null=True)
    error = models.TextField(db_default="")

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
