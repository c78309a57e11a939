from django.urls import path

from apps.usage.api import health, prices, usage

urlpatterns = [
    path("usage/records/", usage.RecordsView.as_view()),
    path("usage/records.csv", usage.RecordsCSVView.as_view()),
    path("usage/records.parquet", usage.RecordsParquetView.as_view()),
    path("usage/report/", usage.ReportView.as_view()),
    path("usage/report.csv", usage.ReportCSVView.as_view()),
    path("usage/report.parquet", usage.ReportParquetView.as_view()),
    path("usage/health/", health.RecordHealthView.as_view()),
    path("usage/quarantine/", health.QuarantineView.as_view()),
    path("usage/quarantine/<uuid:quarantined_id>/", health.QuarantinedRecordView.as_view()),
    path("prices/", prices.PricesView.as_view()),
    path("discounts/", prices.DiscountsView.as_view()),
    path("reratings/", prices.ReratingsView.as_view()),
    path("reratings/<uuid:rerating_id>/", prices.ReratingView.as_view()),
]
