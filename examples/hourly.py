"""The same run every hour: each reads what is new, and the file of results goes on."""

import tempfile
from pathlib import Path

import penstock as ps

SQL = """
CREATE STREAM readings (sensor STRING, celsius DOUBLE, ts TIMESTAMP)
  FROM FILES 'in/*.csv' PROGRESS ON ts DELAY 10 SECONDS;
SELECT sensor, max(celsius) AS highest [RANGE TUMBLING 1 MINUTE, WA ts]
FROM readings GROUP BY sensor
"""
HOURS = [
    "hall,20.5,2026-01-31 12:00:10\nyard,-3.0,2026-01-31 12:00:40\nhall,21.5,2026-01-31 12:01:20\n",
    "yard,-2.5,2026-01-31 12:01:30\nhall,21.0,2026-01-31 12:02:15\n",
]


def run(folder: Path, final: bool = False) -> None:
    """What a scheduler starts; it may be killed at any moment and started again."""
    query = ps.connect(base=folder).sql(SQL)
    started = query.start(folder / "highest.csv", checkpoint=folder / "kept", final=final)
    account = started.wait()
    print(f"{account.read} rows read, {started.total.read} by all runs")


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    (folder / "in").mkdir()
    for number, rows in enumerate(HOURS):
        (folder / "in" / f"{number}.csv").write_text("sensor,celsius,ts\n" + rows)
        run(folder)
    run(folder, final=True)
    for line in (folder / "highest.csv").read_text().splitlines():
        print(line)

# prints:
# 3 rows read, 3 by all runs
# 2 rows read, 5 by all runs
# 0 rows read, 5 by all runs
# window_start,window_end,sensor,highest
# 2026-01-31T12:00:00.000000Z,2026-01-31T12:01:00.000000Z,hall,20.5
# 2026-01-31T12:00:00.000000Z,2026-01-31T12:01:00.000000Z,yard,-3.0
# 2026-01-31T12:01:00.000000Z,2026-01-31T12:02:00.000000Z,hall,21.5
# 2026-01-31T12:01:00.000000Z,2026-01-31T12:02:00.000000Z,yard,-2.5
# 2026-01-31T12:02:00.000000Z,2026-01-31T12:03:00.000000Z,hall,21.0
