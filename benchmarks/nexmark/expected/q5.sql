WITH copies AS (
  SELECT auction, (epoch_us(date_time) // 2000000 + 1 + i) * 2000000 AS till
  FROM bid, range(5) AS r(i)),
counted AS (SELECT auction, till, count(*) AS num FROM copies GROUP BY auction, till)
SELECT auction, num, make_timestamp(till) AS window_end FROM counted AS c
WHERE num = (SELECT max(num) FROM counted AS m WHERE m.till = c.till)
