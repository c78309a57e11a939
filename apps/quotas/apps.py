from django.apps import AppConfig


class QuotasConfig(AppConfig):
    name = "apps.quotas"
