SELECT id, item_name, seller, date_time, expires, best.bidder, best.price,
  best.date_time AS bid_time
FROM (SELECT a.id, a.item_name, a.seller, a.date_time, a.expires,
        max_by(struct(b.bidder, b.price, b.date_time),
               struct(b.price, -unix_micros(b.date_time))) AS best
      FROM auction AS a JOIN bid AS b ON a.id = b.auction
        AND b.date_time BETWEEN a.date_time AND a.date_time + INTERVAL 40 SECONDS
        AND b.date_time <= a.expires
      GROUP BY a.id, a.item_name, a.seller, a.date_time, a.expires)
