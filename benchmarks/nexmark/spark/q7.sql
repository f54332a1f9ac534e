SELECT auction, price, bidder, date_time, extra
FROM (SELECT *, max(price) OVER (PARTITION BY unix_micros(date_time) DIV 10000000) AS most FROM bid)
WHERE price = most
