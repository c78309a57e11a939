from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("routing", "0003_alternatives")]

    operations = [
        migrations.AddField(model_name="policyrun", name="recording", field=models.BinaryField(null=True)),
    ]
