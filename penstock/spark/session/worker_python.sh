#!/bin/sh
# The Python of workers on one machine; see workers.py.
case " $* " in
  # asks which states a step has, and tells the terminal about every step; it answers elsewhere
  *" pyspark.sql.streaming.transform_with_state_driver_worker "*)
    exec >/dev/null
    if [ -p "$PENSTOCK_PLANNER" ]; then  # see workers.py
      where="${PYTHON_WORKER_FACTORY_SOCK_PATH:-$PYTHON_WORKER_FACTORY_PORT}"
      printf '%s\t%s\t%s\n' "$$" "$where" "$PYTHON_WORKER_FACTORY_SECRET" 1<>"$PENSTOCK_PLANNER"
      read -r _  # until Spark ends this process, or itself
      exit
    fi ;;
esac
PYTHONPATH="$PENSTOCK_PYTHONPATH" exec "$PENSTOCK_PYTHON" "$@"
