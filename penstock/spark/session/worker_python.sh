#!/bin/sh
# The Python of workers on one machine; see worker_python.py.
case " $* " in
  # asks which states a step has, and tells the terminal about every step; it answers elsewhere
  *" pyspark.sql.streaming.transform_with_state_driver_worker "*) exec >/dev/null ;;
esac
PYTHONPATH="$PENSTOCK_PYTHONPATH" exec "$PENSTOCK_PYTHON" "$@"
