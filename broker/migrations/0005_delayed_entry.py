"""Due times of delayed entries."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("broker", "0004_last_use")]

    operations = [
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
            options={"db_table": "vela_delayed_entry"},
        ),
    ]
