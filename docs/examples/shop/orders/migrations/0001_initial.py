"""Create the tables of orders and invoices."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False)),
                ("article", models.TextField()),
                ("pieces", models.IntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="Invoice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False)),
                (
                    "order",
                    models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, to="orders.order"),
                ),
            ],
        ),
    ]
