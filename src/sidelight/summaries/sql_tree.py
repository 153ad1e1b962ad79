"""SQL as one tree: parsed by sqlglot in a named dialect, spelt alike, with WITH and sub-selects merged into one SELECT.

Everything that is not understood, anywhere in the tree, is refused by name with what to write instead. No row is read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from sidelight.errors import RangeError, nearest
from sidelight.records.expression_text import LONGEST
from sidelight.summaries.sql_dialects import MEANINGS, check_text
from sidelight.summaries.sql_nodes import check_case, fault_of, has_aggregate, parenthesized, shifted_date

UNDERSTOOD = (
    "a statement is SELECT columns and aggregates FROM table [WHERE condition] [GROUP BY columns] [HAVING condition] "
    "[ORDER BY columns] [LIMIT n]"
)
#: How many parts a statement has at most, each name of AS or WITH written out.
MOST_PARTS = 10_000
TOO_LARGE = f"the statement has more than {MOST_PARTS} parts once its names are written out; split it"
_FREE = "the released table is yours: compute with release.shown.to_pandas() afterwards, which costs nothing"
_AGGREGATES = (
    "SELECT takes columns of GROUP BY, COUNT, SUM, AVG, VAR_SAMP, VAR_POP, STDDEV_SAMP, STDDEV_POP, MEDIAN, QUANTILE, "
    "and + - * / ROUND ABS CASE COALESCE of them"
)
_CONDITIONS = (
    "conditions are made of declared columns, constants, + - * /, comparisons, IN, LIKE, IS NULL, AND, OR, NOT"
)
_ONE_TABLE = "one statement reads the session's table; write the condition into WHERE"
#: Clauses that are not understood, by sqlglot's name: the SQL word, and what works instead.
_CLAUSES: Mapping[str, tuple[str, str]] = {
    "joins": ("JOIN", "put the tables into a sl.Database with their keys, and open the session on it"),
    "with_": ("WITH", "write its condition into WHERE"),
    "windows": ("WINDOW", "GROUP BY a column"),
    "qualify": ("QUALIFY", "HAVING and LIMIT choose groups"),
    "sample": ("TABLESAMPLE", "ask all rows; a sample of them is no cheaper"),
    "hint": ("an optimizer hint", "leave it out"),
    "into": ("INTO", "write release.shown.to_pandas() where it should go"),
    "locks": ("FOR UPDATE", "leave it out"),
    "laterals": ("LATERAL", "give the table one row per record before sl.Table reads it"),
    "pivots": ("PIVOT", _FREE),
    "totals": ("WITH TOTALS", "GROUP BY ROLLUP (...) with COUNT(*)"),
    "query": ("a subquery", "list the constants: region IN ('N', 'S')"),
    "unnest": ("UNNEST", "list the constants: region IN ('N', 'S')"),
    "symmetric": ("SYMMETRIC", "write BETWEEN with the smaller number first"),
    "on": ("DISTINCT ON", "GROUP BY the columns"),
    "limit_options": ("LIMIT in percent or WITH TIES", "LIMIT n takes a number of groups"),
    "recursive": ("WITH RECURSIVE", _ONE_TABLE),
}
#: The same for nodes inside expressions, by sqlglot's key.
_NODES: Mapping[str, tuple[str, str]] = {
    "subquery": ("a subquery", _ONE_TABLE),
    "select": ("a subquery", _ONE_TABLE),
    "exists": ("EXISTS", _ONE_TABLE),
    "window": ("a window (OVER)", "GROUP BY the column; shares of a total are computed with release.shown afterwards"),
    "star": ("*", "name the columns; rows themselves are never released"),
    "min": ("MIN", "an extreme is one person's value: QUANTILE(column, 0.01)"),
    "max": ("MAX", "an extreme is one person's value: QUANTILE(column, 0.99)"),
    "mode": ("MODE", "SELECT column, COUNT(*) ... GROUP BY column ORDER BY 2 DESC LIMIT 1"),
    "anyvalue": ("ANY_VALUE", "GROUP BY the column; a value of one row is never released"),
    "ignorenulls": ("ANY_VALUE, FIRST and LAST", "GROUP BY the column; a value of one row is never released"),
    "first": ("FIRST", "GROUP BY the column; a value of one row is never released"),
    "last": ("LAST", "GROUP BY the column; a value of one row is never released"),
    "arrayagg": ("ARRAY_AGG", "rows themselves are never released; COUNT(*) ... GROUP BY the column"),
    "groupconcat": ("STRING_AGG", "rows themselves are never released; COUNT(*) ... GROUP BY the column"),
    "corr": ("CORR", "sl.Covariance([...], ...) releases covariances and correlations"),
    "covarsamp": ("COVAR_SAMP", "sl.Covariance([...], ...) releases covariances"),
    "covarpop": ("COVAR_POP", "sl.Covariance([...], ...) releases covariances"),
    "logicalor": ("BOOL_OR", "COUNT(*) FILTER (WHERE condition)"),
    "logicaland": ("BOOL_AND", "COUNT(*) FILTER (WHERE NOT condition)"),
    "approxdistinct": ("APPROX_COUNT_DISTINCT", "COUNT(DISTINCT person) counts persons"),
    "case": ("CASE", "compare one declared column with constants in each branch, or write the condition into FILTER"),
    "if": ("IF", "compare one declared column with constants, or write the condition into FILTER (WHERE ...)"),
    "cast": ("CAST", "the schema declares what a column is"),
    "null": ("NULL", "write column IS NULL"),
    "placeholder": ("a placeholder", "write the constant"),
    "parameter": ("a parameter", "write the constant"),
    "mod": ("%", "+ - * / and comparisons are understood; CASE puts numbers into groups"),
    "intdiv": ("// of rows", "CASE WHEN age < 10 THEN 0 WHEN age < 20 THEN 1 ... puts numbers into groups"),
    "floor": ("FLOOR of rows", "CASE WHEN age < 10 THEN 0 WHEN age < 20 THEN 1 ... puts numbers into groups"),
    "nullsafeeq": ("IS NOT DISTINCT FROM", "write =, or IS NULL where it is NULL"),
    "nullsafeneq": ("IS DISTINCT FROM", "write x <> 5 OR x IS NULL, or IS NOT NULL where it is NULL"),
    "currentdate": ("CURRENT_DATE", "write the date: a condition must mean the same tomorrow"),
    "currenttimestamp": ("CURRENT_TIMESTAMP", "write the date: a condition must mean the same tomorrow"),
    "rand": ("RANDOM", "ask all rows; a sample of them is no cheaper"),
    "regexplike": ("a regular expression", "LIKE, or a list of labels: job IN ('nurse', 'cook')"),
}
#: Functions that sqlglot leaves as they are written, by the class that means the same.
_SPELT: Mapping[str, str] = {
    "mean": "Avg",
    "var": "Variance",
    "varp": "VariancePop",
    "stdev": "Stddev",
    "stdevp": "StddevPop",
    "std": "Stddev",
    "date_part": "Extract",
    "datepart": "Extract",
    "ieee_divide": "Div",
}


def statement_tree(text: Any, *, dialect: str, declared: Collection[str]) -> Any:
    """Return one SELECT of one table; its messages name the place, and quote nothing that sqlglot colours.

    Args:
        text: The statement, or its tree.
        dialect: Whose spelling it has.
        declared: The names of the columns, which go before names of AS.
    """
    tree = text if isinstance(text, exp.Expression) else parsed_statement(text, dialect)
    if tree.key != "select":
        kind = {"union": "UNION", "except": "EXCEPT", "intersect": "INTERSECT"}.get(tree.key, tree.key.upper())
        raise RangeError(f"{kind} is not understood: {UNDERSTOOD}; ask several statements one after another")
    merger = _Merger({each.casefold() for each in declared}, names_first=MEANINGS[dialect].names_first)
    return merger.flat(tree, {})


def parsed_statement(text: str, dialect: str) -> Any:
    """Return one statement with functions that dialects spell in their own ways as one node each."""
    if dialect not in MEANINGS:
        raise RangeError(f"dialect must be one of {', '.join(MEANINGS)}, got {dialect!r}; {nearest(dialect, MEANINGS)}")
    tree = _parsed(text, MEANINGS[dialect].parser).transform(_respelt)
    for node in tree.walk():
        if fault := fault_of(node):
            raise RangeError(f"{sql_text(node)}: {fault}")
        if node.key in ("select", "with"):
            check_case(node.expressions)
    return tree


def _parsed(text: str, dialect: str) -> Any:
    if not isinstance(text, str) or len(text) > LONGEST:
        raise RangeError(f"a statement is a text of at most {LONGEST} characters, got {type(text).__name__}")
    failed, tokens, written, found = "", [], [], []
    try:
        # Only one SELECT is parsed: sqlglot takes other words as commands, and logs their text.
        found_tokens = sqlglot.tokenize(text, read=dialect)
        written = [text[each.start : each.end + 1] for each in found_tokens if each.token_type == TokenType.STRING]
        tokens = [token.text for token in found_tokens]
        while tokens and tokens[-1] == ";":
            tokens.pop()
        if tokens and tokens[0].upper() in ("SELECT", "WITH", "FROM") and ";" not in tokens:
            found = [tree for tree in sqlglot.parse(text, read=dialect) if tree is not None and tree.key != "semicolon"]
    except SqlglotError as error:
        places = getattr(error, "errors", None) or [{}]
        line, column = places[0].get("line"), places[0].get("col")
        failed = f"it does not parse at line {line}, character {column}" if line else "it does not parse"
    except (RecursionError, ValueError):
        failed = "it is nested too deep"
    except (AttributeError, LookupError, TypeError):  # of the parser itself, for {:} where a value was wanted
        failed = "it does not parse"
    if failed:
        raise RangeError(f"the SQL is not understood: {failed}; {UNDERSTOOD}")
    for each in written:
        check_text(each, dialect)
    if len(found) != 1:
        came = "several" if ";" in tokens else shortened(tokens[0].upper()) if tokens else "nothing"
        raise RangeError(f"one SELECT was wanted, got {came}: {UNDERSTOOD}; ask several one after another")
    return found[0]


def _respelt(node: Any) -> Any:
    """Return a function that one dialect spells by itself as the node that means the same."""
    if node.key == "tsordstodate":  # of a declared date
        return node.this
    if node.key in ("add", "sub"):
        return shifted_date(node)
    if node.key == "is" and node.args.pop("negate", None):  # PostgreSQL's IS NOT
        return exp.Not(this=node)
    if node.key == "neq" and node.expression.key == "all":  # Snowflake's NOT IN (SELECT ...)
        return exp.Not(this=exp.In(this=node.this, query=exp.Subquery(this=node.expression.this)))
    if node.key == "join" and node.kind == "CROSS":  # how Spark and BigQuery read a comma
        node.set("kind", None)
    if node.key != "anonymous":
        return node
    name, given = str(node.this).casefold(), node.expressions
    if name == "weekday" and len(given) == 1:
        return exp.Extract(this=exp.var("WEEKDAY"), expression=given[0])
    kind = _SPELT.get(name)
    if kind == "Extract" and len(given) == 2:
        return exp.Extract(this=exp.var(given[0].name), expression=given[1])
    if kind == "Div" and len(given) == 2:
        return exp.Div(this=given[0], expression=given[1])
    return getattr(exp, kind)(this=given[0]) if kind is not None and len(given) == 1 else node


# --- one SELECT of one table ------------------------------------------------------------------------------------------


class _Merger:
    """Merges WITH and sub-selects into the statement around them, where one SELECT says the same."""

    def __init__(self, declared: set[str], *, names_first: bool) -> None:
        self._declared, self._names_first, self._size = declared, names_first, 0

    def flat(self, tree: Any, known: Mapping[str, Any]) -> Any:
        """Return a SELECT from a table for one from a sub-select; `known` are those that WITH named."""
        if tree.key != "select":
            refuse(tree if tree.key in _NODES else ("a subquery of this kind", _ONE_TABLE))
        named, before = dict(known), tree.args.get("with_")
        if before is not None:
            only(before, "expressions")
            for each in before.expressions:
                if each.key != "cte" or each.args["alias"].args.get("columns"):
                    refuse_clause("with_")
                named[each.alias.casefold()] = self.flat(each.this, named)
            tree.set("with_", None)
        source = tree.args.get("from_")
        if source is None or tree.args.get("joins"):
            return tree
        of = source.this
        if of.key == "subquery":
            only(of, "this", "alias")
            if of.args.get("alias") is not None:
                only(of.args["alias"], "this")
            return self._merged(tree, self.flat(of.this, named), of.alias)
        if of.key == "table" and not of.text("db") and of.name.casefold() in named:
            only(of, "this", "alias")
            return self._merged(tree, named[of.name.casefold()].copy(), of.alias_or_name)
        return tree

    def _merged(self, outer: Any, inner: Any, alias: str) -> Any:
        only(inner, "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "distinct")
        self._resolve(inner)
        has_all = any(each.key == "star" for each in inner.expressions)
        named = {each.alias_or_name.casefold(): each.unalias() for each in inner.expressions if each.key != "star"}
        grouped = inner.args.get("group") is not None or any(map(has_aggregate, inner.expressions))
        if grouped:
            self._check_outer(outer)
        elif any(inner.args.get(key) for key in ("limit", "offset", "distinct", "having")):
            raise RangeError(
                "LIMIT, DISTINCT and HAVING inside a subquery of rows are not understood: which rows they keep depends "
                "on rows; write the condition into WHERE"
            )
        own: dict[str, Any] = {}  # what AS gave a name to, in this SELECT

        def put(node: Any, *, clause: str = "") -> Any:
            table = node.text("table").casefold() if node.key == "column" else ""
            if node.key != "column" or table not in ("", alias.casefold()):
                return node
            name = node.name.casefold()
            mine = None if table else own.get(name)
            if mine is not None and clause == "order":  # names of AS go first there
                return self._copy(mine)
            both = mine is not None and name in named and clause in ("group", "having")
            if both and self._names_first and mine != named[name]:
                refuse_name(node.name)
            if name in named:
                return self._copy(named[name])
            if not has_all and mine is not None and clause != "where":  # the column of the table is not in reach
                return self._copy(mine)
            if not has_all:
                raise RangeError(f"{node.name!r} is not a column of the subquery {alias!r}: {', '.join(named)}")
            node.set("table", None)
            return node

        items = []
        for each in outer.expressions:
            if each.key == "star" and grouped:
                only(each)
                items += [item.copy() for item in inner.expressions]
                continue
            made = each.transform(put)
            bare = made.key == "alias" or each.key != "column"
            items.append(made if bare else exp.Alias(this=made, alias=each.this.copy()))
            if made.key == "alias":
                own[made.alias.casefold()] = made.this
        outer.set("expressions", items)
        for key in ("where", "group", "having", "order"):
            if outer.args.get(key) is not None:
                outer.set(key, outer.args[key].transform(put, clause=key))
        _join(outer, inner, moved="having" if grouped else "where")
        if grouped:
            for key in ("where", "group"):
                outer.set(key, inner.args.get(key))
            self._take_order(outer, inner)
        outer.set("from_", inner.args["from_"])
        outer.set("joins", inner.args.get("joins"))
        return outer

    def _copy(self, node: Any) -> Any:
        """Return what a name stands for; names of names of names could double each time."""
        self._size += sum(1 for _ in node.walk())
        if self._size > MOST_PARTS:
            raise RangeError(TOO_LARGE)
        return parenthesized(node.copy())

    def _resolve(self, inner: Any) -> None:
        """Write out places and names of AS in GROUP BY, HAVING and ORDER BY of a sub-select, which will lose them."""
        items = inner.expressions
        named = {each.alias.casefold(): each.this for each in items if each.key == "alias"}

        def put(node: Any) -> Any:
            if node.key == "column" and not node.text("table"):
                name = node.name.casefold()
                if name in named and name not in self._declared:
                    return self._copy(named[name])
            return node

        for key in ("group", "having", "order"):
            clause = inner.args.get(key)
            if clause is None:
                continue
            for each in clause.expressions if key != "having" else ():
                place = each.this if each.key == "ordered" else each
                if place.key == "literal" and place.name.isdigit() and 1 <= int(place.name) <= len(items):
                    place.replace(parenthesized(items[int(place.name) - 1].unalias().copy()))
            inner.set(key, clause.transform(put))

    def _check_outer(self, outer: Any) -> None:
        if outer.args.get("group") is not None or any(map(has_aggregate, outer.expressions)):
            raise RangeError(
                "an aggregate of the groups of a subquery is not understood; ask the inner statement, and compute with "
                "release.shown.to_pandas() afterwards, which costs nothing"
            )

    def _take_order(self, outer: Any, inner: Any) -> None:
        later = [key for key in ("having", "order", "limit", "offset", "distinct") if outer.args.get(key)]
        for key in ("limit", "offset", "distinct"):
            if inner.args.get(key) is None:
                continue
            if later:
                raise RangeError(
                    f"{key.upper()} inside a subquery, and {later[0].upper()} around it, are not understood; write one "
                    "statement with HAVING, ORDER BY and LIMIT"
                )
            outer.set(key, inner.args[key])
        if outer.args.get("order") is None:
            outer.set("order", inner.args.get("order"))


def _join(outer: Any, inner: Any, *, moved: str) -> None:
    """Put the outer WHERE into WHERE, or into HAVING, with what the inner statement has there."""
    conditions = [
        part.args[key].this
        for part, key in ((inner, moved), (outer, "where"), (outer, "having"))
        if (part.args.get(key) is not None and not (part is outer and key == "having" and moved == "where"))
    ]
    if conditions:
        whole = exp.and_(*(condition.copy() for condition in conditions))
        outer.set(moved, (exp.Where if moved == "where" else exp.Having)(this=whole))


# --- refusals ---------------------------------------------------------------------------------------------------------


def only(node: Any, *known: str) -> None:
    """Refuse every part of a node that is not one of these: nothing is skipped silently."""
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


def refuse_name(name: str) -> NoReturn:
    """Refuse a name that is a column and, by AS, something else, where the dialects do not agree which goes first."""
    raise RangeError(
        f"{name!r} is a column and, by AS, something else, and dialects differ in which of them goes first here; write "
        "AS with another name"
    )


def refuse(node: Any, *, aggregate: bool = False) -> NoReturn:
    """Refuse a node by its name, or quote it; `aggregate` says that SELECT wants an aggregate there."""
    instead = _AGGREGATES if aggregate else _CONDITIONS
    name, instead = node if isinstance(node, tuple) else _NODES.get(node.key, (sql_text(node), instead))
    raise RangeError(f"{name} is not understood; {instead}")


def sql_text(node: Any) -> str:
    """Return a part of the statement as a message quotes it."""
    try:
        text = str(node.sql(dialect="duckdb"))
    except Exception:  # sqlglot cannot write everything that it reads
        text = str(node.key).upper()
    return shortened(text)


def shortened(text: str) -> str:
    """Return at most 60 characters of a text."""
    return text if len(text) <= 60 else text[:57] + "..."
