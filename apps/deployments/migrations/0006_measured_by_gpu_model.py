from django.db import migrations, models


def forget_measurements(apps, schema_editor):  # noqa: ARG001 - Django's signature
    """Of which GPU model they were is not known; engines that serve are measured again within seconds."""
    apps.get_model("deployments", "MemoryMeasurement").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("deployments", "0005_every_replica_has_a_revision")]

    operations = [
        migrations.RunPython(forget_measurements, migrations.RunPython.noop),
        migrations.RemoveConstraint(model_name="memorymeasurement", name="measurement_is_unique"),
        migrations.AddField(
            model_name="memorymeasurement",
            name="gpu_model",
            field=models.CharField(default="", max_length=40),
            preserve_default=False,
        ),
        migrations.AlterModelOptions(
            name="memorymeasurement", options={"ordering": ["version_id", "gpu_count", "gpu_model"]}
        ),
        migrations.AddConstraint(
            model_name="memorymeasurement",
            constraint=models.UniqueConstraint(
                fields=("version", "gpu_count", "gpu_model"), name="measurement_is_unique"
            ),
        ),
    ]
