"""An aggregate of your own: the geometric mean, on any kind of window.

To run it: python examples/custom_aggregate.py
"""

import math

import pyarrow as pa
import pyarrow.compute as pc

import penstock as ps


class GeometricMean:
    """The state is (how many, sum of logarithms).  Windows that overlap share their parts, so
    every row is accumulated once; with `subtract`, what leaves a window is taken back."""

    def init(self) -> tuple[int, float]:
        return 0, 0.0

    def accumulate(self, state: tuple[int, float], values: pa.Array) -> tuple[int, float]:
        return self.merge(state, (len(values), pc.sum(pc.ln(values)).as_py()))

    def merge(self, state: tuple[int, float], other: tuple[int, float]) -> tuple[int, float]:
        return state[0] + other[0], state[1] + other[1]

    def subtract(self, state: tuple[int, float], other: tuple[int, float]) -> tuple[int, float]:
        return state[0] - other[0], state[1] - other[1]

    def finish(self, state: tuple[int, float]) -> float | None:
        count, logarithms = state
        return math.exp(logarithms / count) if count else None


db = ps.connect()
db.aggregate("geometric_mean", GeometricMean(), returns="DOUBLE", arguments=["DOUBLE"])
growth = [{"day": day, "factor": factor} for day, factor in enumerate([1.1, 0.9, 1.2, 1.0, 1.5])]
db.stream("growth", growth, progress=ps.progress("day", ordered=True))

for row in db.sql("SELECT geometric_mean(factor) AS mean [RANGE 3, SLIDE 1, WA day] FROM growth"):
    print(f"days {row['window_start']} to {row['window_end'] - 1}: {row['mean']:.3f}")

# prints:
# days -2 to 0: 1.100
# days -1 to 1: 0.995
# days 0 to 2: 1.059
# days 1 to 3: 1.026
# days 2 to 4: 1.216
# days 3 to 5: 1.225
# days 4 to 6: 1.500
