-- The parts of addresses.
SELECT auction, bidder, price, channel, split_part(url, '/', 3) AS host,
  split_part(url, '/', 4) AS dir, split_part(url, '/', 5) AS page
FROM bid
