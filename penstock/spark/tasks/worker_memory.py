"""What a Python worker of Spark keeps for good is kept out of the garbage collector's way.

After every task, PySpark collects garbage.  With all that a worker has imported to look through,
that takes longer than most tasks.
"""

from __future__ import annotations

import gc
from functools import cache


@cache  # once in a worker
def settle() -> None:
    """To be called when a first task has imported what there is to import."""
    gc.collect()
    gc.freeze()
