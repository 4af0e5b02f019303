"""Topics, with their tenants and namespaces, owners and schemas."""

from __future__ import annotations

from django.db import models

__all__ = ["Namespace", "Schema", "Tenant", "Topic", "TopicOwner"]


class Tenant(models.Model):
    """The first part of a topic's name."""

    name = models.CharField(max_length=255, unique=True)
    # True once the tenant was created or changed on request. Then the tenant stays even without a namespace.
    is_kept = models.BooleanField(db_default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_tenant"

    def __str__(self) -> str:
        return self.name


class Namespace(models.Model):
    """The second part of a topic's name. It has policies."""

    tenant = models.ForeignKey(Tenant, models.PROTECT)
    name = models.CharField(max_length=255)
    policies = models.JSONField(default=dict)  # broker.core.policies; only those that are set
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_namespace"
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="vela_namespace_name")]

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}"


class Topic(models.Model):
    """A topic, a partition, or a partitioned topic: the parent of its partitions, which has no messages of its own.

    An append updates no row here: a row that changes all the time gets slow while a transaction keeps an old snapshot
    open.
    """

    namespace = models.ForeignKey(Namespace, models.PROTECT)
    name = models.TextField(unique=True)  # full: persistent://tenant/namespace/local[-partition-n]
    partitions = models.IntegerField(default=0)  # of a partitioned parent; 0 = the topic itself has messages
    parent = models.ForeignKey("self", models.CASCADE, null=True, blank=True)
    partition = models.IntegerField(default=-1)  # index inside the parent; -1 = none
    properties = models.JSONField(default=dict)
    # The policies set on this topic; a partition follows its parent.
    policies = models.JSONField(default=dict)
    terminated_at = models.DateTimeField(null=True, blank=True)
    producer_epoch = models.BigIntegerField(null=True, blank=True)  # raised by each exclusive producer
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_topic"
        indexes = [
            models.Index(
                fields=["name"],
                name="vela_topic_dead_letters",
                condition=models.Q(partitions=0)
                & (models.Q(name__endswith="-DLQ") | models.Q(name__regex="-DLQ-partition-[0-9]+$")),
            )
        ]

    def __str__(self) -> str:
        return self.name


class TopicOwner(models.Model):
    """The fence: a write to a topic's log or cursors locks this row FOR SHARE and stores nothing under an old epoch."""

    topic = models.OneToOneField(Topic, models.CASCADE, primary_key=True)
    owner_epoch = models.BigIntegerField(default=0)
    owner_token = models.BigIntegerField(default=0)  # random, one per broker process

    class Meta:
        db_table = "vela_topic_owner"

    def __str__(self) -> str:
        return f"{self.topic_id}@{self.owner_epoch}"


class Schema(models.Model):
    """One version of a topic's schema. Partitions use the schemas of their parent."""

    pk = models.CompositePrimaryKey("topic_name", "version")
    topic_name = models.TextField()  # full name; for a partition, its parent's
    version = models.BigIntegerField()  # 0 is the first
    type = models.SmallIntegerField()  # the protocol's Schema.Type; 0 = the schema was deleted
    name = models.TextField()
    data = models.BinaryField()
    properties = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_schema"

    def __str__(self) -> str:
        return f"{self.topic_name} version {self.version}"
