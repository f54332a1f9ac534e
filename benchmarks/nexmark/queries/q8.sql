-- Who registers and opens an auction within the same 10 seconds.
SELECT p.id, p.name, p.window_start AS began
FROM (SELECT id, name [RANGE TUMBLING 10 SECONDS, WA date_time] FROM person GROUP BY id, name) AS p
JOIN (SELECT seller [RANGE TUMBLING 10 SECONDS, WA date_time] FROM auction GROUP BY seller) AS a
ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end
