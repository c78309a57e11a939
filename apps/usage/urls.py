from django.urls import path

from apps.usage import api

urlpatterns = [
    path("usage/records/", api.RecordsView.as_view()),
    path("usage/records.csv", api.RecordsCSVView.as_view()),
    path("usage/report/", api.ReportView.as_view()),
    path("usage/report.csv", api.ReportCSVView.as_view()),
    path("prices/", api.PricesView.as_view()),
]
