"""NumPy arrays by what they hold, so that signatures say it."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]  # ticks, window ids, positions of rows
Codes: TypeAlias = npt.NDArray[np.int64]  # groups by number
Mask: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
