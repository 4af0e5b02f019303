"""A subscription's summary says what is acked: what waits is known of the topic's, whoever has published since."""

from django.db import migrations, models

_FROM_CURSORS = """
    UPDATE vela_subscription_summary y SET acked_messages = c.acked_messages, acked_bytes = c.acked_bytes
    FROM vela_cursor c WHERE c.subscription_id = y.subscription_id
"""


class Migration(migrations.Migration):
    dependencies = [("broker", "0010_problems")]

    operations = [
        migrations.RemoveField(model_name="subscriptionsummary", name="backlog_messages"),
        migrations.RemoveField(model_name="subscriptionsummary", name="backlog_bytes"),
        migrations.AddField(
            model_name="subscriptionsummary",
            name="acked_messages",
            field=models.BigIntegerField(db_default=0),
        ),
        migrations.AddField(
            model_name="subscriptionsummary",
            name="acked_bytes",
            field=models.BigIntegerField(db_default=0),
        ),
        migrations.RunSQL(_FROM_CURSORS, migrations.RunSQL.noop),
    ]
