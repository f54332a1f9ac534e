SELECT auction, bidder, price, date_time FROM bid
QUALIFY row_number() OVER (
  PARTITION BY auction, date_trunc('day', date_time) ORDER BY price DESC, date_time) <= 10
