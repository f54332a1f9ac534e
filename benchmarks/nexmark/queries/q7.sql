-- The highest bids of every 10 seconds.
SELECT b.auction, b.price, b.bidder, b.date_time, b.extra
FROM bid AS b
JOIN (SELECT max(price) AS most, window_end AS till [RANGE TUMBLING 10 SECONDS, WA date_time]
      FROM bid) AS w
ON b.price = w.most
WHERE b.date_time BETWEEN w.till - INTERVAL 10 SECONDS AND w.till - INTERVAL 1 MICROSECOND
