from django.db import migrations

from apps.common.ids import new_id
from apps.deployments.services.revisions import content_sha256_of, process_of


def give_each_replica_its_revision(apps, schema_editor):
    """What runs was started from its deployment as that is now."""
    for deployment in apps.get_model("deployments", "Deployment").objects.select_related("version__model"):
        revision = apps.get_model("deployments", "Revision").objects.create(
            id=new_id(),
            deployment=deployment,
            number=1,
            version=deployment.version,
            max_running_requests=deployment.max_running_requests,
            requirements=deployment.requirements,
            process=process_of(deployment.version),
            content_sha256=content_sha256_of(deployment),
            is_routed=True,
            created_at=deployment.created_at,
        )
        deployment.replicas.update(revision=revision)


class Migration(migrations.Migration):
    dependencies = [("deployments", "0003_revisions_sleep_and_measurements")]

    operations = [migrations.RunPython(give_each_replica_its_revision, migrations.RunPython.noop)]
