from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.parsing import parsed
from apps.deployments.selectors import get_replica
from apps.telemetry.models import PromptChoice
from apps.telemetry.selectors.decisions import get_decision
from apps.telemetry.selectors.nodes import get_log, list_live_nodes
from apps.telemetry.selectors.prompts import find_choice, get_kept_prompt
from apps.telemetry.serializers import (
    KeepPromptsSerializer,
    LiveNodesSerializer,
    PromptChoiceSerializer,
    PromptSerializer,
    ReplicaLogSerializer,
    RequestDecisionSerializer,
)
from apps.telemetry.services.prompts import forget_prompts_of, keep_prompts, read_prompt
from apps.tenants.access import WRITES, ActorView, OperatorView
from apps.tenants.matrix import Permission, may
from apps.tenants.models import Tenant
from apps.tenants.selectors import get_tenant


class DecisionView(ActorView):
    rules = {"GET": Permission.SEE_TENANT}

    @extend_schema(responses=RequestDecisionSerializer)
    def get(self, request: Request, label: str) -> Response:  # noqa: ARG002
        decision = get_decision(actor=self.actor, request_id=label)
        return Response(RequestDecisionSerializer(decision).data)


class PromptChoiceView(ActorView):
    """Whether a tenant's prompts are kept, and for how long. Off until the tenant's own admin says otherwise."""

    rules = {"GET": Permission.SEE_TENANT, "PUT": Permission.MANAGE_PROMPTS, "DELETE": Permission.MANAGE_PROMPTS}
    dangerous = WRITES

    @extend_schema(responses=PromptChoiceSerializer)
    def get(self, request: Request, tenant_id: UUID) -> Response:  # noqa: ARG002
        tenant = get_tenant(actor=self.actor, tenant_id=tenant_id)
        return self._choice_of(tenant)

    @extend_schema(request=KeepPromptsSerializer, responses=PromptChoiceSerializer)
    def put(self, request: Request, tenant_id: UUID) -> Response:
        tenant = self._managed(tenant_id)
        keep_prompts(actor=self.actor, tenant=tenant, now=self.now, **parsed(KeepPromptsSerializer, request.data))
        return self._choice_of(tenant)

    @extend_schema(responses={204: None}, description="Nothing is kept any more, and what was is deleted.")
    def delete(self, request: Request, tenant_id: UUID) -> Response:  # noqa: ARG002
        forget_prompts_of(actor=self.actor, tenant=self._managed(tenant_id), now=self.now)
        return Response(status=204)

    def _managed(self, tenant_id: UUID) -> Tenant:
        tenant = get_tenant(actor=self.actor, tenant_id=tenant_id)
        self.require(may(self.actor, Permission.MANAGE_PROMPTS, tenant.pk))
        return tenant

    def _choice_of(self, tenant: Tenant) -> Response:
        choice = find_choice(tenant.pk)
        kept = {"is_kept": choice is not None, "days": None, "since": None}
        return Response(PromptChoiceSerializer(kept if choice is None else kept | _fields_of(choice)).data)


class RecordPromptView(ActorView):
    """The body of one request as its client sent it, without pictures and sounds. Reading it is audited."""

    rules = {"GET": Permission.READ_PROMPTS}

    @extend_schema(responses=PromptSerializer)
    def get(self, request: Request, record_id: UUID) -> Response:  # noqa: ARG002
        kept = get_kept_prompt(actor=self.actor, record_id=record_id)
        text = read_prompt(actor=self.actor, kept=kept, now=self.now)
        return Response(
            PromptSerializer({"record_id": kept.record_id, "arrived_at": kept.arrived_at, "body": text}).data
        )


def _fields_of(choice: PromptChoice) -> dict[str, object]:
    return {"days": choice.days, "since": choice.since}


class LiveNodesView(OperatorView):
    """What each node said last, within the last minute. Null is unknown, never zero."""

    @extend_schema(responses=LiveNodesSerializer)
    def get(self, request: Request) -> Response:  # noqa: ARG002
        rows = list_live_nodes(now_s=self.now.timestamp())
        return Response(LiveNodesSerializer({"results": rows}).data)


class ReplicaLogsView(OperatorView):
    """The last lines of its engine's log: as its node sent them last, or as they were when it failed."""

    @extend_schema(responses=ReplicaLogSerializer)
    def get(self, request: Request, replica_id: UUID) -> Response:  # noqa: ARG002
        return Response(ReplicaLogSerializer(get_log(get_replica(replica_id))).data)
