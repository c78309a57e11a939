import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("deployments", "0004_first_revisions")]

    operations = [
        migrations.AlterField(
            model_name="replica",
            name="revision",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.RESTRICT, related_name="replicas", to="deployments.revision"
            ),
        ),
    ]
