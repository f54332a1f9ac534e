"""Sliding windows over a pandas frame: the highest price of the last five minutes, every minute.

To run it: python examples/pandas_windows.py
"""

import pandas as pd

import penstock as ps

trades = pd.DataFrame(
    {
        "share": ["ACME", "ACME", "INIT", "ACME", "INIT", "ACME"],
        "price": [10.0, 12.5, 3.0, 11.0, 3.5, 9.0],
        "ts": pd.to_datetime(
            [
                "2026-01-30 09:00:20",
                "2026-01-30 09:01:10",
                "2026-01-30 09:01:30",
                "2026-01-30 09:00:50",  # out of order, as in many a file
                "2026-01-30 09:03:00",
                "2026-01-30 09:06:30",
            ]
        ),
    }
)

db = ps.connect()
db.stream("trades", trades, progress=ps.progress("ts", delay="1 minute"))
highest = db.sql("""
    SELECT share, max(price) AS highest, count(*) AS n [RANGE 5 MINUTES, SLIDE 1 MINUTE, WA ts]
    FROM trades
    GROUP BY share
    HAVING count(*) > 1
""")

frame = highest.collect().to_pandas()
frame["until"] = frame["window_end"].dt.strftime("%H:%M")
print(frame[["until", "share", "highest", "n"]].to_string(index=False))

# prints:
# until share  highest  n
# 09:01  ACME     11.0  2
# 09:02  ACME     12.5  3
# 09:03  ACME     12.5  3
# 09:04  ACME     12.5  3
# 09:04  INIT      3.5  2
# 09:05  ACME     12.5  3
# 09:05  INIT      3.5  2
# 09:06  INIT      3.5  2
