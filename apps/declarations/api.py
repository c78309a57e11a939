from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.errors import InvalidInputError
from apps.common.parsing import StrictJSONParser, parsed
from apps.declarations import serializers
from apps.declarations.parsing import TextYAMLParser, XYAMLParser, YAMLParser
from apps.declarations.policies.documents import documents_of
from apps.declarations.services.applying import apply_documents, kinds_of
from apps.declarations.services.kinds.catalogue import CATALOGUE
from apps.rest.conventions.writing import wants_dry_run
from apps.tenants.access import OperatorView
from apps.tenants.matrix import may_somewhere


class ApplyView(OperatorView):
    """Documents that say how things should be, as YAML or JSON; `?dry_run=1` shows what would become of each."""

    parser_classes = [StrictJSONParser, YAMLParser, XYAMLParser, TextYAMLParser]
    describes_itself = True

    @extend_schema(
        operation_id="apply",
        parameters=[serializers.ApplyQuerySerializer],
        request={
            "application/json": serializers.DocumentsSerializer,
            "application/yaml": serializers.DocumentSerializer,
        },
        responses=serializers.AppliedSerializer,
    )
    def post(self, request: Request) -> Response:
        asked = parsed(serializers.ApplyQuerySerializer, request.query_params)
        documents = documents_of(request.data)
        if request.data == []:
            raise InvalidInputError("the body holds no document; to prune all of a set say so: {documents: []}")
        for name in sorted(kinds_of(documents)):
            self.require(may_somewhere(self.actor, CATALOGUE[name].permission))
        applied = apply_documents(
            actor=self.actor,
            documents=documents,
            set_name=asked["set"],
            is_pruning=asked["prune"],
            takes_over=asked["take_over"],
            plan=asked["plan"],
            now=self.now,
        )
        shown = vars(applied) | {"plan": applied.plan, "dry_run": wants_dry_run(request)}
        return Response(serializers.AppliedSerializer(shown).data)
