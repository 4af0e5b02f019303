"""Tables of tenants, namespaces, topics, topic owners and schemas."""

from __future__ import annotations

from django.db import models

__all__ = ["Namespace", "Schema", "Tenant", "Topic", "TopicOwner"]


class Tenant(models.Model):
    """A tenant, which contains namespaces."""

    name = models.CharField(max_length=255, unique=True)
    is_kept = models.BooleanField(db_default=False)  # If true, the tenant stays even without namespaces
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_tenant"

    def __str__(self) -> str:
        return self.name


class Namespace(models.Model):
    """A namespace of a tenant."""

    tenant = models.ForeignKey(Tenant, models.PROTECT)
    name = models.CharField(max_length=255)
    policies = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_namespace"
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="vela_namespace_name")]

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}"


class Topic(models.Model):
    """A topic or a partition. The messages of a partitioned topic belong to its partitions.

    Appends must not update this table. While a transaction keeps an old snapshot, frequent updates make reads slow.
    """

    namespace = models.ForeignKey(Namespace, models.PROTECT)
    name = models.TextField(unique=True)  # Full name, such as persistent://tenant/namespace/topic
    partitions = models.IntegerField(default=0)  # 0 means that the topic is not partitioned
    parent = models.ForeignKey("self", models.CASCADE, null=True, blank=True)
    partition = models.IntegerField(default=-1)  # -1 means that the topic is not a partition
    properties = models.JSONField(default=dict)
    # A partition uses its parent's policies.
    policies = models.JSONField(default=dict)
    terminated_at = models.DateTimeField(null=True, blank=True)
    producer_epoch = models.BigIntegerField(null=True, blank=True)
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
    """The broker process that owns a topic.

    A write to the topic's log or cursors locks this row FOR SHARE. A write under an old epoch stores nothing.
    """

    topic = models.OneToOneField(Topic, models.CASCADE, primary_key=True)
    owner_epoch = models.BigIntegerField(default=0)
    owner_token = models.BigIntegerField(default=0)  # Random number that identifies the broker process

    class Meta:
        db_table = "vela_topic_owner"

    def __str__(self) -> str:
        return f"{self.topic_id}@{self.owner_epoch}"


class Schema(models.Model):
    """One version of a topic's schema. Partitions use the schemas of their parent topic."""

    pk = models.CompositePrimaryKey("topic_name", "version")
    topic_name = models.TextField()
    version = models.BigIntegerField()
    type = models.SmallIntegerField()  # 0 means that the schema was deleted
    name = models.TextField()
    data = models.BinaryField()
    properties = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_schema"

    def __str__(self) -> str:
        return f"{self.topic_name} version {self.version}"
