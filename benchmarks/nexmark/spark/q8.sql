SELECT p.id, p.name, p.window.start AS began
FROM (SELECT id, name, window
      FROM (SELECT id, name, window(date_time, '10 seconds') AS window FROM person)
      GROUP BY id, name, window) AS p
JOIN (SELECT seller, window
      FROM (SELECT seller, window(date_time, '10 seconds') AS window FROM auction)
      GROUP BY seller, window) AS a
ON p.id = a.seller AND p.window = a.window
