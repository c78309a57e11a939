#!/usr/bin/env python
import os
import sys

from django.core.management import execute_from_command_line

from controlplane.starting import said_plainly

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.dev")
    with said_plainly():
        execute_from_command_line(sys.argv)
