"""The console's tables. Until the first release, edit this migration and add no other."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.CreateModel(
            name="Grant",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "role",
                    models.SmallIntegerField(
                        choices=[(1, "viewer"), (2, "reader"), (3, "operator"), (4, "admin")]
                    ),
                ),
                ("pattern", models.TextField()),
                ("from_login", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "db_table": "vela_grant",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("user", "pattern", "from_login"), name="vela_grant_pattern"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Preferences",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("time_zone", models.TextField(default="UTC")),
                ("language", models.TextField(default="")),
            ],
            options={"db_table": "vela_preferences"},
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("path", models.TextField()),
                ("name", models.TextField()),
                ("query", models.TextField()),
                ("shared_in", models.TextField(default="")),
                ("is_default", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "db_table": "vela_saved_view",
                "indexes": [
                    models.Index(
                        condition=models.Q(("shared_in", ""), _negated=True),
                        fields=["path"],
                        name="vela_saved_view_shared",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("user", "path", "name"), name="vela_saved_view_name"),
                    models.UniqueConstraint(
                        condition=models.Q(("is_default", True)),
                        fields=("user", "path"),
                        name="vela_saved_view_default",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Identity",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="identity",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("issuer", models.TextField()),
                ("subject", models.TextField()),
            ],
            options={
                "db_table": "vela_identity",
                "constraints": [
                    models.UniqueConstraint(fields=("issuer", "subject"), name="vela_identity_subject")
                ],
            },
        ),
        migrations.CreateModel(
            name="SecondFactor",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="second_factor",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("secret", models.TextField()),
                ("last_step", models.BigIntegerField()),
                ("recovery_codes", models.JSONField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={"db_table": "console_second_factor"},
        ),
    ]
