from datetime import datetime
from typing import Any

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.one_look import in_one_look, one_look
from apps.common.pagination import NewestRecordsFirst
from apps.common.parsing import parsed
from apps.tenants.access import ActorView
from apps.tenants.matrix import Permission
from apps.usage.api.files import CHUNK_ROWS, csv_answer, parquet_answer
from apps.usage.selectors.records import list_records
from apps.usage.selectors.reports import report_usage, scope_for, sum_usage
from apps.usage.selectors.reratings import list_under_way
from apps.usage.selectors.sums import UsageScope
from apps.usage.selectors.tables import records_table, report_table
from apps.usage.serializers import usage as serializers

UNDER_WAY = "x-tokenyard-reratings-under-way"


class UsageView(ActorView):
    """Every answer, files too, names the re-ratings under way that reach into its range, in a header."""

    rules = {"GET": Permission.SEE_TENANT}
    has_own_filters = True

    def scope(self, query: dict[str, Any]) -> UsageScope:
        start, end = serializers.default_range(self.now, query["zone"])
        scope = self._scope(query, query.get("start", start), query.get("end", end))
        if numbers := list_under_way(scope.start, scope.end):
            self.headers[UNDER_WAY] = ", ".join(map(str, numbers))
        return scope

    def _scope(self, query: dict[str, Any], start: datetime, end: datetime) -> UsageScope:
        return scope_for(
            actor=self.actor,
            start=start,
            end=end,
            tenant_id=query["tenant"],
            user_id=query["user"],
            key_id=query["key"],
            version_id=query["version"],
            public_model=query["model"],
            end_user=query["end_user"],
            workflow_id=query["workflow"],
            outcome=query["outcome"],
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
        records = list_records(scope=self.scope(query)).values_list(*serializers.RECORD_FIELDS)
        return csv_answer("usage-records.csv", serializers.RECORD_FIELDS, in_one_look(records, chunk_rows=CHUNK_ROWS))


class RecordsParquetView(UsageView):
    @extend_schema(
        parameters=[serializers.UsageQuerySerializer],
        responses={(200, "application/vnd.apache.parquet"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        query = parsed(serializers.UsageQuerySerializer, request.query_params)
        return parquet_answer("usage-records.parquet", records_table(scope=self.scope(query)))


class ReportView(UsageView):
    @extend_schema(parameters=[serializers.ReportQuerySerializer], responses=serializers.UsageReportSerializer)
    @one_look()
    def get(self, request: Request) -> Response:
        query = parsed(serializers.ReportQuerySerializer, request.query_params)
        scope = self.scope(query)
        report = {
            "start": scope.start,
            "end": scope.end,
            "zone": str(query["zone"]),
            "group_by": query["group_by"],
            "reratings_under_way": list_under_way(scope.start, scope.end),
            "rows": report_usage(scope=scope, group_by=query["group_by"], zone=query["zone"]),
            "totals": sum_usage(scope=scope),
        }
        return Response(serializers.UsageReportSerializer(report).data)


class ReportCSVView(UsageView):
    @extend_schema(parameters=[serializers.ReportQuerySerializer], responses={(200, "text/csv"): OpenApiTypes.STR})
    @one_look()
    def get(self, request: Request) -> StreamingHttpResponse:
        query = parsed(serializers.ReportQuerySerializer, request.query_params)
        table = report_table(scope=self.scope(query), group_by=query["group_by"], zone=query["zone"])
        return csv_answer("usage-report.csv", table.names, table.rows())


class ReportParquetView(UsageView):
    @extend_schema(
        parameters=[serializers.ReportQuerySerializer],
        responses={(200, "application/vnd.apache.parquet"): OpenApiTypes.BINARY},
    )
    @one_look()
    def get(self, request: Request) -> StreamingHttpResponse:
        query = parsed(serializers.ReportQuerySerializer, request.query_params)
        table = report_table(scope=self.scope(query), group_by=query["group_by"], zone=query["zone"])
        return parquet_answer("usage-report.parquet", table)
