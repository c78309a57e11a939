"""Settings that every environment shares. What differs is in dev, test and prod; values are read by env."""

from pathlib import Path
from typing import Any

from django.db.backends.postgresql.psycopg_any import IsolationLevel
from kombu import Queue

from controlplane.settings import env, loops, rest

ROOT = Path(__file__).resolve().parents[2]

VAR = env.directory("TOKENYARD_VAR", ROOT / "var")
WEB_PORT = env.port("TOKENYARD_WEB_PORT", 8000)
GATEWAY_PORT = env.port("TOKENYARD_GATEWAY_PORT", 8080)
ENGINE_PORT_BASE = env.port("TOKENYARD_ENGINE_PORT_BASE", 9000)
WEB_URL = env.http_url("TOKENYARD_WEB_URL", f"http://127.0.0.1:{WEB_PORT}")
GATEWAY_URL = env.http_url("TOKENYARD_GATEWAY_URL", f"http://127.0.0.1:{GATEWAY_PORT}")
VALKEY_URL = env.valkey_url("TOKENYARD_VALKEY_URL", "redis://127.0.0.1:6379/0")
# Where nodes' gateways share their limits: they are told, so it may name a user who may do that and nothing else.
NODE_VALKEY_URL = env.valkey_url_for_nodes("TOKENYARD_NODE_VALKEY_URL", VALKEY_URL)
VALKEY_TIMEOUT_S = 1.0
USAGE_KEEP_DAYS = env.integer("TOKENYARD_USAGE_KEEP_DAYS", 400, low=0, high=36_500)  # of records; sums stay for good

# docs/howto/rest.md. By token, person or address; 0 counts nothing.
API_REQUESTS_PER_MINUTE = env.integer("TOKENYARD_API_REQUESTS_PER_MINUTE", 1200, low=0, high=1_000_000)
API_REQUIRES_IF_MATCH = env.text("TOKENYARD_API_REQUIRES_IF_MATCH", "0") == "1"
API_MOST_WATCHERS = env.integer("TOKENYARD_API_MOST_WATCHERS", 200, low=0, high=10_000)  # of one web process
API_MOST_WATCHERS_EACH = env.integer("TOKENYARD_API_MOST_WATCHERS_EACH", 50, low=0, high=10_000)  # of them, a person's

# docs/howto/tenants.md. Of those that work.
KEYS_MOST = env.integer("TOKENYARD_KEYS_MOST", 1000, low=1, high=100_000)  # of a tenant
KEYS_MOST_EACH = env.integer("TOKENYARD_KEYS_MOST_EACH", 200, low=1, high=100_000)  # of them, a person's
TOKENS_MOST_EACH = env.integer("TOKENYARD_TOKENS_MOST_EACH", 100, low=1, high=100_000)  # a person's service tokens

HUB_URL = env.http_url("TOKENYARD_HUB_URL", "https://huggingface.co")  # or a mirror of it
HUB_TOKEN = env.text("TOKENYARD_HUB_TOKEN", "")
OBJECT_STORES = env.stores("TOKENYARD_STORES")  # docs/howto/object-stores.md

WEBHOOK_TRUSTED_HOSTS = env.texts("TOKENYARD_WEBHOOK_TRUSTED_HOSTS", [])  # inside the network, and meant to be called
EMAIL_HOST = env.text("TOKENYARD_SMTP_HOST", "")
# Without a mail host letters are kept as files, so that a link in one is not lost.
EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend" if EMAIL_HOST else "apps.common.mail.PrivateFiles"
EMAIL_FILE_PATH = VAR / "mail"
EMAIL_TIMEOUT = 10
LETTERS_AT_ONCE = False
EMAIL_PORT = env.port("TOKENYARD_SMTP_PORT", 25)
EMAIL_HOST_USER = env.text("TOKENYARD_SMTP_USER", "")
EMAIL_HOST_PASSWORD = env.text("TOKENYARD_SMTP_PASSWORD", "")
EMAIL_USE_TLS = env.text("TOKENYARD_SMTP_TLS", "0") == "1"
DEFAULT_FROM_EMAIL = env.text("TOKENYARD_MAIL_FROM", "tokenyard@localhost")
# Whose X-Forwarded-For gateways believe, as CIDR ranges; web's own is uvicorn's FORWARDED_ALLOW_IPS.
GATEWAY_TRUSTED_PROXIES = env.networks("TOKENYARD_TRUSTED_PROXIES")
GATEWAY_MEDIA_HOSTS = env.texts("TOKENYARD_MEDIA_HOSTS", [])  # engines may fetch images, sound and film from there

DEBUG = False
ALLOWED_HOSTS = env.texts("TOKENYARD_ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = [WEB_URL]

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "apps.common",
    "apps.rest",
    "apps.audit",
    "apps.tenants",
    "apps.identity",
    "apps.registry",
    "apps.fleet",
    "apps.quotas",
    "apps.deployments",
    "apps.placement",
    "apps.usage",
    "apps.limits",
    "apps.telemetry",
    "apps.routing",
    "apps.declarations",
    "apps.console",
]

MIDDLEWARE = [
    "apps.common.middleware.begin_without_rows",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "controlplane.csp.content_security_policy",
    "controlplane.caching.keep_nowhere",
    "controlplane.zones.reader_zone",
    "controlplane.unknown.show_what_is_not_allowed",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "apps.identity.middleware.watch_sessions",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "controlplane.urls"
WSGI_APPLICATION = "controlplane.wsgi.application"
ASGI_APPLICATION = "controlplane.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,  # and with Django's own choice of loaders each template is compiled once
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        **env.database("TOKENYARD_DATABASE_URL", "postgresql://tokenyard@127.0.0.1:5432/tokenyard"),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "connect_timeout": 3,
            "isolation_level": IsolationLevel.READ_COMMITTED,
            "options": "-c statement_timeout=30s -c lock_timeout=5s -c timezone=UTC",
        },
    }
}
# The role that web processes sign in as: it owns nothing, so that row-level security binds it. `migrate` makes it.
WEB_DATABASE_ROLE, WEB_DATABASE_PASSWORD = env.role("TOKENYARD_WEB_DATABASE_URL", "tokenyard_web")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "tenants.User"
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/sign-in/"
# Signing in at an identity provider; docs/howto/sign-in.md.
OIDC = env.openid_provider()
SESSION_COOKIE_NAME = "tokenyard_session"
CSRF_COOKIE_NAME = "tokenyard_csrf"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

STATIC_URL = "/static/"
STATIC_ROOT = VAR / "staticfiles"
STATICFILES_DIRS = [ROOT / "static"] if (ROOT / "static").is_dir() else []
STORAGES = {"staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"}}

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        # redis-py's own 5 s timeout would end every idle consumer.
        "CONFIG": {
            "hosts": [{"address": VALKEY_URL, "socket_timeout": None, "socket_connect_timeout": VALKEY_TIMEOUT_S}],
            "prefix": "tokenyard",
        },
    }
}

CELERY_BROKER_URL = env.broker_url(VALKEY_URL)
CELERY_TASK_DEFAULT_QUEUE = "controller"
CELERY_TASK_QUEUES = [Queue("controller")]
CELERY_TASK_CREATE_MISSING_QUEUES = True  # node.<id> appears with the node
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CONCURRENCY = 12  # more than the loops that may take minutes (apps/common/long_work.py), on any machine
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 60,
    "unacked_restore_interval": 5,
    "unacked_restore_throttle": 1,
    # A request that wakes a loop does not wait for a broker that is away: one quick second try, then it goes on.
    "max_retries": 1,
    "interval_start": 0.1,
    "socket_connect_timeout": VALKEY_TIMEOUT_S,
    "socket_timeout": 2 * VALKEY_TIMEOUT_S,
    "socket_keepalive": True,
}
CELERY_BEAT_SCHEDULE = loops.SCHEDULE
CELERY_BEAT_SCHEDULE_FILENAME = str(VAR / "celerybeat-schedule")

REST_FRAMEWORK = rest.FRAMEWORK
SPECTACULAR_SETTINGS = rest.SPECTACULAR

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"redact": {"()": "controlplane.logs.RedactSecrets"}},
    "formatters": {"line": {"()": "controlplane.logs.LineFormatter"}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["redact"]},
    },
    "root": {"handlers": ["stderr"], "level": env.text("TOKENYARD_LOG_LEVEL", "INFO").upper()},
    "loggers": {
        "django.server": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        "celery.app.trace": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.beat": {"level": "WARNING"},
    },
}
