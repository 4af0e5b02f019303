"""What PostgreSQL keeps (design 4). The broker reads and writes these tables through broker/storage/sql;
the ORM serves Django's admin, tests, migrations and tooling, never a message path.

Times are milliseconds since the epoch in the columns the broker computes with (`…_ms`), `timestamptz` elsewhere.
Over 400 lines, since Django wants an app's models in one place and each says what its rows are.
"""

from __future__ import annotations

from django.db import models

__all__ = [
    "Act",
    "Bookmark",
    "BrokerProcess",
    "ConsumerSession",
    "Cursor",
    "CursorChunk",
    "DeduplicatedProducer",
    "Deduplication",
    "DelayedEntry",
    "Entry",
    "Heartbeat",
    "Ledger",
    "Namespace",
    "Outbox",
    "PendingAck",
    "ProducerSession",
    "Schema",
    "Segment",
    "Subscription",
    "SubscriptionSummary",
    "Tenant",
    "Topic",
    "TopicOwner",
    "TopicSummary",
]


class Tenant(models.Model):
    """The first part of a topic's name."""

    name = models.CharField(max_length=255, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_tenant"

    def __str__(self) -> str:
        return self.name


class Namespace(models.Model):
    """The second part of a topic's name; policies hang here."""

    tenant = models.ForeignKey(Tenant, models.PROTECT)
    name = models.CharField(max_length=255)
    policies = models.JSONField(default=dict)  # broker.core.policies; only what is set
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_namespace"
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="vela_namespace_name")]

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}"


class Topic(models.Model):
    """A topic, a partition of one, or the parent that only says how many partitions there are.

    No row is updated per append: hot counter rows die under a held snapshot (design 4).
    """

    namespace = models.ForeignKey(Namespace, models.PROTECT)
    name = models.TextField(unique=True)  # full: persistent://tenant/namespace/local[-partition-n]
    partitions = models.IntegerField(default=0)  # of a partitioned parent; 0 = holds messages itself
    parent = models.ForeignKey("self", models.CASCADE, null=True, blank=True)
    partition = models.IntegerField(default=-1)  # index inside the parent
    properties = models.JSONField(default=dict)
    policies = models.JSONField(default=dict)  # what is set on this topic; a partition follows its parent
    terminated_at = models.DateTimeField(null=True, blank=True)
    producer_epoch = models.BigIntegerField(null=True, blank=True)  # raised by each exclusive producer
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_topic"

    def __str__(self) -> str:
        return self.name


class TopicOwner(models.Model):
    """The fence: every write to a topic's log or cursors locks this row FOR SHARE at a known epoch."""

    topic = models.OneToOneField(Topic, models.CASCADE, primary_key=True)
    owner_epoch = models.BigIntegerField(default=0)
    owner_token = models.BigIntegerField(default=0)  # random, one a broker process

    class Meta:
        db_table = "vela_topic_owner"

    def __str__(self) -> str:
        return f"{self.topic_id}@{self.owner_epoch}"


class Segment(models.Model):
    """One plain table `vela_entry_<id>` that many ledgers share; retention drops it whole."""

    class State(models.TextChoices):
        OPEN = "open"
        CLOSED = "closed"
        DROPPING = "dropping"

    state = models.CharField(max_length=16, choices=State, default=State.OPEN)
    opened_ms = models.BigIntegerField()
    closed_ms = models.BigIntegerField(null=True, blank=True)
    long_lived = models.BooleanField(db_default=False)  # holds copies of the last ledgers of dropped segments

    class Meta:
        db_table = "vela_segment"

    def __str__(self) -> str:
        return f"vela_entry_{self.pk} ({self.state})"


class Ledger(models.Model):
    """An append-only run of entries of one topic; totals are filled in at seal.

    A trimmed ledger's row goes with it, but for the topic's last: that one stays, empty, and the next continues its
    counts.
    """

    class State(models.TextChoices):
        OPEN = "open"
        SEALED = "sealed"

    topic = models.ForeignKey(Topic, models.CASCADE)
    segment = models.ForeignKey(Segment, models.PROTECT, null=True, blank=True)  # NULL = sealed and empty
    state = models.CharField(max_length=16, choices=State, default=State.OPEN)
    entries = models.BigIntegerField(default=0)
    messages = models.BigIntegerField(default=0)
    size_bytes = models.BigIntegerField(default=0)
    entries_before = models.BigIntegerField(default=0)  # of the topic, before this ledger
    messages_before = models.BigIntegerField(default=0)
    bytes_before = models.BigIntegerField(default=0)
    opened_ms = models.BigIntegerField()
    first_append_ms = models.BigIntegerField(default=0)  # 0 = nothing stored
    last_append_ms = models.BigIntegerField(default=0)

    class Meta:
        db_table = "vela_ledger"
        indexes = [models.Index(fields=["topic", "id"], name="vela_ledger_topic")]

    def __str__(self) -> str:
        return f"{self.pk} of {self.topic_id} ({self.state})"


class Entry(models.Model):
    """One stored record: a message or a producer's batch. Read through a view over the live segments."""

    pk = models.CompositePrimaryKey("ledger_id", "entry_id")
    ledger_id = models.BigIntegerField()
    entry_id = models.BigIntegerField()
    topic_id = models.BigIntegerField()
    messages = models.IntegerField()
    flags = models.SmallIntegerField()
    key_hash = models.IntegerField(null=True)
    append_ms = models.BigIntegerField()
    deliver_at_ms = models.BigIntegerField()
    cumulative_messages = models.BigIntegerField()
    cumulative_bytes = models.BigIntegerField()
    data = models.BinaryField()

    class Meta:
        db_table = "vela_entry"
        managed = False

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"


class DelayedEntry(models.Model):
    """When an entry is due that was not when it was appended; the row goes when it is."""

    pk = models.CompositePrimaryKey("topic_id", "deliver_at_ms", "ledger_id", "entry_id")
    topic_id = models.BigIntegerField()  # no foreign key: written by every append of a delayed message
    deliver_at_ms = models.BigIntegerField()
    ledger_id = models.BigIntegerField()
    entry_id = models.BigIntegerField()

    class Meta:
        db_table = "vela_delayed_entry"

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id} at {self.deliver_at_ms}"


class Subscription(models.Model):
    """A durable subscription: a name, a type and a cursor."""

    topic = models.ForeignKey(Topic, models.CASCADE)
    name = models.TextField()
    type = models.CharField(max_length=16)  # of its consumers, last seen
    properties = models.JSONField(default=dict)
    paused = models.BooleanField(db_default=False)  # by an operator: nothing is dispatched, acks go on
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_subscription"
        constraints = [models.UniqueConstraint(fields=["topic", "name"], name="vela_subscription_name")]

    def __str__(self) -> str:
        return f"{self.topic_id}/{self.name}"


class Cursor(models.Model):
    """How far a subscription is. Small and without an index on what changes, so that updates stay HOT."""

    subscription = models.OneToOneField(Subscription, models.CASCADE, primary_key=True)
    mark_delete_ledger = models.BigIntegerField()
    mark_delete_entry = models.BigIntegerField()
    acked_messages = models.BigIntegerField()  # cumulative over the topic, trimmed ones included
    acked_entries = models.BigIntegerField()
    acked_bytes = models.BigIntegerField()
    version = models.BigIntegerField(default=0)  # counts acts, not acks

    class Meta:
        db_table = "vela_cursor"

    def __str__(self) -> str:
        return f"{self.subscription_id} at {self.mark_delete_ledger}:{self.mark_delete_entry}"


class CursorChunk(models.Model):
    """Acks beyond mark-delete: a bitmap over 32,768 entries, and the ack sets of partly acked batches."""

    pk = models.CompositePrimaryKey("cursor_id", "ledger_id", "chunk")
    cursor = models.ForeignKey(Cursor, models.CASCADE)
    ledger_id = models.BigIntegerField()
    chunk = models.IntegerField()
    bits = models.BinaryField()
    ack_sets = models.BinaryField(default=b"")

    class Meta:
        db_table = "vela_cursor_chunk"

    def __str__(self) -> str:
        return f"{self.cursor_id} {self.ledger_id}#{self.chunk}"


class Deduplication(models.Model):
    """How much of a topic's log its deduplication rows take into account; the rest is read again by a new owner."""

    topic = models.OneToOneField(Topic, models.CASCADE, primary_key=True)
    ledger_id = models.BigIntegerField()
    entry_id = models.BigIntegerField()

    class Meta:
        db_table = "vela_deduplication"

    def __str__(self) -> str:
        return f"{self.topic_id} through {self.ledger_id}:{self.entry_id}"


class DeduplicatedProducer(models.Model):
    """How far a producer name is on a topic whose messages are deduplicated."""

    pk = models.CompositePrimaryKey("topic_id", "producer_name")
    topic = models.ForeignKey(Topic, models.CASCADE, db_index=False)
    producer_name = models.TextField()
    sequence_id = models.BigIntegerField()  # of its last whole message, -1 = none
    chunk_sequence_id = models.BigIntegerField()  # of the large message under way, -1 = none
    chunk_id = models.IntegerField()  # of its last part
    seen_ms = models.BigIntegerField()  # when something of it was stored last

    class Meta:
        db_table = "vela_deduplicated_producer"

    def __str__(self) -> str:
        return f"{self.producer_name} of {self.topic_id} at {self.sequence_id}"


class Schema(models.Model):
    """One version of a topic's schema; partitions have their parent's."""

    pk = models.CompositePrimaryKey("topic_name", "version")
    topic_name = models.TextField()  # full, of the base topic
    version = models.BigIntegerField()  # 0 is the first
    type = models.SmallIntegerField()  # the protocol's Schema.Type
    name = models.TextField()
    data = models.BinaryField()
    properties = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_schema"

    def __str__(self) -> str:
        return f"{self.topic_name} version {self.version}"


class PendingAck(models.Model):
    """A delivery not yet acked, for the console and the sweep; never read to recover (UNLOGGED)."""

    delivery_id = models.BigIntegerField(primary_key=True)
    owner_epoch = models.BigIntegerField()
    topic_id = models.BigIntegerField()
    subscription_id = models.BigIntegerField()
    consumer_key = models.BigIntegerField()
    consumer_name = models.TextField()
    ledger_id = models.BigIntegerField()
    first_entry = models.BigIntegerField()
    last_entry = models.BigIntegerField()
    messages = models.IntegerField()  # not yet acked, over the range
    delivered_ms = models.BigIntegerField()
    redelivery_count = models.IntegerField()
    deadline_ms = models.BigIntegerField(
        null=True
    )  # when the broker takes it back; NULL = the client's clock

    class Meta:
        db_table = "vela_pending_ack"
        indexes = [
            models.Index(fields=["subscription_id", "ledger_id", "first_entry"], name="vela_pending_ack_sub"),
            models.Index(
                fields=["deadline_ms"],
                name="vela_pending_ack_due",
                condition=models.Q(deadline_ms__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.first_entry}-{self.last_entry} at {self.consumer_name}"


class ProducerSession(models.Model):
    """A connected producer (UNLOGGED, written at most once a second when it changed)."""

    key = models.BigIntegerField(primary_key=True)
    owner_epoch = models.BigIntegerField()
    topic_id = models.BigIntegerField(db_index=True)
    name = models.TextField()
    address = models.TextField()
    client_version = models.TextField()
    face = models.CharField(max_length=32)
    connected_ms = models.BigIntegerField()
    messages_in = models.BigIntegerField()
    bytes_in = models.BigIntegerField()
    last_sequence_id = models.BigIntegerField()
    last_send_ms = models.BigIntegerField()  # 0 = never
    updated_ms = models.BigIntegerField()
    properties = models.JSONField(default=dict)  # as the client gave them, long ones cut

    class Meta:
        db_table = "vela_producer_session"

    def __str__(self) -> str:
        return self.name


class ConsumerSession(models.Model):
    """A connected consumer (UNLOGGED, written at most once a second when it changed)."""

    key = models.BigIntegerField(primary_key=True)
    owner_epoch = models.BigIntegerField()
    topic_id = models.BigIntegerField(db_index=True)
    subscription_id = models.BigIntegerField(null=True, db_index=True)  # NULL = a reader's own cursor
    subscription_name = models.TextField()
    subscription_type = models.CharField(max_length=16)
    name = models.TextField()
    address = models.TextField()
    client_version = models.TextField()
    face = models.CharField(max_length=32)
    priority = models.IntegerField()
    connected_ms = models.BigIntegerField()
    permits = models.BigIntegerField()
    unacked_messages = models.BigIntegerField()
    blocked = models.BooleanField()  # on unacked messages
    writable = models.BooleanField()
    messages_out = models.BigIntegerField()
    bytes_out = models.BigIntegerField()
    messages_acked = models.BigIntegerField()
    messages_redelivered = models.BigIntegerField()
    last_flow_ms = models.BigIntegerField()  # 0 = never, here and below
    last_delivery_ms = models.BigIntegerField()
    last_ack_ms = models.BigIntegerField()
    updated_ms = models.BigIntegerField()
    properties = models.JSONField(default=dict)  # as the client gave them, long ones cut

    class Meta:
        db_table = "vela_consumer_session"

    def __str__(self) -> str:
        return self.name


class TopicSummary(models.Model):
    """A topic's numbers for lists, with their age; written by the owner at most once a second when changed."""

    topic = models.OneToOneField(Topic, models.CASCADE, primary_key=True)
    messages_in = models.BigIntegerField()  # cumulative since the topic began
    bytes_in = models.BigIntegerField()
    stored_bytes = models.BigIntegerField()
    producers = models.IntegerField()
    message_rate_in = models.FloatField()  # per second, over the last seconds
    byte_rate_in = models.FloatField()
    last_append_ms = models.BigIntegerField()  # 0 = never
    max_backlog_messages = models.BigIntegerField(db_index=True)  # of its worst subscription
    last_used_ms = models.BigIntegerField(
        db_default=0
    )  # when its last client left; of use while some are connected
    updated_ms = models.BigIntegerField()

    class Meta:
        db_table = "vela_topic_summary"

    def __str__(self) -> str:
        return f"{self.topic_id}: {self.messages_in}"


class SubscriptionSummary(models.Model):
    """A subscription's numbers for lists, with their age; written like TopicSummary."""

    subscription = models.OneToOneField(Subscription, models.CASCADE, primary_key=True)
    # Cumulative. Of the same moment as a messages_in and bytes_in of the topic: the backlog is what these grew beyond.
    acked_messages = models.BigIntegerField(db_default=0)
    acked_bytes = models.BigIntegerField(db_default=0)
    read_ledger = models.BigIntegerField()
    read_entry = models.BigIntegerField()
    consumers = models.IntegerField()
    unacked_messages = models.BigIntegerField()
    replay_entries = models.BigIntegerField()
    message_rate_out = models.FloatField()
    message_rate_acked = models.FloatField()
    messages_redelivered = models.BigIntegerField()
    last_used_ms = models.BigIntegerField(
        db_default=0
    )  # when its last consumer left; of use while some are attached
    updated_ms = models.BigIntegerField()
    problems = models.JSONField(db_default={})  # what went wrong, in words: how often

    class Meta:
        db_table = "vela_subscription_summary"

    def __str__(self) -> str:
        return f"{self.subscription_id}: {self.acked_messages}"


class Act(models.Model):
    """A change an operator, API or CLI makes, from plan to undo; it is the audit log too (design 9)."""

    class State(models.TextChoices):
        PLAN_REQUESTED = "plan_requested"
        PLANNED = "planned"
        APPLY_REQUESTED = "apply_requested"
        APPLYING = "applying"  # long work under way; a broker that starts goes on with it
        APPLIED = "applied"
        REFUSED = "refused"
        FAILED = "failed"
        EXPIRED = "expired"
        CLIENT = "client"  # a client's own command, under way

    kind = models.CharField(max_length=32)
    state = models.CharField(max_length=16, choices=State)
    topic = models.ForeignKey(Topic, models.SET_NULL, null=True)
    subscription = models.ForeignKey(Subscription, models.SET_NULL, null=True)
    topic_name = models.TextField()  # kept after the topic is gone
    subscription_name = models.TextField()
    parameters = models.JSONField(default=dict)
    plan = models.JSONField(null=True)
    result = models.JSONField(null=True)
    error = models.TextField(default="")
    error_code = models.CharField(max_length=64, db_default="")  # of the refusal, as clients know it
    progress = models.JSONField(null=True)  # of long work
    who = models.TextField()
    origin = models.TextField()  # "console 127.0.0.1", "command line", "client 127.0.0.1:5123"
    reason = models.TextField(default="")
    cursor_version = models.BigIntegerField(null=True)  # the plan holds for this version only
    cursor_before = models.BinaryField(null=True)  # snapshot for undo
    acked_since = models.BinaryField(null=True)  # acks of what it passed, while it can be undone
    undo_of = models.ForeignKey("self", models.SET_NULL, null=True)
    undo_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    requested_at = models.DateTimeField()  # of the plan or the apply, whichever waits
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "vela_act"
        indexes = [
            models.Index(fields=["subscription", "-id"], name="vela_act_subscription"),
            models.Index(
                fields=["id"],
                name="vela_act_waiting",
                condition=models.Q(state__in=["plan_requested", "apply_requested"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.topic_name}/{self.subscription_name} ({self.state})"


class Bookmark(models.Model):
    """A named position of a topic to which cursors can be reset; what it names and what follows is kept until then."""

    topic = models.ForeignKey(Topic, models.CASCADE)
    name = models.TextField()
    ledger_id = models.BigIntegerField()
    entry_id = models.BigIntegerField()
    until = models.DateTimeField(
        null=True, blank=True
    )  # keeps data no longer than this; NULL = until removed
    who = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_bookmark"
        constraints = [models.UniqueConstraint(fields=["topic", "name"], name="vela_bookmark_name")]

    def __str__(self) -> str:
        return f"{self.name}: {self.ledger_id}:{self.entry_id} of {self.topic_id}"


class Outbox(models.Model):
    """A message published inside a transaction of Django's: committed with it or not at all, then moved into the log.

    No foreign key: publishing locks no row of Vela's.
    """

    topic = models.TextField()  # as the publisher wrote it, full or short
    key_hash = models.IntegerField(null=True)
    deliver_at_ms = models.BigIntegerField()  # 0 = at once
    data = models.BinaryField()  # the final entry
    error = models.TextField(default="")  # why the topic did not take it
    retry_at = models.DateTimeField(null=True)  # after an error
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_outbox"
        indexes = [models.Index(fields=["topic", "id"], name="vela_outbox_topic")]

    def __str__(self) -> str:
        return f"{self.pk} to {self.topic}"


class BrokerProcess(models.Model):
    """Who holds the broker lock, so that a second broker and the console can name it."""

    id = models.SmallIntegerField(primary_key=True)  # 1: one broker a database in this release
    host = models.TextField()
    pid = models.IntegerField()
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    http_url = models.TextField()
    pulsar_url = models.TextField()

    class Meta:
        db_table = "vela_broker"

    def __str__(self) -> str:
        return f"{self.host} pid {self.pid}"


class Heartbeat(models.Model):
    """When a part driven by time last ran: `beat` sent a tick, `worker` ran one."""

    name = models.CharField(max_length=32, primary_key=True)
    at = models.DateTimeField()

    class Meta:
        db_table = "vela_heartbeat"

    def __str__(self) -> str:
        return f"{self.name} {self.at}"
