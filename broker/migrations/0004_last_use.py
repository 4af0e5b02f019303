"""When a subscription's last consumer and a topic's last client left: what expires by disuse needs to know."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("broker", "0003_topic_policies")]

    operations = [
        migrations.AddField(
            model_name="subscriptionsummary",
            name="last_used_ms",
            field=models.BigIntegerField(db_default=0),
        ),
        migrations.AddField(
            model_name="topicsummary",
            name="last_used_ms",
            field=models.BigIntegerField(db_default=0),
        ),
    ]
