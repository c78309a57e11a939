from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("identity", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="passwordreset",
            name="made_for_sha256",
            field=models.CharField(default="", max_length=64),
        ),
    ]
