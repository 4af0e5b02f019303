"""What went wrong on a subscription, for the console."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("broker", "0009_outbox")]

    operations = [
        migrations.AddField(
            model_name="subscriptionsummary",
            name="problems",
            field=models.JSONField(db_default={}),
        ),
    ]
