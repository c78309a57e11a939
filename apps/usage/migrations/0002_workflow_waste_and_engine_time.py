from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("usage", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="usagerecord",
            name="workflow_id",
            field=models.CharField(db_default="", max_length=128),
        ),
        migrations.AddField(
            model_name="usagerecord",
            name="wasted_tokens",
            field=models.BigIntegerField(db_default=0),
        ),
        migrations.AddField(
            model_name="usagerecord",
            name="engine_ms",
            field=models.FloatField(null=True),
        ),
    ]
