SELECT DISTINCT p.id, p.name, timestamp_micros(unix_micros(p.date_time) DIV 10000000 * 10000000)
  AS began
FROM person AS p JOIN auction AS a ON p.id = a.seller
  AND unix_micros(p.date_time) DIV 10000000 = unix_micros(a.date_time) DIV 10000000
