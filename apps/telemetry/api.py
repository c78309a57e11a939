from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.telemetry.selectors.decisions import get_decision
from apps.telemetry.serializers import RequestDecisionSerializer
from apps.tenants.access import ActorView
from apps.tenants.matrix import Permission


class DecisionView(ActorView):
    rules = {"GET": Permission.SEE_TENANT}

    @extend_schema(responses=RequestDecisionSerializer)
    def get(self, request: Request, label: str) -> Response:  # noqa: ARG002
        decision = get_decision(actor=self.actor, request_id=label)
        return Response(RequestDecisionSerializer(decision).data)
