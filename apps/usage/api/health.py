from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.usage.api.prices import FinanceView
from apps.usage.selectors.health import get_quarantined, get_record_health, health_since, list_quarantined
from apps.usage.serializers import health as serializers
from apps.usage.services.quarantine import release_record


class RecordHealthView(FinanceView):
    @extend_schema(responses=serializers.RecordHealthSerializer)
    def get(self, request: Request) -> Response:  # noqa: ARG002
        health = get_record_health(since=health_since(self.now))
        return Response(serializers.RecordHealthSerializer(health).data)


class QuarantineView(FinanceView):
    @extend_schema(responses=serializers.QuarantinedRecordSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(list_quarantined(), serializers.QuarantinedRecordSerializer)


class QuarantinedRecordView(FinanceView):
    @extend_schema(responses=serializers.QuarantinedRecordSerializer)
    def get(self, request: Request, quarantined_id: UUID) -> Response:  # noqa: ARG002
        return Response(serializers.QuarantinedRecordSerializer(get_quarantined(quarantined_id)).data)

    @extend_schema(request=None, responses={204: None})
    def post(self, request: Request, quarantined_id: UUID, **_: Any) -> Response:  # noqa: ARG002
        """Stores a record that came too late after all."""
        release_record(actor=self.actor, quarantined=get_quarantined(quarantined_id), now=self.now)
        return Response(status=204)
