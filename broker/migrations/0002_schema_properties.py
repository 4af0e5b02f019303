"""Show the properties of schemas to readers of the database: without them, nobody can use a KeyValue schema."""

from __future__ import annotations

from django.db import migrations

from broker.storage.queries import script


class Migration(migrations.Migration):
    """Replace the view `vela_read_v1.schemas`. Roles keep their right to read it."""

    dependencies = (("broker", "0001_entries_in_rows"),)

    operations = (migrations.RunSQL(script("functions", "schema_properties"), migrations.RunSQL.noop),)
