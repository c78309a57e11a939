from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.parsing import parsed
from apps.tenants.access import ActorView
from apps.tenants.matrix import Permission
from apps.tenants.selectors import get_tenant
from apps.usage.policies.access import may_set_budget
from apps.usage.selectors.budgets import get_budget, get_budget_status, list_alerts, list_budgets
from apps.usage.serializers import money as serializers
from apps.usage.services.budgets import create_budget, delete_budget, webhook_key


class BudgetsView(ActorView):
    rules = {"GET": Permission.SEE_TENANT, "POST": Permission.SET_BUDGETS}

    @extend_schema(responses=serializers.BudgetSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(list_budgets(actor=self.actor), serializers.BudgetSerializer)

    @extend_schema(request=serializers.NewBudgetSerializer, responses={201: serializers.ShownOnceBudgetSerializer})
    def post(self, request: Request) -> Response:
        new = parsed(serializers.NewBudgetSerializer, request.data)
        tenant_id = new.pop("tenant_id")
        tenant = get_tenant(actor=self.actor, tenant_id=tenant_id) if tenant_id else None
        self.require(may_set_budget(self.actor, tenant_id))
        budget = create_budget(actor=self.actor, tenant=tenant, now=self.now, **new)
        shown = serializers.BudgetSerializer(budget).data | {"webhook_key": webhook_key(budget)}
        return Response(shown, status=201)


class BudgetView(ActorView):
    rules = {"GET": Permission.SEE_TENANT, "DELETE": Permission.SET_BUDGETS}
    reported = frozenset({"month", "spent_usd", "forecast_usd", "alerts"})

    @extend_schema(responses=serializers.BudgetStatusSerializer)
    def get(self, request: Request, budget_id: UUID) -> Response:  # noqa: ARG002
        budget = get_budget(actor=self.actor, budget_id=budget_id)
        status = get_budget_status(budget, now=self.now)
        shown = {
            "budget": budget,
            "month": status.month,
            "spent_usd": status.spent_usd,
            "forecast_usd": status.forecast_usd,
            "alerts": list_alerts(budget=budget),
        }
        return Response(serializers.BudgetStatusSerializer(shown).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, budget_id: UUID) -> Response:  # noqa: ARG002
        budget = get_budget(actor=self.actor, budget_id=budget_id)
        self.require(may_set_budget(self.actor, budget.tenant_id))
        delete_budget(actor=self.actor, budget=budget, now=self.now)
        return Response(status=204)
