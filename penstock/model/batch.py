"""Signs of items: a negative item takes back an equal positive one, because a window expired or a
revision replaced a row.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.model.names import HIDDEN, free_name

SIGN = f"{HIDDEN}sign"  # inside; `sign_name` is what it is called outside


def sign_name(names: Iterable[str]) -> str:
    """What the column of signs is called beside the columns of an answer."""
    return free_name("_sign", names)
