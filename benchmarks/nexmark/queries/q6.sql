-- The average price of a seller's last ten auctions, in the order in which they were opened.  An
-- auction is open for 40 seconds at the most, so its winning bid is final soon after.
SELECT seller, date_time,
  avg(price) OVER (PARTITION BY seller ORDER BY date_time ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)
    AS mean
FROM (SELECT a.id, a.seller, a.date_time, max(b.price) AS price
      FROM auction AS a JOIN bid AS b ON a.id = b.auction
      WHERE b.date_time BETWEEN a.date_time AND a.date_time + INTERVAL 40 SECONDS
        AND b.date_time <= a.expires
      GROUP BY a.id, a.seller, a.date_time) AS winning
