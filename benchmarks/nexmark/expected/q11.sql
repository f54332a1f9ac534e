WITH marked AS (
  SELECT bidder, date_time,
    coalesce(date_time - lag(date_time) OVER w >= INTERVAL 10 SECONDS, true) AS fresh
  FROM bid WINDOW w AS (PARTITION BY bidder ORDER BY date_time)),
numbered AS (
  SELECT bidder, date_time, sum(fresh::INT) OVER (PARTITION BY bidder ORDER BY date_time) AS n
  FROM marked)
SELECT min(date_time) AS window_start, max(date_time) + INTERVAL 10 SECONDS AS window_end, bidder,
  count(*) AS bids
FROM numbered GROUP BY bidder, n
