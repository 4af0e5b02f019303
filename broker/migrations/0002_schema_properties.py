"""Add the column `properties` to the view of schemas."""

from __future__ import annotations

from django.db import migrations

from broker.storage.queries import script


class Migration(migrations.Migration):
    """Replace the view in place, so that roles keep the right to read it."""

    dependencies = (("broker", "0001_entries_in_rows"),)

    operations = (migrations.RunSQL(script("functions", "schema_properties"), migrations.RunSQL.noop),)
