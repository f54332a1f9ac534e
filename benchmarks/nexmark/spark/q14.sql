SELECT auction, bidder, price * CAST(0.908 AS DOUBLE) AS price,
  CASE WHEN extract(hour FROM date_time) BETWEEN 8 AND 18 THEN 'dayTime'
       WHEN extract(hour FROM date_time) <= 6 OR extract(hour FROM date_time) >= 20 THEN 'nightTime'
       ELSE 'otherTime' END AS bid_time_type,
  date_time, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
FROM bid
WHERE price * CAST(0.908 AS DOUBLE) > 1000000 AND price * CAST(0.908 AS DOUBLE) < 50000000
