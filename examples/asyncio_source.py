"""A source that is a coroutine: rows are answered on the event loop while they arrive.

To run it: python examples/asyncio_source.py
"""

import asyncio
from collections.abc import AsyncIterator

import penstock as ps


async def requests() -> AsyncIterator[dict[str, object]]:
    """What a web server might hand over; the times are seconds."""
    for second, path in [(1, "/"), (3, "/cart"), (2, "/"), (12, "/"), (14, "/cart"), (25, "/")]:
        yield {"second": second, "path": path}
        await asyncio.sleep(0)  # somebody else's turn


async def main() -> None:
    db = ps.connect()
    db.stream(
        "requests",
        requests(),
        schema="second INT, path STRING",
        progress=ps.progress("second", delay=5),
    )
    hits = db.sql("""
        SELECT path, count(*) AS hits [RANGE TUMBLING 10, WA second] FROM requests GROUP BY path
    """)
    async for row in hits.stream():  # a window is here as soon as nothing can be added to it
        print(f"{row['window_start']:>2} to {row['window_end']}: {row['hits']} x {row['path']}")


asyncio.run(main())

# prints:
#  0 to 10: 2 x /
#  0 to 10: 1 x /cart
# 10 to 20: 1 x /
# 10 to 20: 1 x /cart
# 20 to 30: 1 x /
