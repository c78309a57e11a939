"""Records that came later than statements wait for are found among millions."""

from datetime import timedelta

from django.db import migrations, models
from django.db.models import F, Q
from django.db.models.lookups import GreaterThan


class Migration(migrations.Migration):
    dependencies = [("usage", "0013_usage_of_tasks")]

    operations = [
        migrations.AddIndex(
            model_name="usagerecord",
            index=models.Index(
                fields=["arrived_at"],
                name="usage_record_latecomer",
                condition=Q(GreaterThan(F("received_at") - F("arrived_at"), timedelta(days=7))),
            ),
        ),
    ]
