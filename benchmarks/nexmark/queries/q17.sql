-- Bids of every auction and day, and their prices.
SELECT auction, date_format(date_time, 'yyyy-MM-dd') AS day,
  count(*) AS total_bids,
  count(*) FILTER (WHERE price < 10000) AS rank1_bids,
  min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price,
  sum(price) AS sum_price
FROM bid GROUP BY auction, day
EMIT CHANGES
