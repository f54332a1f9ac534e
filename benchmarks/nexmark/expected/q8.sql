SELECT DISTINCT p.id, p.name, make_timestamp(epoch_us(p.date_time) // 10000000 * 10000000) AS began
FROM person AS p JOIN auction AS a ON p.id = a.seller
  AND epoch_us(p.date_time) // 10000000 = epoch_us(a.date_time) // 10000000
