SELECT id, item_name, seller, date_time, expires, bidder, price, bid_time
FROM (SELECT a.*, b.bidder, b.price, b.date_time AS bid_time,
        row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time) AS place
      FROM auction AS a JOIN bid AS b ON a.id = b.auction
      WHERE b.date_time BETWEEN a.date_time AND a.expires)
WHERE place = 1
