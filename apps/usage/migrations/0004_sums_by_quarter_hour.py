"""Fills the new sums from the records that are there, and leaves room in their pages for rows that are added to."""

from django.db import migrations

TABLES = {
    "usage_slot": "tenant_id, user_id, key_id, version_id, public_model, outcome",
    "usage_by_model": "tenant_id, version_id, public_model, outcome",
    "usage_by_end_user": "tenant_id, end_user, outcome",
    "usage_by_workflow": "tenant_id, workflow_id, outcome",
}
SUMS = "input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, wasted_tokens, cost_usd, wasted_usd".split(
    ", "
)
SLOT = "date_bin('15 minutes', arrived_at, TIMESTAMPTZ '2000-01-01 00:00+00')"


def filled(table, key):
    sums = ", ".join(f"sum({name})" for name in SUMS)
    return f"""
    INSERT INTO {table} (slot, {key}, request_count, unpriced_count, {", ".join(SUMS)})
    SELECT {SLOT}, {key}, count(*), 0, {sums} FROM usage_record GROUP BY {SLOT}, {key}
    """


FORWARD = [
    *(f"ALTER TABLE {table} SET (fillfactor = 70)" for table in TABLES),
    "UPDATE usage_record SET gateway_cost_usd = cost_usd",
    *(filled(table, key) for table, key in TABLES.items()),
    """
    INSERT INTO usage_source (gateway_id, boot_id, node_id, received, first_received_at, last_received_at)
    SELECT gateway_id, boot_id, coalesce(min(node_id::text)::uuid, '00000000-0000-0000-0000-000000000000'),
           range_agg(int8range(sequence, sequence + 1)), min(arrived_at), max(arrived_at)
    FROM usage_record GROUP BY gateway_id, boot_id
    """,
]


class Migration(migrations.Migration):
    dependencies = [("usage", "0003_money")]

    operations = [migrations.RunSQL(FORWARD, migrations.RunSQL.noop)]
