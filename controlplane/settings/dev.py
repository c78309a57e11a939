"""Development and the demo: secrets that are not given are made once and kept under TOKENYARD_VAR."""

from controlplane.settings import env
from controlplane.settings.base import *  # noqa: F403 - Django's settings are a namespace
from controlplane.settings.base import VAR

_SECRETS = VAR / "secrets"
SECRET_KEY = env.generated_secret("TOKENYARD_SECRET_KEY", _SECRETS / "secret_key", size_bytes=env.SECRET_KEY_BYTES)
SNAPSHOT_SEED = env.signing_seed(
    "TOKENYARD_SNAPSHOT_KEY",
    env.generated_secret("TOKENYARD_SNAPSHOT_KEY", _SECRETS / "snapshot_key", size_bytes=env.SIGNING_SEED_BYTES),
)
# Static files straight from the source tree, so that a style change needs no collectstatic.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = True
STORAGES = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
