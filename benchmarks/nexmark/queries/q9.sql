-- The winning bid of every auction: the highest, and of several the first.
SELECT a.id, a.item_name, a.seller, a.date_time, a.expires, b.bidder, b.price,
  b.date_time AS bid_time
FROM auction AS a JOIN bid AS b ON a.id = b.auction
WHERE b.date_time BETWEEN a.date_time AND a.date_time + INTERVAL 40 SECONDS
  AND b.date_time <= a.expires
ORDER BY b.price DESC, b.date_time LIMIT 1 BY a.id, a.date_time
