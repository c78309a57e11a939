from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.csv_text import csv_lines
from apps.common.pagination import NewestRecordsFirst
from apps.common.parsing import parsed
from apps.registry.selectors import get_version
from apps.tenants.access import ActorView
from apps.tenants.matrix import Permission
from apps.tenants.policies import may_set_prices
from apps.usage import serializers
from apps.usage.selectors.prices import list_prices
from apps.usage.selectors.records import list_records
from apps.usage.selectors.reports import UsageScope, UsageTotals, report_usage, scope_for, sum_usage
from apps.usage.services.prices import set_price
from workers.contracts.snapshot import Price

SUMS = tuple(asdict(UsageTotals()))
CSV_CHUNK_ROWS = 2000


class UsageView(ActorView):
    rules = {"GET": Permission.SEE_TENANT}

    def scope(self, query: dict[str, Any]) -> UsageScope:
        start, end = serializers.default_range(self.now, query["zone"])
        return scope_for(
            actor=self.actor,
            start=query.get("start", start),
            end=query.get("end", end),
            tenant_id=query["tenant"],
            user_id=query["user"],
            key_id=query["key"],
            public_model=query["model"],
        )


class RecordsView(UsageView):
    pagination_class = NewestRecordsFirst

    @extend_schema(
        parameters=[serializers.UsageQuerySerializer], responses=serializers.UsageRecordSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        query = parsed(serializers.UsageQuerySerializer, request.query_params)
        return self.paged(list_records(scope=self.scope(query)), serializers.UsageRecordSerializer)


class RecordsCSVView(UsageView):
    @extend_schema(parameters=[serializers.UsageQuerySerializer], responses={(200, "text/csv"): OpenApiTypes.STR})
    def get(self, request: Request) -> StreamingHttpResponse:
        query = parsed(serializers.UsageQuerySerializer, request.query_params)
        header = serializers.UsageRecordSerializer.Meta.fields
        records = list_records(scope=self.scope(query)).values_list(*header).iterator(chunk_size=CSV_CHUNK_ROWS)
        return csv_answer("usage-records.csv", header, records)


class ReportView(UsageView):
    @extend_schema(parameters=[serializers.ReportQuerySerializer], responses=serializers.UsageReportSerializer)
    def get(self, request: Request) -> Response:
        query = parsed(serializers.ReportQuerySerializer, request.query_params)
        scope = self.scope(query)
        report = {
            "start": scope.start,
            "end": scope.end,
            "zone": str(query["zone"]),
            "group_by": query["group_by"],
            "rows": report_usage(scope=scope, group_by=query["group_by"], zone=query["zone"]),
            "totals": sum_usage(scope=scope),
        }
        return Response(serializers.UsageReportSerializer(report).data)


class ReportCSVView(UsageView):
    @extend_schema(parameters=[serializers.ReportQuerySerializer], responses={(200, "text/csv"): OpenApiTypes.STR})
    def get(self, request: Request) -> StreamingHttpResponse:
        query = parsed(serializers.ReportQuerySerializer, request.query_params)
        rows = report_usage(scope=self.scope(query), group_by=query["group_by"], zone=query["zone"])
        named = [group for group in query["group_by"] if group != "day"]
        header = ["day", *named, *(f"{group}_id" for group in named), *SUMS]
        lines = (
            [row.day, *(row.names[g] for g in named), *(row.ids[g] for g in named), *(getattr(row, s) for s in SUMS)]
            for row in rows
        )
        return csv_answer("usage-report.csv", header, lines)


class PricesView(ActorView):
    rules = {"*": Permission.SET_PRICES}

    @extend_schema(responses=serializers.PriceSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        self.require(may_set_prices(self.actor))
        return self.paged(list_prices(), serializers.PriceSerializer)

    @extend_schema(request=serializers.NewPriceSerializer, responses={201: serializers.PriceSerializer})
    def post(self, request: Request) -> Response:
        self.require(may_set_prices(self.actor))
        new = parsed(serializers.NewPriceSerializer, request.data)
        version = get_version(new.pop("version_id"))
        effective_from = new.pop("effective_from", self.now)
        entry = set_price(
            actor=self.actor, version=version, price=Price(**new), effective_from=effective_from, now=self.now
        )
        return Response(serializers.PriceSerializer(entry).data, status=201)


def csv_answer(name: str, header: list[str], rows: Iterable[Any]) -> StreamingHttpResponse:
    answer = StreamingHttpResponse(csv_lines(header, rows), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer
