"""The tables of the models, and what models cannot say: functions, UNLOGGED tables, views, a first segment.

Over 400 lines: what a migration made once is not taken apart.
"""

import django.db.models.deletion
from django.db import migrations, models

from broker.storage.queries import script


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Entry",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "ledger_id", "entry_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("ledger_id", models.BigIntegerField()),
                ("entry_id", models.BigIntegerField()),
                ("topic_id", models.BigIntegerField()),
                ("messages", models.IntegerField()),
                ("flags", models.SmallIntegerField()),
                ("key_hash", models.IntegerField(null=True)),
                ("append_ms", models.BigIntegerField()),
                ("deliver_at_ms", models.BigIntegerField()),
                ("cumulative_messages", models.BigIntegerField()),
                ("cumulative_bytes", models.BigIntegerField()),
                ("data", models.BinaryField()),
            ],
            options={
                "db_table": "vela_entry",
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="BrokerProcess",
            fields=[
                ("id", models.SmallIntegerField(primary_key=True, serialize=False)),
                ("host", models.TextField()),
                ("pid", models.IntegerField()),
                ("started_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField()),
                ("stopped_at", models.DateTimeField(null=True)),
                ("http_url", models.TextField()),
                ("pulsar_url", models.TextField()),
            ],
            options={
                "db_table": "vela_broker",
            },
        ),
        migrations.CreateModel(
            name="StatsPoint10s",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "at_ms",
                        "topic_id",
                        "subscription_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("at_ms", models.BigIntegerField()),
                ("topic_id", models.BigIntegerField()),
                ("subscription_id", models.BigIntegerField()),
                ("messages_in", models.BigIntegerField(null=True)),
                ("bytes_in", models.BigIntegerField(null=True)),
                ("messages_out", models.BigIntegerField()),
                ("messages_acked", models.BigIntegerField()),
                ("messages_redelivered", models.BigIntegerField()),
                ("backlog_before", models.BigIntegerField(null=True)),
                ("backlog", models.BigIntegerField(null=True)),
                ("backlog_most", models.BigIntegerField(null=True)),
                ("stored_bytes", models.BigIntegerField(null=True)),
            ],
            options={
                "db_table": "vela_stats_point_10s",
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="StatsPoint60s",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "at_ms",
                        "topic_id",
                        "subscription_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("at_ms", models.BigIntegerField()),
                ("topic_id", models.BigIntegerField()),
                ("subscription_id", models.BigIntegerField()),
                ("messages_in", models.BigIntegerField(null=True)),
                ("bytes_in", models.BigIntegerField(null=True)),
                ("messages_out", models.BigIntegerField()),
                ("messages_acked", models.BigIntegerField()),
                ("messages_redelivered", models.BigIntegerField()),
                ("backlog_before", models.BigIntegerField(null=True)),
                ("backlog", models.BigIntegerField(null=True)),
                ("backlog_most", models.BigIntegerField(null=True)),
                ("stored_bytes", models.BigIntegerField(null=True)),
            ],
            options={
                "db_table": "vela_stats_point_60s",
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="StatsPoint600s",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "at_ms",
                        "topic_id",
                        "subscription_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("at_ms", models.BigIntegerField()),
                ("topic_id", models.BigIntegerField()),
                ("subscription_id", models.BigIntegerField()),
                ("messages_in", models.BigIntegerField(null=True)),
                ("bytes_in", models.BigIntegerField(null=True)),
                ("messages_out", models.BigIntegerField()),
                ("messages_acked", models.BigIntegerField()),
                ("messages_redelivered", models.BigIntegerField()),
                ("backlog_before", models.BigIntegerField(null=True)),
                ("backlog", models.BigIntegerField(null=True)),
                ("backlog_most", models.BigIntegerField(null=True)),
                ("stored_bytes", models.BigIntegerField(null=True)),
            ],
            options={
                "db_table": "vela_stats_point_600s",
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="StatsPoint3600s",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "at_ms",
                        "topic_id",
                        "subscription_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("at_ms", models.BigIntegerField()),
                ("topic_id", models.BigIntegerField()),
                ("subscription_id", models.BigIntegerField()),
                ("messages_in", models.BigIntegerField(null=True)),
                ("bytes_in", models.BigIntegerField(null=True)),
                ("messages_out", models.BigIntegerField()),
                ("messages_acked", models.BigIntegerField()),
                ("messages_redelivered", models.BigIntegerField()),
                ("backlog_before", models.BigIntegerField(null=True)),
                ("backlog", models.BigIntegerField(null=True)),
                ("backlog_most", models.BigIntegerField(null=True)),
                ("stored_bytes", models.BigIntegerField(null=True)),
            ],
            options={
                "db_table": "vela_stats_point_3600s",
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="StatsProgress",
            fields=[
                ("resolution_s", models.IntegerField(primary_key=True, serialize=False)),
                ("until_ms", models.BigIntegerField()),
            ],
            options={
                "db_table": "vela_stats_progress",
            },
        ),
        migrations.CreateModel(
            name="ConsumerSession",
            fields=[
                ("key", models.BigIntegerField(primary_key=True, serialize=False)),
                ("owner_epoch", models.BigIntegerField()),
                ("topic_id", models.BigIntegerField(db_index=True)),
                ("subscription_id", models.BigIntegerField(db_index=True, null=True)),
                ("subscription_name", models.TextField()),
                ("subscription_type", models.CharField(max_length=16)),
                ("name", models.TextField()),
                ("address", models.TextField()),
                ("client_version", models.TextField()),
                ("face", models.CharField(max_length=32)),
                ("priority", models.IntegerField()),
                ("connected_ms", models.BigIntegerField()),
                ("permits", models.BigIntegerField()),
                ("unacked_messages", models.BigIntegerField()),
                ("blocked", models.BooleanField()),
                ("writable", models.BooleanField()),
                ("messages_out", models.BigIntegerField()),
                ("bytes_out", models.BigIntegerField()),
                ("messages_acked", models.BigIntegerField()),
                ("messages_redelivered", models.BigIntegerField()),
                ("last_flow_ms", models.BigIntegerField()),
                ("last_delivery_ms", models.BigIntegerField()),
                ("last_ack_ms", models.BigIntegerField()),
                ("updated_ms", models.BigIntegerField()),
                ("properties", models.JSONField(default=dict)),
            ],
            options={
                "db_table": "vela_consumer_session",
            },
        ),
        migrations.CreateModel(
            name="Subscription",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.TextField()),
                ("type", models.CharField(max_length=16)),
                ("properties", models.JSONField(default=dict)),
                ("paused", models.BooleanField(db_default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "db_table": "vela_subscription",
            },
        ),
        migrations.CreateModel(
            name="Topic",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.TextField(unique=True)),
                ("partitions", models.IntegerField(default=0)),
                ("partition", models.IntegerField(default=-1)),
                ("properties", models.JSONField(default=dict)),
                ("policies", models.JSONField(default=dict)),
                ("terminated_at", models.DateTimeField(blank=True, null=True)),
                ("producer_epoch", models.BigIntegerField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "parent",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, to="broker.topic"
                    ),
                ),
            ],
            options={
                "db_table": "vela_topic",
            },
        ),
        migrations.CreateModel(
            name="DelayedEntry",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "topic_id",
                        "deliver_at_ms",
                        "ledger_id",
                        "entry_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("topic_id", models.BigIntegerField()),
                ("deliver_at_ms", models.BigIntegerField()),
                ("ledger_id", models.BigIntegerField()),
                ("entry_id", models.BigIntegerField()),
            ],
            options={
                "db_table": "vela_delayed_entry",
            },
        ),
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                ("name", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
            ],
            options={
                "db_table": "vela_heartbeat",
            },
        ),
        migrations.CreateModel(
            name="Namespace",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=255)),
                ("policies", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "db_table": "vela_namespace",
            },
        ),
        migrations.CreateModel(
            name="ProducerSession",
            fields=[
                ("key", models.BigIntegerField(primary_key=True, serialize=False)),
                ("owner_epoch", models.BigIntegerField()),
                ("topic_id", models.BigIntegerField(db_index=True)),
                ("name", models.TextField()),
                ("address", models.TextField()),
                ("client_version", models.TextField()),
                ("face", models.CharField(max_length=32)),
                ("connected_ms", models.BigIntegerField()),
                ("messages_in", models.BigIntegerField()),
                ("bytes_in", models.BigIntegerField()),
                ("last_sequence_id", models.BigIntegerField()),
                ("last_send_ms", models.BigIntegerField()),
                ("updated_ms", models.BigIntegerField()),
                ("properties", models.JSONField(default=dict)),
            ],
            options={
                "db_table": "vela_producer_session",
            },
        ),
        migrations.CreateModel(
            name="Schema",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "topic_name", "version", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("topic_name", models.TextField()),
                ("version", models.BigIntegerField()),
                ("type", models.SmallIntegerField()),
                ("name", models.TextField()),
                ("data", models.BinaryField()),
                ("properties", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "db_table": "vela_schema",
            },
        ),
        migrations.CreateModel(
            name="Segment",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[("open", "Open"), ("closed", "Closed"), ("dropping", "Dropping")],
                        default="open",
                        max_length=16,
                    ),
                ),
                ("opened_ms", models.BigIntegerField()),
                ("closed_ms", models.BigIntegerField(blank=True, null=True)),
                ("long_lived", models.BooleanField(db_default=False)),
            ],
            options={
                "db_table": "vela_segment",
            },
        ),
        migrations.CreateModel(
            name="Tenant",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=255, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "db_table": "vela_tenant",
            },
        ),
        migrations.CreateModel(
            name="Cursor",
            fields=[
                (
                    "subscription",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="broker.subscription",
                    ),
                ),
                ("mark_delete_ledger", models.BigIntegerField()),
                ("mark_delete_entry", models.BigIntegerField()),
                ("acked_messages", models.BigIntegerField()),
                ("acked_entries", models.BigIntegerField()),
                ("acked_bytes", models.BigIntegerField()),
                ("version", models.BigIntegerField(default=0)),
            ],
            options={
                "db_table": "vela_cursor",
            },
        ),
        migrations.CreateModel(
            name="SubscriptionObstacles",
            fields=[
                (
                    "subscription",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="broker.subscription",
                    ),
                ),
                ("blocked", models.BooleanField()),
                ("rate_limited", models.BooleanField()),
                ("gap", models.TextField()),
                ("active_consumer", models.BigIntegerField()),
                ("first_redeliveries", models.IntegerField()),
                ("key_slot", models.IntegerField()),
                ("key_consumer", models.BigIntegerField()),
                ("key_waiting_entries", models.BigIntegerField()),
                ("key_is_draining", models.BooleanField()),
            ],
            options={
                "db_table": "vela_subscription_obstacles",
            },
        ),
        migrations.CreateModel(
            name="ConsumerDeparture",
            fields=[
                (
                    "subscription",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="broker.subscription",
                    ),
                ),
                ("name", models.TextField()),
                ("address", models.TextField()),
                ("client_version", models.TextField()),
                ("cause", models.CharField(max_length=16)),
                ("detail", models.TextField()),
                ("connected_ms", models.BigIntegerField()),
                ("left_ms", models.BigIntegerField()),
            ],
            options={
                "db_table": "vela_consumer_departure",
            },
        ),
        migrations.CreateModel(
            name="SubscriptionSummary",
            fields=[
                (
                    "subscription",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="broker.subscription",
                    ),
                ),
                ("acked_messages", models.BigIntegerField(db_default=0)),
                ("acked_bytes", models.BigIntegerField(db_default=0)),
                ("read_ledger", models.BigIntegerField()),
                ("read_entry", models.BigIntegerField()),
                ("consumers", models.IntegerField()),
                ("unacked_messages", models.BigIntegerField()),
                ("replay_entries", models.BigIntegerField()),
                ("message_rate_out", models.FloatField()),
                ("message_rate_acked", models.FloatField()),
                ("messages_redelivered", models.BigIntegerField()),
                ("last_used_ms", models.BigIntegerField(db_default=0)),
                ("updated_ms", models.BigIntegerField()),
                ("problems", models.JSONField(db_default={})),
                (
                    "state",
                    models.SmallIntegerField(
                        choices=[
                            (1, "stuck"),
                            (2, "falling behind"),
                            (3, "paused"),
                            (4, "draining"),
                            (5, "watching"),
                            (6, "keeping up"),
                            (7, "idle"),
                        ],
                        db_default=5,
                    ),
                ),
                ("state_since_ms", models.BigIntegerField(db_default=0)),
                ("drain_s", models.BigIntegerField(null=True)),
            ],
            options={
                "db_table": "vela_subscription_summary",
                "indexes": [
                    models.Index(
                        fields=["state", "state_since_ms", "subscription"], name="vela_subscription_worst"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Deduplication",
            fields=[
                (
                    "topic",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="broker.topic",
                    ),
                ),
                ("ledger_id", models.BigIntegerField()),
                ("entry_id", models.BigIntegerField()),
            ],
            options={
                "db_table": "vela_deduplication",
            },
        ),
        migrations.CreateModel(
            name="TopicOwner",
            fields=[
                (
                    "topic",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="broker.topic",
                    ),
                ),
                ("owner_epoch", models.BigIntegerField(default=0)),
                ("owner_token", models.BigIntegerField(default=0)),
            ],
            options={
                "db_table": "vela_topic_owner",
            },
        ),
        migrations.CreateModel(
            name="TopicSummary",
            fields=[
                (
                    "topic",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="broker.topic",
                    ),
                ),
                ("messages_in", models.BigIntegerField()),
                ("bytes_in", models.BigIntegerField()),
                ("stored_bytes", models.BigIntegerField()),
                ("producers", models.IntegerField()),
                ("message_rate_in", models.FloatField()),
                ("byte_rate_in", models.FloatField()),
                ("last_append_ms", models.BigIntegerField()),
                ("max_backlog_messages", models.BigIntegerField(db_index=True)),
                ("last_used_ms", models.BigIntegerField(db_default=0)),
                ("updated_ms", models.BigIntegerField()),
                (
                    "state",
                    models.SmallIntegerField(
                        choices=[
                            (1, "stuck"),
                            (2, "falling behind"),
                            (3, "paused"),
                            (4, "draining"),
                            (5, "watching"),
                            (6, "keeping up"),
                            (7, "idle"),
                        ],
                        null=True,
                    ),
                ),
                ("state_since_ms", models.BigIntegerField(db_default=0)),
            ],
            options={
                "db_table": "vela_topic_summary",
                "indexes": [
                    models.Index(
                        fields=["state", "state_since_ms", "topic"], name="vela_topic_summary_worst"
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="subscription",
            name="topic",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="broker.topic"),
        ),
        migrations.CreateModel(
            name="DeduplicatedProducer",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "topic_id",
                        "producer_name",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("producer_name", models.TextField()),
                ("sequence_id", models.BigIntegerField()),
                ("chunk_sequence_id", models.BigIntegerField()),
                ("chunk_id", models.IntegerField()),
                ("seen_ms", models.BigIntegerField()),
                (
                    "topic",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, to="broker.topic"
                    ),
                ),
            ],
            options={
                "db_table": "vela_deduplicated_producer",
            },
        ),
        migrations.CreateModel(
            name="Bookmark",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.TextField()),
                ("ledger_id", models.BigIntegerField()),
                ("entry_id", models.BigIntegerField()),
                ("until", models.DateTimeField(blank=True, null=True)),
                ("who", models.TextField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("topic", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="broker.topic")),
            ],
            options={
                "db_table": "vela_bookmark",
            },
        ),
        migrations.CreateModel(
            name="Act",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(max_length=32)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("plan_requested", "Plan Requested"),
                            ("planned", "Planned"),
                            ("apply_requested", "Apply Requested"),
                            ("applying", "Applying"),
                            ("applied", "Applied"),
                            ("refused", "Refused"),
                            ("failed", "Failed"),
                            ("expired", "Expired"),
                            ("client", "Client"),
                        ],
                        max_length=16,
                    ),
                ),
                ("topic_name", models.TextField()),
                ("subscription_name", models.TextField()),
                ("parameters", models.JSONField(default=dict)),
                ("plan", models.JSONField(null=True)),
                ("result", models.JSONField(null=True)),
                ("error", models.TextField(default="")),
                ("error_code", models.CharField(db_default="", max_length=64)),
                ("progress", models.JSONField(null=True)),
                ("who", models.TextField()),
                ("origin", models.TextField()),
                ("reason", models.TextField(default="")),
                ("cursor_version", models.BigIntegerField(null=True)),
                ("cursor_before", models.BinaryField(null=True)),
                ("acked_since", models.BinaryField(null=True)),
                ("undo_until", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("requested_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "undo_of",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to="broker.act"
                    ),
                ),
                (
                    "subscription",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to="broker.subscription"
                    ),
                ),
                (
                    "topic",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to="broker.topic"
                    ),
                ),
            ],
            options={
                "db_table": "vela_act",
            },
        ),
        migrations.AddField(
            model_name="topic",
            name="namespace",
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="broker.namespace"),
        ),
        migrations.CreateModel(
            name="Outbox",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("topic", models.TextField()),
                ("key_hash", models.IntegerField(null=True)),
                ("deliver_at_ms", models.BigIntegerField()),
                ("data", models.BinaryField()),
                ("error", models.TextField(default="")),
                ("retry_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "db_table": "vela_outbox",
                "indexes": [models.Index(fields=["topic", "id"], name="vela_outbox_topic")],
            },
        ),
        migrations.CreateModel(
            name="PendingAck",
            fields=[
                ("delivery_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("owner_epoch", models.BigIntegerField()),
                ("topic_id", models.BigIntegerField()),
                ("subscription_id", models.BigIntegerField()),
                ("consumer_key", models.BigIntegerField()),
                ("consumer_name", models.TextField()),
                ("ledger_id", models.BigIntegerField()),
                ("first_entry", models.BigIntegerField()),
                ("last_entry", models.BigIntegerField()),
                ("messages", models.IntegerField()),
                ("delivered_ms", models.BigIntegerField()),
                ("redelivery_count", models.IntegerField()),
                ("deadline_ms", models.BigIntegerField(null=True)),
            ],
            options={
                "db_table": "vela_pending_ack",
                "indexes": [
                    models.Index(
                        fields=["subscription_id", "ledger_id", "first_entry"], name="vela_pending_ack_sub"
                    ),
                    models.Index(
                        condition=models.Q(("deadline_ms__isnull", False)),
                        fields=["deadline_ms"],
                        name="vela_pending_ack_due",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Ledger",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[("open", "Open"), ("sealed", "Sealed")], default="open", max_length=16
                    ),
                ),
                ("entries", models.BigIntegerField(default=0)),
                ("messages", models.BigIntegerField(default=0)),
                ("size_bytes", models.BigIntegerField(default=0)),
                ("entries_before", models.BigIntegerField(default=0)),
                ("messages_before", models.BigIntegerField(default=0)),
                ("bytes_before", models.BigIntegerField(default=0)),
                ("opened_ms", models.BigIntegerField()),
                ("first_append_ms", models.BigIntegerField(default=0)),
                ("last_append_ms", models.BigIntegerField(default=0)),
                ("topic", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="broker.topic")),
                (
                    "segment",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="broker.segment",
                    ),
                ),
            ],
            options={
                "db_table": "vela_ledger",
            },
        ),
        migrations.AddField(
            model_name="namespace",
            name="tenant",
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="broker.tenant"),
        ),
        migrations.CreateModel(
            name="CursorChunk",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cursor_id",
                        "ledger_id",
                        "chunk",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("ledger_id", models.BigIntegerField()),
                ("chunk", models.IntegerField()),
                ("bits", models.BinaryField()),
                ("ack_sets", models.BinaryField(default=b"")),
                (
                    "cursor",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="broker.cursor"),
                ),
            ],
            options={
                "db_table": "vela_cursor_chunk",
            },
        ),
        migrations.AddConstraint(
            model_name="subscription",
            constraint=models.UniqueConstraint(fields=("topic", "name"), name="vela_subscription_name"),
        ),
        migrations.AddConstraint(
            model_name="bookmark",
            constraint=models.UniqueConstraint(fields=("topic", "name"), name="vela_bookmark_name"),
        ),
        migrations.AddIndex(
            model_name="act",
            index=models.Index(fields=["subscription", "-id"], name="vela_act_subscription"),
        ),
        migrations.AddIndex(
            model_name="act",
            index=models.Index(
                condition=models.Q(("state__in", ["plan_requested", "apply_requested"])),
                fields=["id"],
                name="vela_act_waiting",
            ),
        ),
        migrations.AddIndex(
            model_name="ledger",
            index=models.Index(fields=["topic", "id"], name="vela_ledger_topic"),
        ),
        migrations.AddConstraint(
            model_name="namespace",
            constraint=models.UniqueConstraint(fields=("tenant", "name"), name="vela_namespace_name"),
        ),
        migrations.RunSQL(script("functions", "functions"), migrations.RunSQL.noop),
        migrations.RunSQL(script("functions", "tables"), script("functions", "drop_tables")),
    ]
