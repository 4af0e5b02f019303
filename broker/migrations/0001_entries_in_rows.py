"""Create the models' tables, and the objects that no model describes, such as triggers and views.

Do not split this long migration, because databases have already applied it.
"""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
from django.db import migrations, models
from django.db.models.functions import Coalesce

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
            name="AccessToken",
            fields=[
                ("id", models.TextField(primary_key=True, serialize=False)),
                ("role", models.TextField()),
                ("created_by", models.TextField()),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(null=True)),
                ("revoked_by", models.TextField(db_default="")),
                ("revoked_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "vela_token",
            },
        ),
        migrations.CreateModel(
            name="GrantedPermission",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant",
                        "namespace",
                        "topic",
                        "subscription",
                        "role",
                        "permission",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant", models.TextField()),
                ("namespace", models.TextField(db_default="")),
                ("topic", models.TextField(db_default="")),
                ("subscription", models.TextField(db_default="")),
                ("role", models.TextField()),
                ("permission", models.CharField(max_length=16)),
            ],
            options={
                "db_table": "vela_permission",
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
                (
                    "ack_latencies",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), null=True, size=None
                    ),
                ),
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
                (
                    "ack_latencies",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), null=True, size=None
                    ),
                ),
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
                (
                    "ack_latencies",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), null=True, size=None
                    ),
                ),
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
                (
                    "ack_latencies",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), null=True, size=None
                    ),
                ),
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
                ("message_rate_out", models.FloatField(db_default=0.0)),
                ("message_rate_acked", models.FloatField(db_default=0.0)),
                ("message_rate_redelivered", models.FloatField(db_default=0.0)),
                ("last_flow_ms", models.BigIntegerField()),
                ("last_delivery_ms", models.BigIntegerField()),
                ("last_ack_ms", models.BigIntegerField()),
                ("oldest_delivered_ms", models.BigIntegerField(db_default=0)),
                ("updated_ms", models.BigIntegerField()),
                ("properties", models.JSONField(default=dict)),
                ("protocol_version", models.IntegerField(db_default=21)),
            ],
            options={
                "db_table": "vela_consumer_session",
                "indexes": [
                    models.Index(
                        django.db.models.functions.text.Left("name", 200),
                        "key",
                        name="vela_consumer_session_name",
                    ),
                    models.Index(fields=["connected_ms", "key"], name="vela_consumer_session_since"),
                    models.Index(fields=["unacked_messages", "key"], name="vela_consumer_session_unacked"),
                    models.Index(fields=["oldest_delivered_ms", "key"], name="vela_consumer_session_oldest"),
                ],
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
            name="CompactionSurvey",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("topic_id", models.BigIntegerField()),
                ("write_id", models.TextField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("reading", "Reading"),
                            ("ready", "Ready"),
                            ("done", "Done"),
                            ("refused", "Refused"),
                        ],
                        max_length=16,
                    ),
                ),
                ("generation", models.BigIntegerField()),
                ("begin_ledger", models.BigIntegerField()),
                ("begin_entry", models.BigIntegerField()),
                ("horizon_ledger", models.BigIntegerField()),
                ("horizon_entry", models.BigIntegerField()),
                ("error", models.TextField(default="")),
                ("kept_messages", models.BigIntegerField(default=0)),
                ("removed_messages", models.BigIntegerField(default=0)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
            options={
                "db_table": "vela_compaction_survey",
            },
        ),
        migrations.CreateModel(
            name="CompactionKey",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "survey_id", "key", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("survey_id", models.BigIntegerField()),
                ("key", models.BinaryField()),
                ("ledger_id", models.BigIntegerField()),
                ("entry_id", models.BigIntegerField()),
                ("batch_index", models.IntegerField()),
                ("is_deleted", models.BooleanField()),
            ],
            options={
                "db_table": "vela_compaction_key",
            },
        ),
        migrations.CreateModel(
            name="CompactedEntry",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "topic_id",
                        "generation",
                        "ledger_id",
                        "entry_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("topic_id", models.BigIntegerField()),
                ("generation", models.BigIntegerField()),
                ("ledger_id", models.BigIntegerField()),
                ("entry_id", models.BigIntegerField()),
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
                "db_table": "vela_compacted_entry",
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
            name="ParkedPulls",
            fields=[
                ("topic_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("pulls", models.IntegerField()),
                ("oldest", models.JSONField()),
                ("updated_ms", models.BigIntegerField()),
            ],
            options={
                "db_table": "vela_parked_pulls",
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
                ("message_rate_in", models.FloatField(db_default=0.0)),
                ("byte_rate_in", models.FloatField(db_default=0.0)),
                ("last_sequence_id", models.BigIntegerField()),
                ("last_send_ms", models.BigIntegerField()),
                ("updated_ms", models.BigIntegerField()),
                ("properties", models.JSONField(default=dict)),
                ("protocol_version", models.IntegerField(db_default=21)),
                ("access_mode", models.CharField(db_default="", max_length=32)),
                ("deduplicated", models.BooleanField(db_default=False)),
                ("last_error", models.TextField(db_default="")),
            ],
            options={
                "db_table": "vela_producer_session",
                "indexes": [
                    models.Index(
                        django.db.models.functions.text.Left("name", 200),
                        "key",
                        name="vela_producer_session_name",
                    ),
                    models.Index(fields=["connected_ms", "key"], name="vela_producer_session_since"),
                    models.Index(fields=["message_rate_in", "key"], name="vela_producer_session_rate"),
                ],
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
            name="LedgerFile",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False)),
                ("topic_id", models.BigIntegerField()),
                ("ledger_id", models.BigIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("writing", "Writing"),
                            ("written", "Written"),
                            ("attached", "Attached"),
                            ("deleting", "Deleting"),
                        ],
                        max_length=16,
                    ),
                ),
                ("format_version", models.IntegerField(default=0)),
                ("entries", models.BigIntegerField(default=0)),
                ("messages", models.BigIntegerField(default=0)),
                ("size_bytes", models.BigIntegerField(default=0)),
                ("file_bytes", models.BigIntegerField(default=0)),
                ("checksum", models.TextField(default="")),
                ("write_id", models.TextField()),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("attached_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "db_table": "vela_ledger_file",
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "attached"), _negated=True),
                        fields=["created_at"],
                        name="vela_ledger_file_moving",
                    ),
                    models.Index(fields=["topic_id"], name="vela_ledger_file_topic"),
                ],
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
                ("is_kept", models.BooleanField(db_default=False)),
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
                ("read_fault", models.TextField()),
                ("active_consumer", models.BigIntegerField()),
                ("first_redeliveries", models.IntegerField()),
                ("key_slot", models.IntegerField()),
                ("key_consumer", models.BigIntegerField()),
                ("key_waiting_entries", models.BigIntegerField()),
                ("key_is_draining", models.BooleanField()),
            ],
            options={
                "db_table": "vela_subscription_obstacles",
                "indexes": [
                    models.Index(
                        condition=models.Q(("first_redeliveries__gte", 3)),
                        fields=["first_redeliveries"],
                        name="vela_subscription_poisoned",
                    )
                ],
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
                    models.Index(
                        fields=["last_used_ms"],
                        name="vela_subscription_unused",
                        condition=models.Q(("consumers", 0)),
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
            name="Compaction",
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
                ("horizon_ledger", models.BigIntegerField()),
                ("horizon_entry", models.BigIntegerField()),
                ("horizon_messages", models.BigIntegerField()),
                ("horizon_bytes", models.BigIntegerField()),
                ("generation", models.BigIntegerField(default=0)),
                ("attempt", models.BigIntegerField(default=0)),
                (
                    "state",
                    models.CharField(
                        choices=[("RUNNING", "Running"), ("SUCCESS", "Success"), ("ERROR", "Error")],
                        max_length=16,
                    ),
                ),
                ("last_error", models.TextField(default="")),
                ("kept_entries", models.BigIntegerField(default=0)),
                ("kept_messages", models.BigIntegerField(default=0)),
                ("kept_bytes", models.BigIntegerField(default=0)),
                ("removed_messages", models.BigIntegerField(default=0)),
                ("duration_ms", models.BigIntegerField(default=0)),
                ("started_at", models.DateTimeField()),
                ("succeeded_at", models.DateTimeField(blank=True, null=True)),
                ("failed_at", models.DateTimeField(blank=True, null=True)),
                ("failures", models.IntegerField(default=0)),
                ("retry_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "db_table": "vela_compaction",
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
                ("subscriptions", models.IntegerField(db_default=0)),
                ("worst_subscription", models.TextField(db_default="")),
                ("message_rate_acked", models.FloatField(db_default=0.0)),
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
        migrations.CreateModel(
            name="ListedTopic",
            fields=[
                (
                    "topic",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="broker.topic",
                    ),
                ),
                ("name", models.TextField()),
                ("subscriptions", models.IntegerField(db_default=0)),
                ("backlog_messages", models.BigIntegerField(db_default=-1)),
                ("stored_bytes", models.BigIntegerField(db_default=-1)),
                ("message_rate_in", models.FloatField(db_default=-1.0)),
                ("last_append_ms", models.BigIntegerField(db_default=-1)),
                ("state", models.SmallIntegerField(db_default=2047)),
                ("state_since_ms", models.BigIntegerField(db_default=0)),
                (
                    "namespace",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="broker.namespace",
                    ),
                ),
            ],
            options={
                "db_table": "vela_listed_topic",
                "indexes": [
                    models.Index(fields=["name"], name="vela_listed_topic_name"),
                    models.Index(fields=["namespace", "name"], name="vela_listed_topic_namespace"),
                    models.Index(fields=["state", "state_since_ms", "name"], name="vela_listed_topic_worst"),
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
                (
                    "namespace",
                    models.GeneratedField(
                        db_persist=True,
                        expression=Coalesce(
                            models.Func(
                                "topic_name",
                                models.Value("^(?:[a-z-]+://)?([^/]+/[^/]+)"),
                                function="substring",
                            ),
                            models.Value(""),
                        ),
                        output_field=models.TextField(),
                    ),
                ),
                ("subscription_name", models.TextField()),
                ("parameters", models.JSONField(default=dict)),
                ("plan", models.JSONField(null=True)),
                ("result", models.JSONField(null=True)),
                ("error", models.TextField(default="")),
                ("error_code", models.CharField(db_default="", max_length=64)),
                ("progress", models.JSONField(null=True)),
                ("message", models.BinaryField(null=True)),
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
                    "part_of",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="parts",
                        to="broker.act",
                    ),
                ),
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
            name="DeliveryStory",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("subscription_id", models.BigIntegerField()),
                ("event", models.SmallIntegerField()),
                ("ledger_id", models.BigIntegerField()),
                ("first_entry", models.BigIntegerField()),
                ("last_entry", models.BigIntegerField()),
                ("at_ms", models.BigIntegerField()),
                ("until_ms", models.BigIntegerField()),
                ("events", models.BigIntegerField()),
                ("redelivery_count", models.IntegerField()),
                ("consumer_name", models.TextField()),
                ("consumer_address", models.TextField()),
                ("detail", models.TextField()),
                ("expires_ms", models.BigIntegerField()),
            ],
            options={
                "db_table": "vela_delivery_story",
                "indexes": [
                    models.Index(
                        fields=["subscription_id", "ledger_id", "first_entry"],
                        name="vela_delivery_story_entry",
                    ),
                    models.Index(
                        condition=models.Q(("event", 0)),
                        fields=["subscription_id", "ledger_id"],
                        name="vela_delivery_story_left_out",
                    ),
                    models.Index(fields=["expires_ms"], name="vela_delivery_story_expiry"),
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
                (
                    "file",
                    models.ForeignKey(
                        blank=True,
                        db_column="file_name",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="broker.ledgerfile",
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
        migrations.CreateModel(
            name="InsightHour",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "topic_id",
                        "hour_ms",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("topic_id", models.BigIntegerField()),
                ("hour_ms", models.BigIntegerField()),
                ("messages", models.BigIntegerField()),
                ("size_bytes", models.BigIntegerField()),
                ("size_p50", models.BigIntegerField(null=True)),
                ("size_p95", models.BigIntegerField(null=True)),
                ("size_p99", models.BigIntegerField(null=True)),
                ("size_most", models.BigIntegerField(null=True)),
                ("delay_p50_ms", models.BigIntegerField(null=True)),
                ("delay_p95_ms", models.BigIntegerField(null=True)),
                ("delay_p99_ms", models.BigIntegerField(null=True)),
                ("keyed_messages", models.BigIntegerField()),
                ("keys", models.BigIntegerField()),
                ("top_keys", models.JSONField()),
                ("letters", models.JSONField()),
                ("subscriptions", models.JSONField()),
                ("poison", models.JSONField()),
                ("computed_at", models.DateTimeField()),
            ],
            options={
                "db_table": "vela_insight_hour",
                "indexes": [models.Index(fields=["hour_ms"], name="vela_insight_hour_old")],
            },
        ),
        migrations.CreateModel(
            name="PipelineSchedule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("job", models.CharField(max_length=32)),
                ("subject", models.TextField()),
                ("topic_name", models.TextField()),
                ("options", models.JSONField()),
                ("every_minutes", models.IntegerField()),
                ("next_at", models.DateTimeField()),
                ("who", models.TextField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": "vela_pipeline_schedule",
                "constraints": [
                    models.UniqueConstraint(fields=("job", "subject"), name="vela_pipeline_schedule_subject")
                ],
            },
        ),
        migrations.CreateModel(
            name="PipelineRun",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("job", models.CharField(max_length=32)),
                ("subject", models.TextField()),
                ("topic_name", models.TextField()),
                ("options", models.JSONField()),
                ("write_id", models.TextField(default="")),
                ("pinned", models.JSONField(default=dict)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("running", "Running"),
                            ("done", "Done"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        max_length=16,
                    ),
                ),
                ("stages", models.JSONField(default=list)),
                ("result", models.JSONField(null=True)),
                ("error", models.TextField(default="")),
                ("log", models.TextField(default="")),
                ("worker", models.TextField(default="")),
                ("who", models.TextField()),
                ("reason", models.TextField(default="")),
                ("act_id", models.BigIntegerField(null=True, unique=True)),
                ("schedule_id", models.BigIntegerField(null=True)),
                ("resumes_id", models.BigIntegerField(null=True)),
                ("cancelled_by", models.TextField(default="")),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("started_at", models.DateTimeField(null=True)),
                ("heartbeat_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "vela_pipeline_run",
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state__in", ["waiting", "running"])),
                        fields=("job", "subject"),
                        name="vela_pipeline_run_alone",
                    )
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="subscription",
            constraint=models.UniqueConstraint(fields=("topic", "name"), name="vela_subscription_name"),
        ),
        migrations.AddIndex(
            model_name="subscription",
            index=models.Index(fields=["name"], name="vela_subscription_same_name"),
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
            index=models.Index(fields=["namespace", "-id"], name="vela_act_namespace"),
        ),
        migrations.AddIndex(
            model_name="act",
            index=models.Index(
                models.Func("namespace", models.Value("/"), models.Value(1), function="split_part"),
                models.OrderBy(models.F("id"), descending=True),
                name="vela_act_tenant",
            ),
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
            model_name="act",
            index=models.Index(
                condition=models.Q(("origin__startswith", "client ")), fields=["id"], name="vela_act_clients"
            ),
        ),
        migrations.AddConstraint(
            model_name="act",
            constraint=models.UniqueConstraint(
                condition=models.Q(("part_of__isnull", False)),
                fields=("part_of", "topic"),
                name="vela_act_part",
            ),
        ),
        migrations.AddIndex(
            model_name="act",
            index=models.Index(
                condition=models.Q(("kind", "redrive")),
                fields=["topic"],
                name="vela_act_redrives",
            ),
        ),
        migrations.AddIndex(
            model_name="producersession",
            index=models.Index(
                condition=models.Q(("name__endswith", "-DLQ")),
                fields=["topic_id"],
                name="vela_producer_dead_letters",
            ),
        ),
        migrations.AddIndex(
            model_name="topic",
            index=models.Index(
                condition=models.Q(
                    ("partitions", 0),
                    models.Q(
                        ("name__endswith", "-DLQ"),
                        ("name__regex", "-DLQ-partition-[0-9]+$"),
                        _connector="OR",
                    ),
                ),
                fields=["name"],
                name="vela_topic_dead_letters",
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
        migrations.CreateModel(
            name="AlertRule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.TextField(unique=True)),
                (
                    "measure",
                    models.CharField(
                        choices=[
                            ("backlog", "backlog"),
                            ("age", "age"),
                            ("stuck", "stuck"),
                            ("behind", "behind"),
                            ("no_consumer", "no_consumer"),
                            ("dead_letters", "dead_letters"),
                            ("redeliveries", "redeliveries"),
                            ("stored", "stored"),
                            ("broker", "broker"),
                        ],
                        max_length=16,
                    ),
                ),
                ("threshold", models.BigIntegerField(null=True)),
                ("within_ms", models.BigIntegerField(null=True)),
                ("for_ms", models.BigIntegerField()),
                ("namespaces", models.TextField()),
                ("topics", models.TextField(default="*")),
                ("subscriptions", models.TextField(default="*")),
                (
                    "severity",
                    models.CharField(
                        choices=[("critical", "critical"), ("warning", "warning"), ("notice", "notice")],
                        max_length=16,
                    ),
                ),
                ("webhook_url", models.TextField(default="")),
                ("email", models.TextField(default="")),
                ("silent_until", models.DateTimeField(null=True)),
                ("who", models.TextField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("evaluated_ms", models.BigIntegerField(null=True)),
                ("notified_ms", models.BigIntegerField(null=True)),
            ],
            options={
                "db_table": "vela_alert_rule",
            },
        ),
        migrations.CreateModel(
            name="AlertFiring",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "rule",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to="broker.alertrule"
                    ),
                ),
                ("rule_name", models.TextField()),
                ("severity", models.CharField(max_length=16)),
                ("measure", models.CharField(max_length=16)),
                ("topic_id", models.BigIntegerField()),
                ("subscription_id", models.BigIntegerField()),
                ("namespace_id", models.BigIntegerField(null=True)),
                ("topic_name", models.TextField()),
                ("subscription_name", models.TextField()),
                ("value", models.BigIntegerField()),
                ("over_since_ms", models.BigIntegerField()),
                ("fired_ms", models.BigIntegerField(null=True)),
                ("below_since_ms", models.BigIntegerField(null=True)),
                ("cleared_ms", models.BigIntegerField(null=True)),
                ("is_told", models.BooleanField(default=False)),
                ("is_clear_told", models.BooleanField(default=False)),
            ],
            options={
                "db_table": "vela_alert_firing",
                "indexes": [
                    models.Index(
                        condition=models.Q(("cleared_ms__isnull", False)),
                        fields=["cleared_ms"],
                        name="vela_alert_firing_over",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("cleared_ms__isnull", True)),
                        fields=("rule", "topic_id", "subscription_id"),
                        name="vela_alert_firing_open",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AlertNotification",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "rule",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="broker.alertrule"),
                ),
                (
                    "channel",
                    models.CharField(choices=[("webhook", "webhook"), ("email", "e-mail")], max_length=16),
                ),
                ("body", models.JSONField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "next_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), null=True),
                ),
                ("attempts", models.IntegerField(db_default=0)),
                ("sent_at", models.DateTimeField(null=True)),
                ("error", models.TextField(db_default="")),
            ],
            options={
                "db_table": "vela_alert_notification",
                "indexes": [
                    models.Index(
                        condition=models.Q(("next_at__isnull", False)),
                        fields=["next_at"],
                        name="vela_alert_notification_due",
                    ),
                    models.Index(fields=["rule", "id"], name="vela_alert_notification_rule"),
                ],
            },
        ),
        migrations.RunSQL(script("functions", "functions"), migrations.RunSQL.noop),
        migrations.RunSQL(script("functions", "tables"), script("functions", "drop_tables")),
    ]
