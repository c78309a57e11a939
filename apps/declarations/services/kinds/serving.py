"""Models, their versions, deployments and routes."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from apps.common.errors import InvalidInputError
from apps.declarations.services.kinds.interface import By, Kind, Spec
from apps.deployments.models import Deployment
from apps.deployments.serializers import DeploymentChangeSerializer
from apps.deployments.services import deployments
from apps.registry import services as registry
from apps.registry.models import Model, ModelVersion
from apps.registry.policies.weights import total_of_index
from apps.registry.serializers import NewModelSerializer, NewVersionSerializer
from apps.routing.models import Route
from apps.routing.policies import MAX_WEIGHT
from apps.routing.services import routes

_LONGEST_REFERENCE = 100
_PROCESS = frozenset({"engine", "source", "engine_args", "max_context_tokens"})
_DESCRIPTION = frozenset({"licence", "tags"})


def reference(**options: Any) -> serializers.CharField:
    """A version, as model:label."""
    return serializers.CharField(max_length=_LONGEST_REFERENCE, **options)


def version_named(text: str, field: str = "version") -> ModelVersion:
    model, _, label = text.partition(":")
    found = ModelVersion.objects.select_related("model").filter(model__name=model, label=label).first()
    if found is None:
        raise InvalidInputError(f"no version {text!r}; write it as model:label", fields={field: f"no version {text!r}"})
    return found


def model_named(name: str) -> Model:
    found = Model.objects.filter(name=name).first()
    if found is None:
        raise InvalidInputError(f"no model {name!r}", fields={"model": f"no model {name!r}"})
    return found


class Models(Kind[Model]):
    name = "Model"
    spec = NewModelSerializer
    fixed = frozenset({"task"})

    def find(self, spec: Mapping[str, Any], by: By) -> Model | None:  # noqa: ARG002 - the interface's
        return Model.objects.filter(name=spec["name"]).first()

    def shown(self, row: Model, by: By) -> Spec:  # noqa: ARG002 - likewise
        return {"name": row.name, "task": row.task}

    def create(self, spec: Spec, by: By) -> None:
        registry.create_model(actor=by.actor, now=by.now, **spec)

    def remove(self, row: Model, by: By) -> str:
        registry.delete_model(actor=by.actor, model=row, now=by.now)
        return ""


class VersionSpec(NewVersionSerializer):
    model = serializers.SlugField(max_length=63)
    fetch = None  # type: ignore[assignment]  # a document says what it means, whoever applies it when


class Versions(Kind[ModelVersion]):
    name = "Version"
    spec = VersionSpec
    names = ("model", "label")
    fixed = frozenset(VersionSpec().fields) - {"model", "label"} - _PROCESS - _DESCRIPTION

    def title(self, spec: Mapping[str, Any]) -> str:
        return f"{spec['model']}:{spec['label']}"

    def find(self, spec: Mapping[str, Any], by: By) -> ModelVersion | None:
        return self.find_by_title(self.title(spec), by)

    def find_by_title(self, title: str, by: By) -> ModelVersion | None:  # noqa: ARG002 - the interface's
        model, _, label = title.partition(":")
        return ModelVersion.objects.select_related("model").filter(model__name=model, label=label).first()

    def plain(self, checked: Mapping[str, Any]) -> Spec:
        """The index is read once, for its sum; a source is spelt as it will be kept."""
        spec = dict(checked)
        if "source" in spec:
            spec["source"] = str(registry.checked_source(spec["source"]) or spec["source"])
        index = spec.pop("weight_index", None)
        if index and "weight_bytes" not in spec:
            spec["weight_bytes"] = total_of_index(index)
        return spec

    def shown(self, row: ModelVersion, by: By) -> Spec:  # noqa: ARG002 - likewise
        fields = set(VersionSpec().fields) - {"model", "weight_index"}
        return {"model": row.model.name} | {name: getattr(row, name) for name in sorted(fields)}

    def is_same(self, field: str, asked: Any, there: Any) -> bool:
        """An adapter whose revision nobody gives is the one that it was pinned to."""
        if field != "lora_adapters" or len(asked) != len(there):
            return super().is_same(field, asked, there)
        pins = {each["name"]: each.get("revision", "") for each in there}
        return [{"revision": pins.get(each["name"], "")} | each for each in asked] == [
            {"revision": ""} | each for each in there
        ]

    def create(self, spec: Spec, by: By) -> None:
        facts = {name: value for name, value in spec.items() if name != "model"}
        registry.create_version(actor=by.actor, model=model_named(spec["model"]), now=by.now, **facts)

    def change(self, row: ModelVersion, spec: Spec, changed: frozenset[str], by: By) -> None:
        if changed & _PROCESS:
            process = {name: spec[name] for name in _PROCESS}
            registry.change_engine(actor=by.actor, version=row, now=by.now, **process)
        if changed & _DESCRIPTION:
            described = {name: spec[name] for name in _DESCRIPTION}
            registry.describe_version(actor=by.actor, version=row, now=by.now, **described)

    def remove(self, row: ModelVersion, by: By) -> str:
        registry.delete_version(actor=by.actor, version=row, now=by.now)
        return ""


class DeploymentSpec(DeploymentChangeSerializer):
    name = serializers.SlugField(max_length=63)
    version = reference()
    version_id = None  # type: ignore[assignment]  # documents name versions


class Deployments(Kind[Deployment]):
    name = "Deployment"
    spec = DeploymentSpec

    def find(self, spec: Mapping[str, Any], by: By) -> Deployment | None:  # noqa: ARG002 - the interface's
        return Deployment.objects.select_related("version__model").filter(name=spec["name"]).first()

    def shown(self, row: Deployment, by: By) -> Spec:  # noqa: ARG002 - likewise
        fields = map(str, DeploymentSpec().fields)
        return {name: getattr(row, name) for name in fields} | {"version": str(row.version)}

    def create(self, spec: Spec, by: By) -> None:
        version = version_named(spec["version"])
        deployments.create_deployment(actor=by.actor, now=by.now, **(spec | {"version": version}))

    def change(self, row: Deployment, spec: Spec, changed: frozenset[str], by: By) -> None:
        wanted = {name: spec[name] for name in changed}
        if "version" in wanted:
            wanted["version"] = version_named(wanted["version"])
        change = deployments.Change(**wanted)
        deployments.change_deployment(actor=by.actor, deployment=row, change=change, now=by.now)

    def remove(self, row: Deployment, by: By) -> str:
        """What still runs is stopped first; the next apply removes the rest."""
        if row.wanted_count or row.replicas.exists():
            if row.wanted_count or row.keeps_asleep:
                change = deployments.Change(replica_count=0, keeps_asleep=False)
                deployments.change_deployment(actor=by.actor, deployment=row, change=change, now=by.now)
            return "its replicas stop; apply again once they have, and it goes"
        deployments.delete_deployment(actor=by.actor, deployment=row, now=by.now)
        return ""


class RouteTargetSpec(serializers.Serializer[Any]):
    version = reference()
    weight = serializers.IntegerField(min_value=0, max_value=MAX_WEIGHT)


class RouteSpec(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=100)
    targets = serializers.ListField(child=RouteTargetSpec(), min_length=1, max_length=20)
    alternatives = serializers.ListField(child=reference(), required=False, max_length=20)


class Routes(Kind[Route]):
    name = "Route"
    spec = RouteSpec

    def find(self, spec: Mapping[str, Any], by: By) -> Route | None:  # noqa: ARG002 - the interface's
        return Route.objects.filter(public_name=spec["name"]).first()

    def plain(self, checked: Mapping[str, Any]) -> Spec:
        """The order of targets means nothing."""
        spec = dict(checked)
        if "targets" in spec:
            spec["targets"] = sorted(map(dict, spec["targets"]), key=lambda target: str(target["version"]))
        return spec

    def shown(self, row: Route, by: By) -> Spec:  # noqa: ARG002 - likewise
        targets = [
            {"version": str(target.version), "weight": target.weight}
            for target in row.targets.select_related("version__model")
        ]
        return {
            "name": row.public_name,
            "targets": sorted(targets, key=lambda target: str(target["version"])),
            "alternatives": [str(target.version) for target in row.alternatives],
        }

    def create(self, spec: Spec, by: By) -> None:
        routes.create_route(actor=by.actor, public_name=spec["name"], now=by.now, **_targets_of(spec))

    def change(self, row: Route, spec: Spec, changed: frozenset[str], by: By) -> None:  # noqa: ARG002 - the interface's
        routes.set_canary_weights(actor=by.actor, route_id=row.pk, now=by.now, **_targets_of(spec))

    def remove(self, row: Route, by: By) -> str:
        routes.delete_route(actor=by.actor, route=row, now=by.now)
        return ""


def _targets_of(spec: Spec) -> dict[str, Any]:
    weights = {version_named(each["version"], "targets").pk: each["weight"] for each in spec["targets"]}
    if len(weights) < len(spec["targets"]):
        raise InvalidInputError("a version is listed twice", fields={"targets": "a version is listed twice"})
    return {
        "weights": weights,
        "alternatives": [version_named(name, "alternatives").pk for name in spec.get("alternatives", [])],
    }
