from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("fleet", "0003_accelerator_links"),
    ]

    operations = [
        migrations.CreateModel(
            name="RemovedNode",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=63)),
                ("token_sha256", models.CharField(max_length=64, unique=True)),
                ("removed_at", models.DateTimeField()),
            ],
            options={"ordering": ["-removed_at"]},
        ),
    ]
