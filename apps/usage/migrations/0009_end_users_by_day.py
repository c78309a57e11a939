"""End users by day, so that a month of them is ranked at a glance; filled from what is there by quarter of an hour."""

import django.contrib.postgres.indexes
from django.db import migrations, models

SUMS = (
    "request_count, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, wasted_tokens, unpriced_count, "
    "list_usd, cost_usd, wasted_usd"
)
FILL = (
    f"INSERT INTO usage_end_user_day (tenant_id, slot, end_user, outcome, {SUMS}) "
    f"SELECT tenant_id, date_trunc('day', slot, 'UTC'), end_user, outcome, "
    + ", ".join(f"sum({name})" for name in SUMS.split(", "))
    + " FROM usage_by_end_user GROUP BY 1, 2, 3, 4"
)


class Migration(migrations.Migration):
    dependencies = [
        ("usage", "0008_leaner_sums_and_prices_of_days"),
    ]

    operations = [
        migrations.CreateModel(
            name="UsageEndUserDay",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("slot", models.DateTimeField()),
                ("tenant_id", models.UUIDField(null=True)),
                ("outcome", models.CharField(max_length=20)),
                ("request_count", models.BigIntegerField()),
                ("input_tokens", models.BigIntegerField()),
                ("cached_input_tokens", models.BigIntegerField()),
                ("output_tokens", models.BigIntegerField()),
                ("reasoning_tokens", models.BigIntegerField()),
                ("wasted_tokens", models.BigIntegerField()),
                ("unpriced_count", models.BigIntegerField()),
                ("list_usd", models.DecimalField(db_default=0, decimal_places=12, max_digits=30)),
                ("cost_usd", models.DecimalField(decimal_places=12, max_digits=30)),
                ("wasted_usd", models.DecimalField(decimal_places=12, max_digits=30)),
                ("end_user", models.CharField(max_length=256)),
            ],
            options={
                "db_table": "usage_end_user_day",
                "indexes": [
                    django.contrib.postgres.indexes.BrinIndex(
                        autosummarize=True, fields=["slot"], name="usage_end_user_day_time", pages_per_range=16
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant_id", "slot", "end_user", "outcome"),
                        name="usage_end_user_day_is_unique",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
        migrations.RunSQL(
            [
                "SET LOCAL statement_timeout = 0",
                "ALTER TABLE usage_end_user_day DROP CONSTRAINT usage_end_user_day_pkey",
                "ALTER TABLE usage_end_user_day SET (fillfactor = 70)",
                FILL,
            ],
            migrations.RunSQL.noop,
        ),
    ]
