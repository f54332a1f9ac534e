SELECT window.start AS window_start, window.end AS window_end, bidder, count(*) AS bids
FROM bid GROUP BY window(date_time, '10 seconds'), bidder
