"""Production: every secret and address is given; nothing is made up."""

from controlplane.settings import env
from controlplane.settings.base import *  # noqa: F403 - Django's settings are a namespace
from controlplane.settings.base import DATABASES

SECRET_KEY = env.text("TOKENYARD_SECRET_KEY")
SNAPSHOT_SEED = env.signing_seed("TOKENYARD_SNAPSHOT_KEY", env.text("TOKENYARD_SNAPSHOT_KEY"))
WEB_URL = env.http_url("TOKENYARD_WEB_URL")
GATEWAY_URL = env.http_url("TOKENYARD_GATEWAY_URL")
VALKEY_URL = env.valkey_url("TOKENYARD_VALKEY_URL")
ALLOWED_HOSTS = env.texts("TOKENYARD_ALLOWED_HOSTS", [env.host_of(WEB_URL)])
CSRF_TRUSTED_ORIGINS = [WEB_URL]
DATABASES["default"].update(env.database("TOKENYARD_DATABASE_URL"))

_IS_HTTPS = WEB_URL.startswith("https://")
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SESSION_COOKIE_SECURE = _IS_HTTPS
CSRF_COOKIE_SECURE = _IS_HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if _IS_HTTPS else 0
