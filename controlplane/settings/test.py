"""Tests: fixed secrets, quick password hashes; the services' addresses come from the environment."""

from controlplane.settings import env
from controlplane.settings.base import *  # noqa: F403 - Django's settings are a namespace
from controlplane.settings.base import DATABASES, MIDDLEWARE

SECRET_KEY = "for-tests-only-and-long-enough-to-please-the-system-check"  # noqa: S105 - signs nothing real
SNAPSHOT_SEED = env.signing_seed("TOKENYARD_SNAPSHOT_KEY", "dG9rZW55YXJkLXRlc3RzLXNpZ24td2l0aC10aGlzISE=")
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Requests run as the role that web has, though the tests themselves own the database.
MIDDLEWARE = ["tests.support.web_role.as_web_role", *MIDDLEWARE]
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = True
STORAGES = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
CELERY_TASK_ALWAYS_EAGER = False
LETTERS_AT_ONCE = True
DATABASES["default"]["CONN_MAX_AGE"] = 0  # threads leave no connection behind for the next test
API_REQUESTS_PER_MINUTE = env.integer("TOKENYARD_API_REQUESTS_PER_MINUTE", 0, low=0, high=1_000_000)
