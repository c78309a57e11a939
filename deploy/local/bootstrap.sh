#!/bin/sh
# Finds a Python that is new enough and hands over to bootstrap.py. One that was named is taken, or refused.
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14 python}; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        exec "$candidate" "$(dirname "$0")/bootstrap.py" "$@"
    fi
done
if [ -n "$PYTHON" ]; then
    echo "✗ $PYTHON is no Python 3.11 or newer, or cannot be run. Name another one, or none: make up PYTHON=…" >&2
    exit 1
fi
echo "✗ Tokenyard needs Python 3.11 or newer and found none. Install one, or name it: make up PYTHON=/path/to/python3" >&2
exit 1
