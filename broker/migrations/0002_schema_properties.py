"""Add the column `properties` to the view of schemas."""

from __future__ import annotations

from django.db import migrations

from broker.storage.queries import script


class Migration(migrations.Migration):
    """Replace a view. Roles keep their right to read the view."""

    dependencies = (("broker", "0001_entries_in_rows"),)

    operations = (migrations.RunSQL(script("functions", "schema_properties"), migrations.RunSQL.noop),)
