WITH counted AS (
  SELECT auction, count(*) AS num, window(date_time, '10 seconds', '2 seconds') AS window FROM bid
  GROUP BY auction, window(date_time, '10 seconds', '2 seconds'))
SELECT c.auction, c.num, c.window.end AS window_end
FROM counted AS c JOIN (SELECT max(num) AS most, window FROM counted GROUP BY window) AS m
ON c.window = m.window AND c.num = m.most
