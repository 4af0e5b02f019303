"""Deduplication, schemas and the epoch of exclusive producers."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("broker", "0007_acts"),
    ]

    operations = [
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
        migrations.AddField(
            model_name="topic",
            name="producer_epoch",
            field=models.BigIntegerField(blank=True, null=True),
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
    ]
