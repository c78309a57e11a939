"""What reported tasks cost, kept as it is stored; filled from the records that are there."""

import django.contrib.postgres.indexes
from django.db import migrations, models

KEY = ("task_id", "slot", "tenant_id", "user_id", "key_id", "version_id", "public_model", "workflow_id")
SLOT = "date_bin('900 seconds', used.arrived_at, TIMESTAMPTZ '2000-01-01 00:00+00')"
OF_USAGE = ", ".join(f"used.{name}" for name in KEY[2:])
WAYS = (
    "task.request_id = used.request_id AND task.workflow_id = ''",
    "task.request_id = '' AND task.workflow_id = used.workflow_id AND used.workflow_id <> ''",
)
FILL = [
    f"INSERT INTO task_usage ({', '.join(KEY)}, cost_usd) SELECT task.id, {SLOT}, {OF_USAGE}, sum(used.cost_usd) "
    f"FROM usage_record AS used JOIN task_outcome AS task ON task.tenant_id = used.tenant_id AND {way} "
    f"GROUP BY task.id, {SLOT}, {OF_USAGE}"
    for way in WAYS
]


class Migration(migrations.Migration):
    dependencies = [
        ("usage", "0012_alerts_are_withdrawn"),
    ]

    operations = [
        migrations.CreateModel(
            name="TaskUsage",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("task_id", models.BigIntegerField()),
                ("slot", models.DateTimeField()),
                ("tenant_id", models.UUIDField()),
                ("user_id", models.UUIDField(null=True)),
                ("key_id", models.UUIDField(null=True)),
                ("version_id", models.UUIDField(null=True)),
                ("public_model", models.CharField(max_length=200)),
                ("workflow_id", models.CharField(max_length=128)),
                ("cost_usd", models.DecimalField(decimal_places=12, max_digits=30)),
            ],
            options={
                "db_table": "task_usage",
                "indexes": [
                    django.contrib.postgres.indexes.BrinIndex(
                        autosummarize=True, fields=["slot"], name="task_usage_time", pages_per_range=16
                    ),
                    models.Index(fields=["tenant_id", "slot"], name="task_usage_tenant"),
                ],
                "constraints": [models.UniqueConstraint(fields=KEY, name="task_usage_is_unique", nulls_distinct=False)],
            },
        ),
        migrations.RunSQL(
            ["SET LOCAL statement_timeout = 0", "ALTER TABLE task_usage DROP CONSTRAINT task_usage_pkey", *FILL],
            migrations.RunSQL.noop,
        ),
    ]
