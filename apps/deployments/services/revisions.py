"""Revisions: what a deployment's replicas should be now, and what they were before."""

import hashlib
import json
from datetime import datetime
from typing import Any

from django.db.models import Max

from apps.deployments.models import Deployment, Revision
from apps.registry.models import ModelVersion

KEPT_REVISIONS = 10


def current_revision(deployment: Deployment, *, now: datetime) -> Revision:
    """The newest, made or given a new number where the deployment or its version has changed."""
    newest = next(iter(deployment.revisions.all()), None)
    content_sha256 = content_sha256_of(deployment)
    if newest is not None and newest.content_sha256 == content_sha256:
        return newest
    number = (deployment.revisions.aggregate(last=Max("number"))["last"] or 0) + 1
    revision, is_new = Revision.objects.get_or_create(
        deployment=deployment,
        content_sha256=content_sha256,
        defaults={"number": number, "created_at": now, "is_routed": newest is None, **_content_of(deployment)},
    )
    if not is_new:
        revision.number, revision.routed_generation, revision.is_routed = number, None, False
        revision.save(update_fields=["number", "routed_generation", "is_routed"])
    _forget_old(deployment)
    return revision


def content_sha256_of(deployment: Deployment) -> str:
    content = json.dumps(_content_of(deployment), sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()


def _content_of(deployment: Deployment) -> dict[str, Any]:
    version = deployment.version
    return {
        "version_id": version.pk,
        "max_running_requests": deployment.max_running_requests,
        "requirements": deployment.requirements,
        "process": process_of(version),
    }


def process_of(version: ModelVersion) -> dict[str, Any]:
    """Of the rest only what is set, so that a field that is new here changes no process."""
    adapters = {each["name"]: each["source"] for each in version.lora_adapters}
    pins = {each["name"]: each["revision"] for each in version.lora_adapters if each.get("revision")}
    facts = {
        "revision": version.revision,
        "dtype": version.dtype,
        "quantisation": version.quantisation,
        "lora_adapters": adapters,
        "lora_revisions": pins,
    }
    return {
        "engine": version.engine,
        "source": version.source,
        "served_name": version.served_name,
        "task": version.model.task,
        "max_context_tokens": version.max_context_tokens,
        "engine_args": version.engine_args,
    } | {name: value for name, value in facts.items() if value}


def _forget_old(deployment: Deployment) -> None:
    """Those that nothing runs of any more, but for the last few, to which one may go back."""
    old = deployment.revisions.values_list("pk", flat=True)[KEPT_REVISIONS:]
    Revision.objects.filter(pk__in=list(old), replicas=None).delete()
