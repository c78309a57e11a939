"""Workflows by day, a tenant's and of all together; filled from what is there by quarter of an hour."""

import django.contrib.postgres.indexes
from django.db import migrations, models

SUMS = (
    "request_count, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, wasted_tokens, unpriced_count, "
    "list_usd, cost_usd, wasted_usd"
)


def _filled(table, key):
    sums = ", ".join(f"sum({name})" for name in SUMS.split(", "))
    return (
        f"INSERT INTO {table} (slot, {key}, {SUMS}) SELECT date_trunc('day', slot, 'UTC'), {key}, {sums} "
        f"FROM usage_by_workflow GROUP BY date_trunc('day', slot, 'UTC'), {key}"
    )


def _prepared(table):
    return [f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey", f"ALTER TABLE {table} SET (fillfactor = 70)"]


class Migration(migrations.Migration):
    dependencies = [
        ("usage", "0010_lines_are_corrected"),
    ]

    operations = [
        migrations.CreateModel(
            name="UsageWorkflowDay",
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
                ("workflow_id", models.CharField(max_length=128)),
            ],
            options={
                "db_table": "usage_workflow_day",
                "indexes": [
                    django.contrib.postgres.indexes.BrinIndex(
                        autosummarize=True, fields=["slot"], name="usage_workflow_day_time", pages_per_range=16
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant_id", "slot", "workflow_id", "outcome"),
                        name="usage_workflow_day_is_unique",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="UsageWorkflowTotal",
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
                ("workflow_id", models.CharField(max_length=128)),
            ],
            options={
                "db_table": "usage_workflow_total",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("slot", "workflow_id", "outcome"),
                        name="usage_workflow_total_is_unique",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
        migrations.RunSQL(
            [
                "SET LOCAL statement_timeout = 0",
                *_prepared("usage_workflow_day"),
                *_prepared("usage_workflow_total"),
                _filled("usage_workflow_day", "tenant_id, workflow_id, outcome"),
                _filled("usage_workflow_total", "workflow_id, outcome"),
            ],
            migrations.RunSQL.noop,
        ),
    ]
