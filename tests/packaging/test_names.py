"""The names of the package: what `dir` lists, and with it notebooks and editors."""

from __future__ import annotations

import penstock as ps


def test_only_what_is_public_is_listed() -> None:
    public = [name for name in dir(ps) if not name.startswith("__")]
    assert public == sorted(ps.__all__)
    assert {"__doc__", "__version__"} <= set(dir(ps))
