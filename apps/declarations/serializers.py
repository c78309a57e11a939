from typing import Any

from rest_framework import serializers

from apps.declarations.services.kinds.catalogue import CATALOGUE


class ApplyQuerySerializer(serializers.Serializer[Any]):
    """`set` names who owns what is applied. With `prune` what the set owns and no document names goes.

    With `take_over` things of another set become this one's. `plan` of a dry run makes sure that what is done is what
    was shown.
    """

    set = serializers.SlugField(max_length=63, default="default")
    prune = serializers.BooleanField(default=False)
    take_over = serializers.BooleanField(default=False)
    plan = serializers.CharField(max_length=64, default="", allow_blank=True)


class DocumentSerializer(serializers.Serializer[Any]):
    """`kind` says which fields there are; docs/howto/apply.md lists them."""

    kind = serializers.ChoiceField(choices=sorted(CATALOGUE))


class DocumentsSerializer(serializers.Serializer[Any]):
    documents = serializers.ListField(child=DocumentSerializer(), max_length=500)


class DifferenceSerializer(serializers.Serializer[Any]):
    field = serializers.CharField()
    to = serializers.JSONField(allow_null=True)

    def get_fields(self) -> dict[str, Any]:
        """`from` is a word of Python's."""
        return super().get_fields() | {"from": serializers.JSONField(allow_null=True)}


class ResultSerializer(serializers.Serializer[Any]):
    document = serializers.IntegerField(allow_null=True)
    kind = serializers.CharField()
    title = serializers.CharField()
    action = serializers.ChoiceField(choices=["create", "change", "keep", "remove", "release"])
    diff = DifferenceSerializer(many=True)
    owner_before = serializers.CharField(allow_null=True)
    note = serializers.CharField(allow_blank=True)


class AppliedSerializer(serializers.Serializer[Any]):
    set_name = serializers.CharField()
    plan = serializers.CharField()
    dry_run = serializers.BooleanField()
    results = ResultSerializer(many=True)
