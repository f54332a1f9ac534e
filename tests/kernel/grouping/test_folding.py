import pyarrow as pa
import pytest

from penstock.kernel.batch import Batch
from penstock.kernel.grouping.folding import SmallBatches
from penstock.kernel.operator import Item, Progress
from penstock.kernel.windows.paned import Paned
from penstock.kernel.windows.two_level import TwoLevel
from penstock.model.types import BIGINT, Field, Schema
from penstock.model.values import RowForm
from tests.kernel.algorithms_helper import Row, Stream, defined, items, outcome
from tests.kernel.restarting import Restarting

FORM = RowForm(Schema((Field("v", BIGINT),)))


def batch(*values: int) -> Batch:
    return Batch(pa.record_batch({"v": pa.array(values, pa.int64())}))


def single(value: int) -> Batch:
    return Batch.single((value,), FORM)


def test_large_batches_do_not_wait() -> None:
    waiting, large = SmallBatches(), batch(*range(10_000))
    assert waiting.add(large) == [large]
    assert waiting.take() == []


@pytest.mark.parametrize(("rows", "expected"), [(1, 128), (100, 82), (5000, 2)])
def test_they_wait_until_they_are_many(rows: int, expected: int) -> None:
    waiting = SmallBatches()
    for count in range(1, expected):
        assert waiting.add(batch(*[count] * rows)) == []
    (joined,) = waiting.add(batch(*[expected] * rows))
    everything = [count for count in range(1, expected + 1) for _ in range(rows)]
    assert joined.rows.column(0).to_pylist() == everything
    assert waiting.take() == []


@pytest.mark.parametrize("mixed", [False, True])
def test_tuples_that_came_alone_are_joined(mixed: bool) -> None:
    waiting = SmallBatches()
    for value in range(100):
        assert waiting.add(batch(value) if mixed and value % 3 else single(value)) == []
    assert waiting.rows_held == 100
    (joined,) = waiting.take()
    assert joined.rows == pa.record_batch({"v": range(100)})


def test_a_tuple_that_waits_alone_stays_as_it_is() -> None:
    waiting = SmallBatches()
    waiting.add(single(7))
    (only,) = waiting.take()
    assert (only.form, only.values) == (FORM, (7,))


def test_only_batches_of_one_schema_are_joined() -> None:
    waiting = SmallBatches()
    never = pa.schema([pa.field("v", pa.int64(), nullable=False)])
    other = Batch(pa.RecordBatch.from_arrays([pa.array([2])], schema=never))
    assert waiting.add(batch(1)) == []
    assert waiting.add(other) == [batch(1)]
    assert waiting.take() == [other]


ROWS: list[Row] = [(f"{t % 7}", t, 1.0, t // 4) for t in range(1200)]
WINDOWS = Stream(ROWS, 200, 100, 0, 0, "count(*) AS n, sum(v) AS s, first(v) AS f", "k")


@pytest.mark.parametrize("algorithm", [Paned, TwoLevel])
@pytest.mark.parametrize("cut", [1, 3, 100])
def test_answers_are_the_defined_ones_while_batches_wait(algorithm: type[Paned], cut: int) -> None:
    node = WINDOWS.node(cut)
    waited: list[int] = []

    class Watched(algorithm):  # type: ignore[misc, valid-type]
        def on_batch(self, port: int, batch: Batch) -> list[Item]:
            found = list(super().on_batch(port, batch))
            waited.append(len(self.waiting.batches))
            return found

    assert outcome(Watched(node), node) == defined(node)
    assert any(waited)
    assert outcome(Restarting(lambda: algorithm(node), 5), node) == defined(node)


def test_nothing_waits_when_windows_are_released() -> None:
    node = WINDOWS.node(3)
    operator = Paned(node)
    for item in items(node):
        if isinstance(item, Progress):
            if any(isinstance(out, Batch) for out in operator.on_progress(0, item)):
                assert not operator.waiting.batches
        else:
            assert isinstance(item, Batch)
            list(operator.on_batch(0, item))
