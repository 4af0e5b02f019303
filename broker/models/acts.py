"""Acts and bookmarks."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Coalesce

from broker.models.subscriptions import Subscription
from broker.models.topics import Topic

__all__ = ["Act", "Bookmark"]

# The tenant/namespace or tenant/* in `topic_name`; "" if there is none, as in "*".
_NAMESPACE = Coalesce(
    models.Func("topic_name", models.Value("^(?:[a-z-]+://)?([^/]+/[^/]+)"), function="substring"),
    models.Value(""),
)


class Act(models.Model):
    """A change by an operator, a client or a policy, with its plan and its result. The table is also the audit log."""

    class State(models.TextChoices):
        PLAN_REQUESTED = "plan_requested"
        PLANNED = "planned"
        APPLY_REQUESTED = "apply_requested"
        APPLYING = "applying"  # long work in progress; a broker that starts continues it
        APPLIED = "applied"
        REFUSED = "refused"
        FAILED = "failed"
        EXPIRED = "expired"
        CLIENT = "client"  # in progress: a client's own command, an eviction, or an expiry of a subscription

    kind = models.CharField(max_length=32)
    state = models.CharField(max_length=16, choices=State)
    topic = models.ForeignKey(Topic, models.SET_NULL, null=True)
    subscription = models.ForeignKey(Subscription, models.SET_NULL, null=True)
    topic_name = models.TextField()  # kept after the topic is deleted
    namespace = models.GeneratedField(  # tenant/namespace, which limits what some users see
        expression=_NAMESPACE, output_field=models.TextField(), db_persist=True
    )
    subscription_name = models.TextField()
    parameters = models.JSONField(default=dict)
    plan = models.JSONField(null=True)
    result = models.JSONField(null=True)
    error = models.TextField(default="")
    error_code = models.CharField(max_length=64, db_default="")  # why it was refused, failed or expired
    progress = models.JSONField(null=True)  # of long work; for a publish, the end of the log before the send
    message = models.BinaryField(null=True)  # the entry that a publish stores; NULL once the act has ended
    who = models.TextField()
    origin = models.TextField()  # "console 127.0.0.1", "command line", "client 127.0.0.1:5123"
    reason = models.TextField(default="")
    cursor_version = models.BigIntegerField(null=True)  # the plan is valid only for this version
    cursor_before = models.BinaryField(null=True)  # snapshot for undo
    acked_since = models.BinaryField(null=True)  # acks of entries that the act passed, while it can be undone
    undo_of = models.ForeignKey("self", models.SET_NULL, null=True)
    # The act on several partitions that this act is a part of; NULL = none. The unique constraint serves as the index.
    part_of = models.ForeignKey("self", models.SET_NULL, null=True, related_name="parts", db_index=False)
    undo_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    requested_at = models.DateTimeField()  # time of the last request: for the plan, or to apply it
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "vela_act"
        indexes = [
            models.Index(fields=["subscription", "-id"], name="vela_act_subscription"),
            models.Index(fields=["namespace", "-id"], name="vela_act_namespace"),
            models.Index(
                models.Func("namespace", models.Value("/"), models.Value(1), function="split_part"),
                models.F("id").desc(),
                name="vela_act_tenant",
            ),
            models.Index(
                fields=["id"],
                name="vela_act_waiting",
                condition=models.Q(state__in=["plan_requested", "apply_requested"]),
            ),
            models.Index(
                fields=["id"], name="vela_act_clients", condition=models.Q(origin__startswith="client ")
            ),
            models.Index(fields=["topic"], name="vela_act_redrives", condition=models.Q(kind="redrive")),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["part_of", "topic"],
                name="vela_act_part",
                condition=models.Q(part_of__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.topic_name}/{self.subscription_name} ({self.state})"


class Bookmark(models.Model):
    """A named position in a topic, to which cursors can be reset. It pins the entries at and after this position."""

    topic = models.ForeignKey(Topic, models.CASCADE)
    name = models.TextField()
    ledger_id = models.BigIntegerField()
    entry_id = models.BigIntegerField()
    until = models.DateTimeField(null=True, blank=True)  # pins entries until then; NULL = until deleted
    who = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_bookmark"
        constraints = [models.UniqueConstraint(fields=["topic", "name"], name="vela_bookmark_name")]

    def __str__(self) -> str:
        return f"{self.name}: {self.ledger_id}:{self.entry_id} of {self.topic_id}"
