#!/bin/sh
# The Python of workers on one machine; see worker_python.py.
PYTHONPATH="$PENSTOCK_PYTHONPATH" exec "$PENSTOCK_PYTHON" "$@"
