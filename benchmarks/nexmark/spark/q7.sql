SELECT b.auction, b.price, b.bidder, b.date_time, b.extra
FROM bid AS b
JOIN (SELECT most, window_time(window) AS last
      FROM (SELECT max(price) AS most, window(date_time, '10 seconds') AS window FROM bid
            GROUP BY window(date_time, '10 seconds'))) AS w
ON b.price = w.most
  AND b.date_time BETWEEN w.last - INTERVAL 9 SECONDS 999999 MICROSECONDS AND w.last
