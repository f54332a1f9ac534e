"""A join of two Parquet files on key and time; results are thrown away, so what remains is the
state: python -m benchmarks.join_memory_process LEFT RIGHT

Prints the rows of the answer and the highest memory in kB.
"""

from __future__ import annotations

import sys

import pyarrow as pa

import penstock as ps
from benchmarks.memory_process import highest_memory

SQL = """
    CREATE STREAM a (k BIGINT, x BIGINT, ts TIMESTAMP) FROM FILES '{0}'
      PROGRESS ON ts DELAY 3 SECONDS;
    CREATE STREAM b (k BIGINT, x BIGINT, ts TIMESTAMP) FROM FILES '{1}'
      PROGRESS ON ts DELAY 3 SECONDS;
    SELECT a.k, a.x, b.x AS y FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k;
"""


def rows_of(left: str, right: str) -> int:
    """How many rows the join makes of two files."""
    rows = 0

    def count(batch: pa.RecordBatch) -> None:
        nonlocal rows
        rows += batch.num_rows

    query = ps.connect("local").sql(SQL.format(left, right))
    assert isinstance(query, ps.Query)
    query.run(count)
    return rows


if __name__ == "__main__":
    print(rows_of(sys.argv[1], sys.argv[2]), highest_memory())
