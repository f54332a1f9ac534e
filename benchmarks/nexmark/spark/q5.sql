WITH counted AS (
  SELECT auction, count(*) AS num, window.end AS window_end FROM bid
  GROUP BY auction, window(date_time, '10 seconds', '2 seconds'))
SELECT auction, num, window_end
FROM (SELECT *, max(num) OVER (PARTITION BY window_end) AS most FROM counted) WHERE num = most
