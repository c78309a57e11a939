"""Indexes that cost less, or that searches need; and the price line that was paid."""

import django.contrib.postgres.indexes
from django.db import migrations, models

SUMS = ("usage_slot", "usage_by_model", "usage_by_end_user", "usage_by_workflow", "usage_day", "usage_total")


class Migration(migrations.Migration):
    dependencies = [
        ("usage", "0007_sums_by_day_and_total"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="usagebyenduser",
            name="usage_by_end_user_is_unique",
        ),
        migrations.RemoveConstraint(
            model_name="usagebymodel",
            name="usage_by_model_is_unique",
        ),
        migrations.RemoveConstraint(
            model_name="usagebyworkflow",
            name="usage_by_workflow_is_unique",
        ),
        migrations.RemoveConstraint(
            model_name="usageday",
            name="usage_day_is_unique",
        ),
        migrations.RemoveConstraint(
            model_name="usageslot",
            name="usage_slot_is_unique",
        ),
        migrations.RemoveIndex(
            model_name="usagebyenduser",
            name="usage_by_end_user_tenant",
        ),
        migrations.RemoveIndex(
            model_name="usagebymodel",
            name="usage_by_model_tenant",
        ),
        migrations.RemoveIndex(
            model_name="usagebyworkflow",
            name="usage_by_workflow_tenant",
        ),
        migrations.RemoveIndex(
            model_name="usageday",
            name="usage_day_tenant",
        ),
        migrations.RemoveIndex(
            model_name="usagerecord",
            name="usage_record_request",
        ),
        migrations.RemoveIndex(
            model_name="usagerecord",
            name="usage_record_workflow",
        ),
        migrations.RemoveIndex(
            model_name="usageslot",
            name="usage_slot_tenant",
        ),
        migrations.AddField(
            model_name="usageday",
            name="charged_e8",
            field=models.IntegerField(db_default=100000000),
        ),
        migrations.AddField(
            model_name="usageday",
            name="price_line_id",
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name="usagerecord",
            name="charged_e8",
            field=models.IntegerField(db_default=100000000),
        ),
        migrations.AddField(
            model_name="usagerecord",
            name="price_line_id",
            field=models.UUIDField(null=True),
        ),
        migrations.AddIndex(
            model_name="usagebyenduser",
            index=django.contrib.postgres.indexes.BrinIndex(
                autosummarize=True, fields=["slot"], name="usage_by_end_user_time", pages_per_range=16
            ),
        ),
        migrations.AddIndex(
            model_name="usagebymodel",
            index=django.contrib.postgres.indexes.BrinIndex(
                autosummarize=True, fields=["slot"], name="usage_by_model_time", pages_per_range=16
            ),
        ),
        migrations.AddIndex(
            model_name="usagebyworkflow",
            index=django.contrib.postgres.indexes.BrinIndex(
                autosummarize=True, fields=["slot"], name="usage_by_workflow_time", pages_per_range=16
            ),
        ),
        migrations.AddIndex(
            model_name="usageday",
            index=django.contrib.postgres.indexes.BrinIndex(
                autosummarize=True, fields=["slot"], name="usage_day_time", pages_per_range=16
            ),
        ),
        migrations.AddIndex(
            model_name="usagerecord",
            index=models.Index(fields=["request_id"], name="usage_record_request"),
        ),
        migrations.AddIndex(
            model_name="usagerecord",
            index=models.Index(
                condition=models.Q(("workflow_id", ""), _negated=True),
                fields=["workflow_id", "arrived_at"],
                name="usage_record_workflow",
            ),
        ),
        migrations.AddIndex(
            model_name="usagerecord",
            index=models.Index(
                condition=models.Q(("end_user", ""), _negated=True),
                fields=["end_user", "arrived_at"],
                name="usage_record_end_user",
            ),
        ),
        migrations.AddIndex(
            model_name="usagerecord",
            index=models.Index(
                condition=models.Q(("error_code", ""), _negated=True),
                fields=["error_code", "arrived_at"],
                name="usage_record_error",
            ),
        ),
        migrations.AddIndex(
            model_name="usageslot",
            index=django.contrib.postgres.indexes.BrinIndex(
                autosummarize=True, fields=["slot"], name="usage_slot_time", pages_per_range=16
            ),
        ),
        migrations.AddConstraint(
            model_name="usagebyenduser",
            constraint=models.UniqueConstraint(
                fields=("tenant_id", "slot", "end_user", "outcome"),
                name="usage_by_end_user_is_unique",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="usagebymodel",
            constraint=models.UniqueConstraint(
                fields=("tenant_id", "slot", "version_id", "public_model", "outcome"),
                name="usage_by_model_is_unique",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="usagebyworkflow",
            constraint=models.UniqueConstraint(
                fields=("tenant_id", "slot", "workflow_id", "outcome"),
                name="usage_by_workflow_is_unique",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="usageday",
            constraint=models.UniqueConstraint(
                fields=(
                    "tenant_id",
                    "slot",
                    "user_id",
                    "key_id",
                    "version_id",
                    "public_model",
                    "outcome",
                    "price_line_id",
                    "charged_e8",
                ),
                name="usage_day_is_unique",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="usageslot",
            constraint=models.UniqueConstraint(
                fields=("tenant_id", "slot", "user_id", "key_id", "version_id", "public_model", "outcome"),
                name="usage_slot_is_unique",
                nulls_distinct=False,
            ),
        ),
        migrations.RunSQL(
            [f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey" for table in SUMS],
            [f"ALTER TABLE {table} ADD PRIMARY KEY (id)" for table in SUMS],
        ),
    ]
