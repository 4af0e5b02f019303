"""A topic may change its namespace's policies."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("broker", "0002_storage")]

    operations = [
        migrations.AddField(
            model_name="topic",
            name="policies",
            field=models.JSONField(default=dict),
        ),
    ]
