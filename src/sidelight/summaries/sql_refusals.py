"""What a SELECT may not hold: what people call it, and the nearest thing that works instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from sidelight.errors import RangeError

UNDERSTOOD = "a statement is SELECT columns and aggregates FROM table [WHERE condition] [GROUP BY columns]"
_FREE = "the released table is yours: filter and sort it afterwards, which costs nothing (release.value.to_pandas())"
_AGGREGATES = (
    "SELECT takes columns of GROUP BY, COUNT(*), COUNT(DISTINCT person), SUM, AVG, VAR_SAMP, STDDEV, MEDIAN and "
    "QUANTILE; compute with the released numbers afterwards"
)
_CONDITIONS = "conditions are made of declared columns, constants, + - * /, comparisons, IN, IS NULL, AND, OR, NOT"
#: What stands in a SELECT that is not understood, by sqlglot's name: what a person calls it, and what works.
_CLAUSES: Mapping[str, tuple[str, str]] = {
    "joins": ("JOIN", "join the tables before sl.Table reads them, and declare what one person can add"),
    "with_": ("WITH", "declare the columns that the table has, and write the condition into WHERE"),
    "distinct": ("SELECT DISTINCT", "GROUP BY the column and COUNT(*); declared labels are public"),
    "having": ("HAVING", _FREE),
    "order": ("ORDER BY", _FREE),
    "limit": ("LIMIT", "the k most frequent labels are sl.TopK(column, k=10, epsilon=...)"),
    "offset": ("OFFSET", _FREE),
    "windows": ("WINDOW", "GROUP BY a column"),
    "qualify": ("QUALIFY", _FREE),
    "sample": ("TABLESAMPLE", "ask all rows; a sample of them is no cheaper"),
    "hint": ("an optimizer hint", "leave it out"),
    "into": ("INTO", "write release.value.to_pandas() where it should go"),
    "locks": ("FOR UPDATE", "leave it out"),
    "laterals": ("LATERAL", "give the table one row a record before sl.Table reads it"),
    "pivots": ("PIVOT", _FREE),
    "rollup": ("ROLLUP", "sl.Count(by=[...], rollup=True, epsilon=...) releases totals that add up"),
    "cube": ("CUBE", "sl.Count(by=[...], rollup=True, epsilon=...) releases totals that add up"),
    "grouping_sets": ("GROUPING SETS", "sl.Count(by=[...], rollup=True, epsilon=...) releases totals that add up"),
    "all": ("GROUP BY ALL", "name the columns"),
    "totals": ("WITH TOTALS", "sl.Count(by=[...], rollup=True, epsilon=...)"),
    "db": ("the name of a database", "name the table alone; it is the session's"),
    "catalog": ("the name of a catalog", "name the table alone; it is the session's"),
    "query": ("a subquery", "list the constants: region IN ('N', 'S')"),
    "unnest": ("UNNEST", "list the constants: region IN ('N', 'S')"),
    "symmetric": ("SYMMETRIC", "write BETWEEN with the smaller number first"),
}
#: The same for nodes inside expressions, by sqlglot's key.
_NODES: Mapping[str, tuple[str, str]] = {
    "subquery": ("a subquery", "one statement reads the session's table; write the condition into WHERE"),
    "select": ("a subquery", "one statement reads the session's table; write the condition into WHERE"),
    "exists": ("EXISTS", "one statement reads the session's table; write the condition into WHERE"),
    "window": ("a window (OVER)", "GROUP BY the column"),
    "filter": ("FILTER", "write the condition into WHERE, and ask a second statement for another one"),
    "star": ("*", "name the columns; rows themselves are never released"),
    "min": ("MIN", "an extreme is one person's value: QUANTILE(column, 0.01)"),
    "max": ("MAX", "an extreme is one person's value: QUANTILE(column, 0.99)"),
    "variancepop": ("VAR_POP", "VAR_SAMP(column)"),
    "stddevpop": ("STDDEV_POP", "STDDEV(column)"),
    "approxdistinct": ("APPROX_COUNT_DISTINCT", "COUNT(DISTINCT person) counts persons"),
    "case": ("CASE", "write the condition into WHERE; sl.col(...).lookup({...}) makes other labels"),
    "if": ("IF", "write the condition into WHERE; sl.col(...).lookup({...}) makes other labels"),
    "cast": ("CAST", "the schema declares what a column is"),
    "like": ("LIKE", "list the labels: job IN ('nurse', 'cook')"),
    "ilike": ("ILIKE", "list the labels: job IN ('nurse', 'cook')"),
    "null": ("NULL", "write column IS NULL"),
    "placeholder": ("a placeholder", "write the constant"),
    "parameter": ("a parameter", "write the constant"),
    "mod": ("%", "+ - * / and comparisons are understood"),
    "dpipe": ("||", "compare columns with texts: job = 'nurse'"),
    "nullsafeeq": ("<=>", "write = or IS NULL"),
    "coalesce": ("COALESCE", "declare missing=sl.Fill(...) for the column"),
}


def only(node: Any, *known: str) -> None:
    """Refuse everything that sqlglot found in a node and that is not one of these: no corner of it is passed over."""
    for key, value in node.args.items():
        if key in known or value in (None, False) or value == []:
            continue
        unnamed = f"{key.strip('_').replace('_', ' ').upper()} of {node.key.upper()}"
        name, instead = _CLAUSES.get(key, (unnamed, UNDERSTOOD))
        raise RangeError(f"{name} is not understood; {instead}")


def refuse_clause(key: str) -> NoReturn:
    """Refuse a clause by sqlglot's name for it."""
    name, instead = _CLAUSES[key]
    raise RangeError(f"{name} is not understood; {instead}")


def refuse(node: Any, *, aggregate: bool = False) -> NoReturn:
    """Refuse a node by its name; one that has none here is quoted.

    Args:
        node: What sqlglot read.
        aggregate: Whether it stands where SELECT wants an aggregate.
    """
    instead = _AGGREGATES if aggregate else _CONDITIONS
    name, instead = _NODES.get(node.key, (sql_text(node), instead))
    raise RangeError(f"{name} is not understood; {instead}")


def sql_text(node: Any) -> str:
    """Return a part of the statement as a message quotes it."""
    try:
        text = str(node.sql())
    except Exception:  # sqlglot cannot write everything that it reads
        text = str(node.key).upper()
    return shortened(text)


def shortened(text: str) -> str:
    """Return at most 60 characters of a text."""
    return text if len(text) <= 60 else text[:57] + "..."
