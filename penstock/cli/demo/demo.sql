-- Packets of three links in one file, in the order in which they arrived.
-- Each link is at most 10 seconds late; Main2 broke that promise twice, and one row is damaged.
CREATE STREAM packets (link STRING, srcIP STRING, len INT, ts TIMESTAMP)
  FROM FILES 'packets.csv'
  PROGRESS ON ts DELAY 10 SECONDS PER link;

-- Traffic per source over the last minute, every 30 seconds.
SELECT srcIP, count(*) AS packets, sum(len) AS bytes [RANGE 1 MINUTE, SLIDE 30 SECONDS, WA ts]
FROM packets GROUP BY srcIP
LATE SIDE EMIT IN ORDER;
