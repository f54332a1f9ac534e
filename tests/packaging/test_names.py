"""The names of the package: what `dir` lists, and with it notebooks and editors; and that the name
of a class means one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import penstock as ps

PACKAGE = Path(ps.__file__).parent


def test_only_what_is_public_is_listed() -> None:
    public = [name for name in dir(ps) if not name.startswith("__")]
    assert public == sorted(ps.__all__)
    assert {"__doc__", "__version__"} <= set(dir(ps))


def test_a_class_name_means_one_thing() -> None:
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(PACKAGE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_sql_is_the_function_although_a_package_has_its_name() -> None:
    import_module("penstock.sql.keywords")
    assert ps.sql("SELECT n FROM {s}", s=[{"n": 1}]).collect().to_pylist() == [{"n": 1}]
    assert vars(ps).get("sql") is None
