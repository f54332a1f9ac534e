SELECT auction, bidder, price, date_time
FROM (SELECT *, row_number() OVER (PARTITION BY auction, date_trunc('day', date_time)
        ORDER BY price DESC, date_time) AS place FROM bid)
WHERE place <= 10
