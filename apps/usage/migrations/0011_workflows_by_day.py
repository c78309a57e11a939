"""Workflows by day, of all tenants together; filled from what is there by quarter of an hour."""

from django.db import migrations, models

SUMS = (
    "request_count, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, wasted_tokens, unpriced_count, "
    "list_usd, cost_usd, wasted_usd"
)

FILL = (
    f"INSERT INTO usage_workflow_total (slot, workflow_id, outcome, {SUMS}) "
    "SELECT date_trunc('day', slot, 'UTC'), workflow_id, outcome, "
    + ", ".join(f"sum({name})" for name in SUMS.split(", "))
    + " FROM usage_by_workflow GROUP BY 1, 2, 3"
)


class Migration(migrations.Migration):
    dependencies = [
        ("usage", "0010_lines_are_corrected"),
    ]

    operations = [
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
                "ALTER TABLE usage_workflow_total DROP CONSTRAINT usage_workflow_total_pkey",
                "ALTER TABLE usage_workflow_total SET (fillfactor = 70)",
                FILL,
            ],
            migrations.RunSQL.noop,
        ),
    ]
