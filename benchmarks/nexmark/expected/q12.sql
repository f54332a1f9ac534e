SELECT make_timestamp(epoch_us(date_time) // 10000000 * 10000000) AS window_start,
  make_timestamp(epoch_us(date_time) // 10000000 * 10000000 + 10000000) AS window_end, bidder,
  count(*) AS bids
FROM bid GROUP BY ALL
