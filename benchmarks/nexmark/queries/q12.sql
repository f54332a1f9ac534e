-- How many bids people make every 10 seconds.  Nexmark asks by the clock that the query runs by; an
-- answer is a function of the data here, so it is by the times of the bids.
SELECT bidder, count(*) AS bids [RANGE TUMBLING 10 SECONDS, WA date_time] FROM bid GROUP BY bidder
