"""GROUP BY ALL, as Spark and DuckDB have it."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.language.binding.groups.aggregates import has_aggregate
from penstock.language.binding.items import WINDOW_COLUMNS
from penstock.language.syntax.queries import Select
from penstock.plan.catalog import Catalog


def by_all_keys(select: Select, catalog: Catalog) -> Select:
    """
    before: SELECT k, upper(s), count(*) FROM s GROUP BY ALL
    after:  SELECT k, upper(s), count(*) FROM s GROUP BY k, upper(s)
    """
    match select.group_by:
        case (exp.Column(this=exp.Identifier() as word),) if _is_all(word):
            pass
        case _:
            return select
    keys = tuple(
        item.expression
        for item in select.items
        if not has_aggregate(item.expression, catalog)
        and item.expression.name.lower() not in WINDOW_COLUMNS
        and not isinstance(item.expression, exp.Star)
    )
    return replace(select, group_by=keys)


def _is_all(word: exp.Identifier) -> bool:
    return word.name.upper() == "ALL" and not word.args.get("quoted")
