"""Arguments of the wrong kind: each is refused with what it is, and none is taken for another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps

ROWS: Any = [{"a": 1, "t": 1}]
NO: Any = "no"  # is true
FIVE: Any = 5
A_LIST: Any = ["a"]


class Mean:
    def init(self) -> Any: ...
    def accumulate(self, state: Any, *columns: Any) -> Any: ...
    def merge(self, left: Any, right: Any) -> Any: ...
    def finish(self, state: Any) -> Any: ...


def database() -> ps.Database:
    made = ps.connect()
    made.sql("CREATE STREAM s (x INT, t INT) FROM VALUES (1, 1), (2, 2) PROGRESS ON t ORDERED")
    return made


def query(text: str = "SELECT x FROM s") -> ps.Query:
    made = database().sql(text)
    assert isinstance(made, ps.Query)
    return made


def two_databases() -> object:
    mine = database()
    return mine.run([query()], [print])


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    # connect
    "engine": (lambda: ps.connect(FIVE), "the int 5 is no engine"),
    "engine, a truth": (lambda: ps.connect(True), "True is no engine"),  # type: ignore[arg-type]
    "engine, a database": (lambda: ps.connect(database()), "is no engine"),  # type: ignore[arg-type]
    "spark": (lambda: ps.connect("local", spark=FIVE), "the int 5 is no engine"),
    "clock": (lambda: ps.connect(clock=FIVE), "clock is the int 5"),
    "strict": (lambda: ps.connect(strict=NO), "strict is the str 'no'"),
    "base": (lambda: ps.connect(base=FIVE), "base is the int 5"),
    "state_budget": (lambda: ps.connect(state_budget=-1), "state_budget is the int -1"),
    "state_budget, a text": (lambda: ps.connect(state_budget=NO), "state_budget is the str 'no'"),
    "master": (lambda: ps.connect("local", master="local[2]"), "master and conf start a Spark"),
    "conf": (lambda: ps.connect("spark", conf=A_LIST), "conf is the list"),
    "conf, a number": (lambda: ps.connect("spark", conf={"a": FIVE}), "conf is the dict"),
    "buckets": (lambda: ps.connect("spark", buckets=0), "buckets is the int 0"),
    "broadcast_rows": (lambda: ps.connect("spark", broadcast_rows=-1), "broadcast_rows is"),
    "allow": (lambda: ps.connect(allow="data"), "allow is the str 'data'"),
    "allow, a number": (lambda: ps.connect(allow=[FIVE]), "one of allow is the int 5"),
    "alpha": (lambda: ps.connect(alpha=-1), "alpha is the int -1"),
    "adapt": (lambda: ps.connect(adapt=NO), "adapt is the str 'no'"),
    "strategy": (lambda: ps.connect(strategy=FIVE), "strategy is the int 5"),
    "ets": (lambda: ps.connect(ets=FIVE), "ets is the int 5"),
    "carriage": (lambda: ps.connect(carriage=FIVE), "carriage is the int 5"),
    # scripts
    "sql": (lambda: database().sql(FIVE), "what sql takes is the int 5"),
    "script": (lambda: list(database().script(FIVE)), "what script takes is the int 5"),
    "two queries": (lambda: query("SELECT x FROM s; SELECT t FROM s"), "would be lost"),
    "a query before": (
        lambda: database().sql("SELECT x FROM s; CREATE VIEW v AS SELECT x FROM s"),
        "would be lost",
    ),
    "a list before": (lambda: database().sql("SHOW STREAMS; SELECT x FROM s"), "would be lost"),
    "two queries, live": (
        lambda: database().live().sql("SELECT x FROM s; SELECT t FROM s"),
        "would be lost",
    ),
    "a stream not named": (
        lambda: ps.sql("SELECT a FROM {p}", p=ROWS, q=ROWS),
        "the stream 'q' does not occur",
    ),
    # streams and tables
    "the name of a stream": (lambda: database().stream(FIVE, ROWS), "name of a stream is the int"),
    "the name of a table": (lambda: database().table(FIVE, ROWS), "name of a table is the int 5"),
    "the name of a query": (lambda: database().query(FIVE), "name of a query is the int 5"),
    "schema": (lambda: database().stream("z", ROWS, schema=FIVE), "a schema is the int 5"),
    "schema, texts": (
        lambda: database().stream("z", ROWS, schema=["a INT"]),  # type: ignore[list-item]
        "a schema is the list",
    ),
    "schema, str": (
        lambda: database().stream("z", ROWS, schema={"a": "str"}),
        "'str' is no type for column 'a'(.|\n)*try: STRING",
    ),
    "schema, VARCHAR2": (
        lambda: database().stream("z", ROWS, schema={"a": "VARCHAR2"}),
        "'VARCHAR2' is no type for column 'a'(.|\n)*try: STRING",
    ),
    "schema, INT8": (
        lambda: database().stream("z", ROWS, schema="a INT8"),
        "expected a type for a, found 'INT8'(.|\n)*try: BIGINT",
    ),
    "schema, a class": (
        lambda: database().stream("z", ROWS, schema={"a": int}),  # type: ignore[dict-item]
        "a type is the type <class 'int'> for column 'a'",
    ),
    "schema, a number": (
        lambda: database().stream("z", ROWS, schema={FIVE: "INT"}),
        "the name of a column is a text, and not 5",
    ),
    # functions
    "the name of an aggregate": (
        lambda: database().aggregate("a b", Mean(), returns="INT"),
        "'a b' is not the name of a function",
    ),
    "arguments": (
        lambda: database().aggregate("g", Mean(), returns="INT", arguments="DOUBLE"),
        "arguments is the str 'DOUBLE'",
    ),
    "returns": (lambda: database().function("g", len, returns=FIVE), "a type is the int 5"),
    "args": (lambda: database().function("g", len, returns="INT", args=FIVE), "args is the int 5"),
    "by_row": (
        lambda: database().function("g", len, returns="INT", by_row=NO),
        "by_row is the str 'no'",
    ),
    "nulls": (
        lambda: database().function("g", len, returns="INT", nulls=NO),
        "nulls is the str 'no'",
    ),
    # runs
    "trigger": (lambda: query().run(print, trigger=FIVE), "trigger is the int 5"),
    "checkpoint": (lambda: query().run(print, checkpoint=FIVE), "checkpoint is the int 5"),
    "checkpoint, empty": (lambda: query().run(print, checkpoint=""), "checkpoint is the str ''"),
    "final": (lambda: query().run(print, final=NO), "final is the str 'no'"),
    "rows": (lambda: query().run(print, rows=NO), "rows is the str 'no'"),
    "rows, started": (lambda: query().start(print, rows=NO), "rows is the str 'no'"),
    "rows, asynchronous": (
        lambda: asyncio.run(query().run_async(print, rows=NO)),
        "rows is the str 'no'",
    ),
    "sink, asynchronous": (lambda: asyncio.run(query().run_async(FIVE)), "sink is the int 5"),
    "queries": (lambda: database().run(A_LIST, [None]), "the str 'a' is no query"),
    "queries, one": (lambda: database().run(query(), [print]), "queries is"),  # type: ignore[arg-type]
    "queries of another": (two_databases, "a query is of another database"),
    "sinks": (lambda: database().run([], NO), "sinks is the str 'no'"),
    "explain": (lambda: query().explain(physical=NO), "physical is the str 'no'"),
    "explain, two": (
        lambda: query().explain(physical=True, schedule=True),
        "explain is asked for physical and schedule",
    ),
    "show": (lambda: query().show(-1), "n is the int -1"),
    "threads": (lambda: database().live(threads=NO), "threads is the str 'no'"),
    "trigger, live": (lambda: database().live(trigger=FIVE), "trigger is the int 5"),
    # progress
    "progress": (lambda: database().stream("z", ROWS, progress=FIVE), "progress is 5"),
    "attribute": (lambda: ps.progress(FIVE), "column that progresses is the int 5"),
    "ordered": (lambda: ps.progress("t", ordered=NO), "ordered is the str 'no'"),
    "delay": (lambda: ps.progress("t", delay=True), "delay is True"),
    "delay, a list": (lambda: ps.progress("t", delay=A_LIST), "delay is the list"),
    "slack": (lambda: ps.progress("t", slack=1.5), "slack is the float 1.5"),  # type: ignore[arg-type]
    "slack, a truth": (lambda: ps.progress("t", slack=True), "slack is True"),
    "punctuated": (lambda: ps.progress("t", punctuated="ab"), "punctuated is the str 'ab'"),  # type: ignore[arg-type]
    "punctuated, numbers": (lambda: ps.progress("t", punctuated=(FIVE, FIVE)), "punctuated is"),
    "punctuated_for": (
        lambda: ps.progress("t", punctuated=("a = 1", "t"), punctuated_for=FIVE),
        "punctuated_for is the int 5",
    ),
    "per": (lambda: ps.progress("t", delay=1, per=FIVE), "per is the int 5"),
    "timestamps": (lambda: ps.progress("t", timestamps=FIVE), "timestamps is the int 5"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(ps.PenstockError, match=message):
        call()


def test_nothing_is_carried_out_where_a_result_would_be_lost() -> None:
    made = database()
    with pytest.raises(ps.BindError, match="would be lost"):
        made.sql("CREATE VIEW v AS SELECT x FROM s; SELECT x FROM v; SELECT t FROM s")
    assert made.views == []


def test_a_script_gives_every_result() -> None:
    first, second = database().script("SELECT x FROM s; SELECT t FROM s")
    assert [isinstance(each, ps.Query) for each in (first, second)] == [True, True]


def test_the_length_of_a_text_may_be_declared() -> None:
    """As in the tables of others, whose texts are not longer."""
    made = database()
    made.stream("z", [{"a": "long"}], schema={"a": "VARCHAR(2)"})
    found = made.sql("SELECT a FROM z")
    assert isinstance(found, ps.Query)
    assert found.collect().to_pylist() == [{"a": "long"}]
