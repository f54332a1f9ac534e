-- Bids beside what a table says of their auctions.
SELECT b.auction, b.bidder, b.price, b.date_time, s.value
FROM bid AS b JOIN side_input AS s ON b.auction % 100 = s.key
