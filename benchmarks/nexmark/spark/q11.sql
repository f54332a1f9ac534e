SELECT session_window.start AS window_start, session_window.end AS window_end, bidder,
  count(*) AS bids
FROM bid GROUP BY session_window(date_time, '10 seconds'), bidder
