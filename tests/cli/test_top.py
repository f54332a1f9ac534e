"""`penstock top`: what is told of queries and operators while a script runs, and at its end."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penstock.cli.top import size_text
from tests.cli.conftest import STREAM, Outcome

COUNT = "CREATE QUERY counts AS SELECT count(*) AS n [RANGE 1 MINUTE, SLIDE 1 MINUTE, WA ts] FROM s"


def test_queries_operators_and_streams(penstock: Callable[..., Outcome]) -> None:
    code, out, err = penstock("top", "-", stdin=f"{STREAM}{COUNT};")
    assert code == 0
    assert re.search(r"^query +rows +late +rejected +median +p99$", out, re.MULTILINE)
    assert re.search(r"^counts +2 +1 +2 +\S+ \S+ +\S+ \S+ *$", out, re.MULTILINE)
    assert re.search(r"^operator +rows in +rows/s +out/in ", out, re.MULTILINE)
    assert re.search(r"^s +4 ", out, re.MULTILINE), "one row could not be read"
    assert "s has ended" in out
    assert "1 late" in err


def test_every_select_has_a_number(penstock: Callable[..., Outcome]) -> None:
    out = penstock("top", "-", stdin=f"{STREAM}SELECT k FROM s; SELECT v FROM s;").out
    assert re.findall(r"^query \d", out, re.MULTILINE) == ["query 1", "query 2"]


def test_there_may_be_nothing_to_run(penstock: Callable[..., Outcome]) -> None:
    assert "nothing to run" in penstock("top", "-", stdin=STREAM).err


def test_mistakes_are_pointed_at(penstock: Callable[..., Any]) -> None:
    code, out, err = penstock("top", "-", stdin=f"{STREAM}SELECT x FROM s;")
    assert (code, out) == (1, "")
    assert "SELECT x FROM s" in err


def test_sizes_are_short() -> None:
    assert size_text(999) == "999 B"
