-- How many bids people make in a row, without 10 seconds between two.
SELECT bidder, count(*) AS bids [SESSION GAP 10 SECONDS, WA date_time] FROM bid GROUP BY bidder
