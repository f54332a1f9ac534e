-- The last bid of every bidder for every auction.
SELECT auction, bidder, max_by(price, date_time) AS price, max_by(channel, date_time) AS channel,
  max_by(url, date_time) AS url, max(date_time) AS date_time, max_by(extra, date_time) AS extra
FROM bid GROUP BY bidder, auction
EMIT CHANGES
