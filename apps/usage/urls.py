from django.urls import path

from apps.usage.api import budgets, health, money, prices, usage

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
    path("usage/outcomes/", money.OutcomesView.as_view()),
    path("usage/outcomes.csv", money.OutcomesCSVView.as_view()),
    path("usage/cost/", money.CostView.as_view()),
    path("usage/cost.csv", money.CostCSVView.as_view()),
    path("usage/focus.csv", money.FocusCSVView.as_view()),
    path("usage/focus.parquet", money.FocusParquetView.as_view()),
    path("usage/statement/", money.StatementView.as_view()),
    path("usage/statement.pdf", money.StatementPDFView.as_view()),
    path("accelerator-prices/", money.AcceleratorPricesView.as_view()),
    path("budgets/", budgets.BudgetsView.as_view()),
    path("budgets/<uuid:budget_id>/", budgets.BudgetView.as_view()),
    path("prices/", prices.PricesView.as_view()),
    path("discounts/", prices.DiscountsView.as_view()),
    path("reratings/", prices.ReratingsView.as_view()),
    path("reratings/<uuid:rerating_id>/", prices.ReratingView.as_view()),
]
