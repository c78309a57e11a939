"""A line of the price book may begin when another does: it corrects it."""

from django.db import migrations, models
from django.db.migrations.operations.base import Operation

LINES = (
    ("priceentry", "price_line_is_unique", ("version", "model")),
    ("tenantdiscount", "discount_line_is_unique", ("tenant", "model")),
    ("acceleratorprice", "accelerator_price_is_unique", ("accelerator_name", "node_id")),
)


def _corrected(model: str, name: str, subject: tuple[str, ...]) -> list[Operation]:
    constraint = models.UniqueConstraint(
        fields=(*subject, "effective_from", "created_at"), name=name, nulls_distinct=False
    )
    return [
        migrations.RemoveConstraint(model_name=model, name=name),
        migrations.AddConstraint(model_name=model, constraint=constraint),
    ]


class Migration(migrations.Migration):
    dependencies = [("usage", "0009_end_users_by_day")]

    operations = [
        *(operation for line in LINES for operation in _corrected(*line)),
        migrations.AlterModelOptions(
            name="acceleratorprice", options={"ordering": ["accelerator_name", "-effective_from", "-id"]}
        ),
    ]
