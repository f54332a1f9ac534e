-- The mean temperature of the last minute, every 30 seconds.
--
--     penstock run examples/first_query.sql --engine local

-- In the order of arrival: the third reading is out of order, the fifth is late.
CREATE STREAM readings (sensor STRING, celsius DOUBLE, ts TIMESTAMP)
  FROM VALUES
    ('hall', 20.5, '2026-01-31 12:00:10'),
    ('yard', -3.0, '2026-01-31 12:00:40'),
    ('hall', 21.5, '2026-01-31 12:00:20'),
    ('yard', -4.0, '2026-01-31 12:01:30'),
    ('hall', 22.0, '2026-01-31 12:00:50')
  PROGRESS ON ts DELAY 30 SECONDS;

SELECT sensor, count(*) AS n, avg(celsius) AS mean [RANGE 1 MINUTE, SLIDE 30 SECONDS, WA ts]
FROM readings
GROUP BY sensor;

-- prints:
-- window_start                 window_end                   sensor  n  mean
-- ───────────────────────────  ───────────────────────────  ──────  ─  ────
-- 2026-01-31T11:59:30.000000Z  2026-01-31T12:00:30.000000Z  hall    2  21.0
-- 2026-01-31T12:00:00.000000Z  2026-01-31T12:01:00.000000Z  hall    2  21.0
-- 2026-01-31T12:00:00.000000Z  2026-01-31T12:01:00.000000Z  yard    1  -3.0
-- 2026-01-31T12:00:30.000000Z  2026-01-31T12:01:30.000000Z  hall    1  22.0
-- 2026-01-31T12:00:30.000000Z  2026-01-31T12:01:30.000000Z  yard    1  -3.0
-- 2026-01-31T12:01:00.000000Z  2026-01-31T12:02:00.000000Z  yard    1  -4.0
-- 2026-01-31T12:01:30.000000Z  2026-01-31T12:02:30.000000Z  yard    1  -4.0
-- (7 rows)
