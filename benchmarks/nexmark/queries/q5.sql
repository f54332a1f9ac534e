-- The auctions with the most bids of the last 10 seconds, every 2.
WITH counted AS (
  SELECT auction, count(*) AS num, window_start, window_end
  [RANGE 10 SECONDS, SLIDE 2 SECONDS, WA date_time] FROM bid GROUP BY auction)
SELECT c.auction, c.num, c.window_end
FROM counted AS c
JOIN (SELECT max(num) AS most, window_start, window_end FROM counted
      GROUP BY window_start, window_end) AS m
ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num >= m.most
