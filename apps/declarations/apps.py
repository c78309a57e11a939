from django.apps import AppConfig


class DeclarationsConfig(AppConfig):
    name = "apps.declarations"
