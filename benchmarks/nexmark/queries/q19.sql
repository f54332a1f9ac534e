-- The ten highest bids for every auction of a day.
SELECT auction, bidder, price, date_time
FROM bid
ORDER BY price DESC, date_time LIMIT 10 BY auction, date_trunc('day', date_time)
