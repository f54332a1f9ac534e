"""Why an expression is left to the kernel."""

from __future__ import annotations


class Inexact(Exception):  # noqa: N818
    """Spark's value would not be Penstock's.  Users never see it."""
