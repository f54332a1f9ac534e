-- What a query will do, before it does it: the plan, what it promises, and what it keeps.
--
--     penstock run examples/explain.sql --engine local

CREATE STREAM packets (link STRING, bytes INT, ts TIMESTAMP)
  FROM VALUES ('Main1', 52, '2026-01-31 12:00:02'), ('Main2', 1500, '2026-01-31 12:00:05')
  PROGRESS ON ts DELAY 10 SECONDS PER link IDLE AFTER 5 SECONDS;

EXPLAIN
SELECT link, sum(bytes) AS bytes [RANGE 10 MINUTES, SLIDE 1 MINUTE, WA ts]
FROM packets
WHERE bytes > 100
GROUP BY link;

-- prints:
-- Query LATE DROP
-- │  schema: window_start TIMESTAMP, window_end TIMESTAMP, link STRING, bytes BIGINT
-- │  progress: window_start (closed windows), window_end (closed windows)
-- └─ Project window_start, window_end, packets.link AS link, sum(packets.bytes) AS bytes
--    │  schema: window_start TIMESTAMP, window_end TIMESTAMP, link STRING, bytes BIGINT
--    │  progress: window_start (closed windows), window_end (closed windows)
--    └─ WindowAggregate sum(packets.bytes)
--       │  window: [RANGE 10 MINUTES, SLIDE 1 MINUTE, WA packets.ts]
--       │  category: context-free
--       │  algorithm: PANED (panes that windows share), 80 µs a window; BUFFERING 75 µs, WID 90 µs, TWO_LEVEL 130 µs, ADAPTIVE 190 µs
--       │  known: 2 tuples a window before the filter
--       │  assumed: 2 groups
--       │  group by: packets.link
--       │  schema: window_id BIGINT, window_start TIMESTAMP, window_end TIMESTAMP, packets.link STRING, sum(packets.bytes) BIGINT
--       │  progress: window_start (closed windows), window_end (closed windows), window_id (closed windows)
--       └─ Filter (packets.bytes > 100)
--          │  schema: packets.link STRING, packets.bytes INT, packets.ts TIMESTAMP
--          │  progress: packets.ts (DELAY 10 SECONDS PER link IDLE AFTER 5 SECONDS)
--          └─ Scan packets
--                source: VALUES (2 rows)
--                schema: packets.link STRING, packets.bytes INT, packets.ts TIMESTAMP
--                progress: packets.ts (DELAY 10 SECONDS PER link IDLE AFTER 5 SECONDS)
