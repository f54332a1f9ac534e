"""A reading that comes too late: left out and kept aside, or counted after all.

To run it: python examples/late_rows.py
"""

from collections.abc import Iterator

import pyarrow as pa

import penstock as ps

# (value, second), in the order of arrival: when the 4 comes, the stream has seen 25
READINGS = [(1, 2), (1, 3), (2, 12), (5, 14), (3, 25), (4, 8), (5, 31), (1, 33)]
COUNT = "SELECT count(*) AS n, sum(value) AS sum [RANGE 10, SLIDE 10, WA second] FROM readings"


def arriving() -> Iterator[pa.RecordBatch]:
    """The readings, one after the other, as Arrow batches."""
    for value, second in READINGS:
        yield pa.RecordBatch.from_pylist([{"value": value, "second": second}])


def connect() -> ps.Database:
    db = ps.connect()
    # the promise: no reading is more than 5 seconds behind the highest time so far
    promise = ps.progress("second", delay=5)
    db.stream("readings", arriving(), schema="value INT, second INT", progress=promise)
    return db


# To the side: the window from 0 to 10 was closed without it, and it is there to be looked at.
query = connect().sql(f"{COUNT} LATE SIDE")
print("to the side:")
for row in query:
    window = f"window {row['window_start']} to {row['window_end']}"
    print(f"  {window}: count {row['n']}, sum {row['sum']}")
for row in query.late.to_pylist():
    print("  late:", row["value"], "at", row["second"], "when", row["late_bound"], "was promised")
print(" ", query.account)

# Amended: the row that was given out is taken back (-1), and a better one is given (+1).
print("amended:")
changes = []
connect().sql(f"{COUNT} LATE AMEND").run(changes.append, rows=True)
for row in changes:
    window = f"window {row['window_start']} to {row['window_end']}"
    print(f"  {row['_sign']:+d}  {window}: count {row['n']}, sum {row['sum']}")

# prints:
# to the side:
#   window 0 to 10: count 2, sum 2
#   window 10 to 20: count 2, sum 7
#   window 20 to 30: count 1, sum 3
#   window 30 to 40: count 2, sum 6
#   late: 4 at 8 when 20 was promised
#   Account(read=8, late=1, rejected=0)
# amended:
#   +1  window 0 to 10: count 2, sum 2
#   +1  window 10 to 20: count 2, sum 7
#   -1  window 0 to 10: count 2, sum 2
#   +1  window 0 to 10: count 3, sum 6
#   +1  window 20 to 30: count 1, sum 3
#   +1  window 30 to 40: count 2, sum 6
