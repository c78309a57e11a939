import os

from django.core.wsgi import get_wsgi_application

from controlplane.starting import said_plainly

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.dev")

with said_plainly():
    application = get_wsgi_application()
