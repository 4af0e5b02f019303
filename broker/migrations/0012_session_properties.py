"""Sessions keep the properties that clients open their producers and consumers with."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("broker", "0011_acked")]

    operations = [
        migrations.AddField(
            model_name="consumersession",
            name="properties",
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name="producersession",
            name="properties",
            field=models.JSONField(default=dict),
        ),
    ]
