"""Spark Structured Streaming: files that arrive in a directory, counted exactly and in windows.

To run it: python examples/spark_files.py

Needs the extra `spark`, and Java 17 or newer.
"""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

import penstock as ps

SCHEMA = "link STRING, bytes INT, ts TIMESTAMP"
PORTIONS = [
    [("Main1", 52, "2026-01-31 12:00:02"), ("Main2", 1500, "2026-01-31 12:00:41")],
    [("Main1", 1500, "2026-01-31 12:00:35"), ("Main1", 40, "2026-01-31 12:02:10")],
    [("Main1", 9, "2026-01-31 12:00:50"), ("Main2", 70, "2026-01-31 12:02:30")],  # 9 is late
]


def write(folder: Path) -> None:
    for number, rows in enumerate(PORTIONS):
        lines = [json.dumps(dict(zip(("link", "bytes", "ts"), row, strict=True))) for row in rows]
        path = folder / f"{number}.json"
        path.write_text("\n".join(lines))
        os.utime(path, (number, number))  # Spark reads the oldest file first


spark = SparkSession.builder.master("local[2]").getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "UTC")
spark.conf.set("spark.sql.shuffle.partitions", "2")

with TemporaryDirectory() as place:
    folder = Path(place)
    write(folder)
    # one file after the other, so that "late" means later than the files before
    packets = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(place)

    db = ps.connect(spark, buckets=2)
    db.stream("packets", packets, progress=ps.progress("ts", delay="10 seconds", per="link"))
    query = db.sql("""
        SELECT link, sum(bytes) AS bytes [RANGE TUMBLING 1 MINUTE, WA ts]
        FROM packets GROUP BY link LATE SIDE
    """)
    rows: list[dict[str, object]] = []
    late: list[dict[str, object]] = []
    started = query.start(rows.append, late=late.append, rows=True)
    account = started.wait()

for row in sorted(rows, key=lambda row: (str(row["window_end"]), str(row["link"]))):
    print(f"{row['window_end']:%H:%M} {row['link']} {row['bytes']}")
for row in late:
    print("late:", row["link"], row["bytes"], f"{row['ts']:%H:%M:%S}")
print(account)

# prints:
# 12:01 Main1 1552
# 12:01 Main2 1500
# 12:03 Main1 40
# 12:03 Main2 70
# late: Main1 9 12:00:50
# Account(read=6, late=1, rejected=0)
