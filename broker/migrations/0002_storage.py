"""What models cannot say: functions, UNLOGGED tables, fill factors, the first segment and the views over segments."""

from django.db import migrations

from broker.storage.queries import script


class Migration(migrations.Migration):
    dependencies = [("broker", "0001_initial")]

    operations = [
        migrations.RunSQL(script("functions", "functions"), migrations.RunSQL.noop),
        migrations.RunSQL(script("functions", "tables"), script("functions", "drop_tables")),
    ]
