"""Sessions with LATE AMEND and EMIT EARLY: what is left is the reference's answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.grouping import folding as key_expiry
from penstock.kernel.windows import sessions as open_sessions
from tests.kernel.driving import ALL, DIFFERENTIAL, PROMISE, ROWS, Row, Stream, examples
from tests.kernel.revising_helper import check

LATE = st.sampled_from(["LATE AMEND", "LATE AMEND FOR 1", "LATE AMEND FOR 6", "LATE SIDE"])


@pytest.mark.parametrize("few", [1, 1024], ids=["numbers given up", "as it is"])
@examples
@given(
    rows=ROWS,
    promise=PROMISE,
    gap=st.integers(1, 9),
    late=LATE,
    early=st.integers(0, 3),
    restart=st.integers(0, 2),
    keyed=st.booleans(),
    calls=st.sampled_from([DIFFERENTIAL, ALL]),
)
def test_against_the_reference(
    few: int,
    rows: list[Row],
    promise: dict[str, object],
    gap: int,
    late: str,
    early: int,
    restart: int,
    keyed: bool,
    calls: str,
) -> None:
    keys, group = ("k, ", "GROUP BY k") if keyed else ("", "")
    sql = (
        f"SELECT {keys}{calls} [SESSION GAP {gap}, WA t] FROM s {group} {late}"
        " EMIT EARLY EVERY 1 SECOND"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_sessions, "_FEW", few)
        patch.setattr(open_sessions, "_BLOCK", 2)
        patch.setattr(key_expiry, "MANY", few)
        check(sql, Stream(rows, promise), early, restart)
