SELECT a.id, a.item_name, a.seller, a.date_time, a.expires, b.bidder, b.price,
  b.date_time AS bid_time
FROM auction AS a JOIN bid AS b ON a.id = b.auction
WHERE b.date_time BETWEEN a.date_time AND a.expires
QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time) = 1
