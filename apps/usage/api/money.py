"""What a success costs, what serving really costs, statements, and charges for other finance tools."""

from django.http import HttpResponse, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.one_look import one_look
from apps.common.parsing import parsed
from apps.tenants.access import ActorView
from apps.tenants.matrix import Permission
from apps.usage.api.files import csv_answer, parquet_answer
from apps.usage.api.prices import FinanceView
from apps.usage.api.statement_pdf import statement_pdf
from apps.usage.api.usage import UsageView
from apps.usage.selectors.accelerators import list_accelerator_prices, report_cost
from apps.usage.selectors.focus import focus_table
from apps.usage.selectors.outcomes import OutcomeRow, report_outcomes, sum_outcomes
from apps.usage.selectors.statements import Statement, get_statement
from apps.usage.serializers import money as serializers
from apps.usage.serializers.usage import UsageQuerySerializer
from apps.usage.services.accelerators import set_accelerator_price

_OUTCOME_COLUMNS = (
    "id", "name", "task_count", "success_count", "task_cost_usd", "failed_task_cost_usd", "cost_per_success_usd",
    "value_usd", "cost_usd", "request_count",
)  # fmt: skip
_WASTE_COLUMNS = (
    "retries_usd", "failures_usd", "abandoned_usd", "refused_usd", "failed_count", "abandoned_count", "refused_count",
)  # fmt: skip
_COST_COLUMNS = (
    "id", "name", "used_s", "idle_s", "used_usd", "idle_usd", "cost_usd", "billed_usd", "margin_usd",
)  # fmt: skip


class OutcomesView(UsageView):
    @extend_schema(parameters=[serializers.OutcomeQuerySerializer], responses=serializers.OutcomeReportSerializer)
    @one_look()
    def get(self, request: Request) -> Response:
        query = parsed(serializers.OutcomeQuerySerializer, request.query_params)
        scope = self.scope(query)
        report = {
            "rows": report_outcomes(scope=scope, group_by=query["group_by"]),
            "totals": sum_outcomes(scope=scope),
        }
        return Response(serializers.OutcomeReportSerializer(report).data)


class OutcomesCSVView(UsageView):
    @extend_schema(parameters=[serializers.OutcomeQuerySerializer], responses={(200, "text/csv"): OpenApiTypes.STR})
    @one_look()
    def get(self, request: Request) -> StreamingHttpResponse:
        query = parsed(serializers.OutcomeQuerySerializer, request.query_params)
        rows = report_outcomes(scope=self.scope(query), group_by=query["group_by"])
        return csv_answer("outcomes.csv", [*_OUTCOME_COLUMNS, *_WASTE_COLUMNS], map(_outcome_line, rows))


def _outcome_line(row: OutcomeRow) -> list[object]:
    wasted = [getattr(row.waste, name) for name in _WASTE_COLUMNS]
    return [*(getattr(row, name) for name in _OUTCOME_COLUMNS), *wasted]


class CostView(UsageView):
    rules = FinanceView.rules

    @extend_schema(parameters=[serializers.CostQuerySerializer], responses=serializers.CostReportSerializer)
    @one_look()
    def get(self, request: Request) -> Response:
        query = parsed(serializers.CostQuerySerializer, request.query_params)
        report = report_cost(scope=self.scope(query), group_by=query["group_by"])
        return Response(serializers.CostReportSerializer(report).data)


class CostCSVView(UsageView):
    rules = FinanceView.rules

    @extend_schema(parameters=[serializers.CostQuerySerializer], responses={(200, "text/csv"): OpenApiTypes.STR})
    @one_look()
    def get(self, request: Request) -> StreamingHttpResponse:
        query = parsed(serializers.CostQuerySerializer, request.query_params)
        rows = report_cost(scope=self.scope(query), group_by=query["group_by"]).rows
        lines = ([getattr(row, name) for name in _COST_COLUMNS] for row in rows)
        return csv_answer("cost.csv", _COST_COLUMNS, lines)


class AcceleratorPricesView(FinanceView):
    @extend_schema(responses=serializers.AcceleratorPriceSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(list_accelerator_prices(), serializers.AcceleratorPriceSerializer)

    @extend_schema(
        request=serializers.NewAcceleratorPriceSerializer, responses={201: serializers.AcceleratorPriceSerializer}
    )
    def post(self, request: Request) -> Response:
        new = parsed(serializers.NewAcceleratorPriceSerializer, request.data)
        effective_from = new.pop("effective_from", self.now)
        line = set_accelerator_price(actor=self.actor, effective_from=effective_from, now=self.now, **new)
        return Response(serializers.AcceleratorPriceSerializer(line).data, status=201)


class FocusCSVView(UsageView):
    @extend_schema(parameters=[UsageQuerySerializer], responses={(200, "text/csv"): OpenApiTypes.STR})
    def get(self, request: Request) -> StreamingHttpResponse:
        """FOCUS 1.2: a row per UTC day, tenant, version and key."""
        table = focus_table(scope=self.scope(parsed(UsageQuerySerializer, request.query_params)))
        return csv_answer("focus.csv", table.names, table.rows())


class FocusParquetView(UsageView):
    @extend_schema(
        parameters=[UsageQuerySerializer], responses={(200, "application/vnd.apache.parquet"): OpenApiTypes.BINARY}
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        table = focus_table(scope=self.scope(parsed(UsageQuerySerializer, request.query_params)))
        return parquet_answer("focus.parquet", table)


class StatementView(ActorView):
    rules = {"GET": Permission.SEE_TENANT}

    @extend_schema(parameters=[serializers.StatementQuerySerializer], responses=serializers.StatementSerializer)
    def get(self, request: Request) -> Response | HttpResponse:
        return Response(serializers.StatementSerializer(self.statement(request)).data)

    @one_look()
    def statement(self, request: Request) -> Statement:
        query = parsed(serializers.StatementQuerySerializer, request.query_params)
        return get_statement(
            actor=self.actor, tenant_id=query["tenant"], first_day=query["month"], zone=query["zone"], now=self.now
        )


class StatementPDFView(StatementView):
    @extend_schema(
        parameters=[serializers.StatementQuerySerializer], responses={(200, "application/pdf"): OpenApiTypes.BINARY}
    )
    def get(self, request: Request) -> HttpResponse:
        statement = self.statement(request)
        name = f"statement-{statement.tenant.name}-{statement.month.first_day:%Y-%m}.pdf"
        answer = HttpResponse(statement_pdf(statement), content_type="application/pdf")
        answer["Content-Disposition"] = f'attachment; filename="{name}"'
        return answer
