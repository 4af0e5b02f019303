"""Ledgers that lie nowhere, the long-lived segment, bookmarks; functions that open and drop segments."""

import django.db.models.deletion
from django.db import migrations, models

from broker.storage.queries import script


class Migration(migrations.Migration):
    dependencies = [("broker", "0005_delayed_entry")]

    operations = [
        migrations.AddField(
            model_name="segment",
            name="long_lived",
            field=models.BooleanField(db_default=False),
        ),
        migrations.AlterField(
            model_name="ledger",
            name="segment",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                to="broker.segment",
            ),
        ),
        migrations.AlterField(
            model_name="ledger",
            name="state",
            field=models.CharField(
                choices=[("open", "Open"), ("sealed", "Sealed")], default="open", max_length=16
            ),
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
                (
                    "topic",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="broker.topic"),
                ),
            ],
            options={"db_table": "vela_bookmark"},
        ),
        migrations.AddConstraint(
            model_name="bookmark",
            constraint=models.UniqueConstraint(fields=("topic", "name"), name="vela_bookmark_name"),
        ),
        migrations.RunSQL(script("lifetime", "functions"), script("lifetime", "drop_functions")),
    ]
