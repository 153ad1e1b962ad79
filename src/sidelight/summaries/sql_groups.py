"""Groups of rows, and functions of one column, decided on its public values without any row.

A declared column has a public domain: labels, or the whole steps between two bounds. A function of one column (LIKE,
||, UPPER, FLOOR(age / 10), CASE, a part of a date) is evaluated on each of them, by the evaluator of released numbers,
and becomes a public lookup. So it means in `where=` and `by=` exactly what it means in HAVING.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

from sqlglot import exp

from sidelight.errors import RangeError, SchemaError
from sidelight.group_table import ALL
from sidelight.records import Category, Label, Number, PersonId, Schema
from sidelight.records.expression_shapes import Constant, LabelShape, StepShape, number_shape
from sidelight.records.expressions import Compare, Comparison, DatePart, Expression, IsIn, Literally, Named, Not
from sidelight.records.filled_and_dated import Part
from sidelight.records.numbers import number_text
from sidelight.release.statement_trees import Cell, StatementRow, evaluated
from sidelight.summaries.sql_case import WANTED, case_groups, looked_up
from sidelight.summaries.sql_dialects import MEANINGS
from sidelight.summaries.sql_nodes import plain, written_name
from sidelight.summaries.sql_scalars import Kind, ScalarReader, Typed, case_branches
from sidelight.summaries.sql_tree import only, sql_text

#: What sqlglot calls comparisons and conditions.
COMPARED: Mapping[str, Comparison] = {"eq": "==", "neq": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
CONDITIONS = (*COMPARED, "and", "or", "not", "in", "is", "between", "like", "ilike", "escape")
#: Parts of a date by the names of the dialects, and by sqlglot's nodes.
_PARTS: Mapping[str, Part] = {"YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "HOUR": "hour"}
_WEEKDAYS = ("DOW", "DAYOFWEEK", "ISODOW", "DAYOFWEEKISO", "DAYOFWEEK_ISO", "WEEKDAY", "WEEKDAY_ISO")
_STARTS: Mapping[str, Part] = {"YEAR": "year_start", "QUARTER": "quarter_start", "MONTH": "month_start"}
_DATE_TYPES = (
    *(exp.Extract, exp.Year, exp.Quarter, exp.Month, exp.Hour, exp.DayOfWeek, exp.DayOfWeekIso),
    *(exp.DateTrunc, exp.TimestampTrunc),
)
_DATE_NODES = tuple(each.key for each in _DATE_TYPES)
#: Dialects in which Sunday is 1; in the others it is 0.
_SUNDAY_IS_1 = ("bigquery", "spark", "tsql")
#: A function of a number is evaluated on at most this many values.
_MOST_VALUES = 10_000


class GroupKey(NamedTuple):
    """A group column: its expression, and whether its labels are texts, numbers or truths."""

    of: Expression
    kind: Kind


class _Function(NamedTuple):
    """A function of one column: what is looked up, the type of its results, each result, and that of a missing cell."""

    of: Expression
    kind: Kind
    cells: dict[Any, Cell]
    missing: Cell


class ReadsRows(Protocol):
    """Reads the parts of a group that are conditions, numbers and columns of rows."""

    def condition(self, node: Any, depth: int = 0) -> Expression:
        """Read a condition."""

    def number(self, node: Any, depth: int = 0) -> Expression:
        """Read a number or a constant."""

    def declared(self, node: Any) -> Any:
        """Return the declared column that a node names."""


class GroupReader:
    """Reads groups and functions of one column; `rows` reads the conditions and numbers in them."""

    def __init__(self, schema: Schema, rows: ReadsRows, dialect: str) -> None:
        self._schema, self._rows, self._dialect = schema, rows, dialect

    def read(self, node: Any) -> GroupKey:
        """Read what rows are grouped by: a column, CASE, a condition, a part of a date, a function of one column."""
        node = plain(node)
        if node.key == "column":
            return self._column(node)
        if node.key in _DATE_NODES:
            return self._date(node)
        if node.find(exp.Column) is None:
            raise RangeError(
                f"GROUP BY {sql_text(node)} reads no column; it names declared columns, or is a CASE of one"
            )
        if self.reads_labels(node) or node.key not in ("case", "if", *CONDITIONS):
            return self._looked_up(self._on_domain(node))
        try:
            return self._by_thresholds(node)
        except RangeError as error:  # not made of simple comparisons
            why = error
        try:
            return self._looked_up(self._on_domain(node))
        except (RangeError, SchemaError):
            raise why from None

    def _column(self, node: Any) -> GroupKey:
        column = self._rows.declared(node)
        if isinstance(column, (Category, Label)):
            return GroupKey(Named(column.name), "text")
        if isinstance(column, PersonId):
            raise RangeError(
                f"{column.name!r} names persons, who are no groups: nothing is released of one person; "
                f"COUNT(DISTINCT {written_name(column.name)}) counts them"
            )
        return self._looked_up(self._on_domain(node))

    def _by_thresholds(self, node: Any) -> GroupKey:
        """Read CASE of a number, or a condition, by the thresholds that it names: its column needs no granularity."""
        if node.key not in ("case", "if"):
            condition = self._rows.condition(node)
            branches = [(condition, "true"), (Not(condition), "false")]
            return GroupKey(case_groups(branches, None, self._schema), "truth")
        kinds: set[Kind] = set()

        def label(result: Any) -> Constant | None:
            found = None if result.key == "null" else self._rows.number(result)
            if found is not None and not isinstance(found, Literally):
                raise RangeError(f"the groups of a CASE are labels in 'single quotes', got {sql_text(result)}")
            if found is None:
                return None
            kinds.add("text" if isinstance(found.value, str) else "whole")
            return found.value if isinstance(found.value, str) else number_text(found.value)

        found = self.case(node, label)
        if len(kinds) != 1:
            raise RangeError(f"the groups of a CASE are all labels or all numbers, got {sql_text(node)}")
        return GroupKey(found, kinds.pop())

    def case(self, node: Any, result: Callable[[Any], Constant | None]) -> Expression:
        """Read a CASE about one column as a lookup."""
        of = None if node.key == "if" or node.this is None else self._rows.number(node.this)
        branches = []
        for tested, then in case_branches(node):
            condition = self._rows.condition(tested) if of is None else Compare("==", of, self._rows.number(tested))
            branches.append((condition, result(plain(then))))
        other = node.args.get("default") if node.key == "case" else node.args.get("false")
        return case_groups(branches, None if other is None else result(plain(other)), self._schema)

    def _date(self, node: Any) -> GroupKey:
        """Read a part of a declared date."""
        if node.key in ("datetrunc", "timestamptrunc"):
            only(node, "this", "unit", "input_type_preserved", "zone")
            period = {"MM": "MONTH", "MON": "MONTH", "YYYY": "YEAR"}.get(node.args["unit"].name.upper())
            period = period or node.args["unit"].name.upper()
            if period not in _STARTS:
                raise RangeError(f"{sql_text(node)} is not understood; DATE_TRUNC knows year, quarter and month")
            return GroupKey(DatePart(self._rows.number(node.this), _STARTS[period]), "text")
        extract = node.key == "extract"
        word = node.this.name.upper() if extract else node.key.upper()
        of = self._rows.number(node.expression if extract else node.this)
        kind: Kind = "decimal" if MEANINGS[self._dialect].is_postgresql else "whole"
        if word in _PARTS:
            return GroupKey(DatePart(of, _PARTS[word]), kind)
        if word not in _WEEKDAYS:
            raise RangeError(f"{sql_text(node)} is not understood; dates have year, quarter, month, weekday and hour")
        weekday = DatePart(of, "weekday")
        if "ISO" in word:
            return GroupKey(weekday, kind)
        if word == "WEEKDAY" and self._dialect == "spark":  # Monday is 0
            numbers = {day: day - 1 for day in range(1, 8)}
        else:  # Sunday comes first
            numbers = {day: day % 7 + (self._dialect in _SUNDAY_IS_1) for day in range(1, 8)}
        ordered = sorted(numbers.items(), key=lambda each: each[1])
        return GroupKey(weekday.lookup({str(day): str(number) for day, number in ordered}), kind)

    # --- functions of public values

    def reads_labels(self, node: Any) -> bool:
        """Return whether a node reads labels and nothing else."""
        if node.find(*_DATE_TYPES) is not None:
            return True
        columns = list(node.find_all(exp.Column))
        return bool(columns) and all(isinstance(self._rows.declared(each), Category) for each in columns)

    def condition(self, node: Any) -> Expression:
        """Read a condition about one column by the values for which it is true."""
        of, kind, cells, missing = self._on_domain(node)
        if kind == "text" and {*cells.values()} <= {"true", "false", None}:  # a column of truths
            kind, cells = "truth", {label: None if each is None else each == "true" for label, each in cells.items()}
        if kind != "truth":
            raise RangeError(f"{sql_text(node)} is not a condition, and one is needed here; compare it with something")
        if missing is None and None not in cells.values():
            return IsIn(of, tuple(label for label, cell in cells.items() if cell))
        table = {label: _text(cell) for label, cell in cells.items()}
        return Compare("==", looked_up(of, table, _text(missing)), Literally("true"))

    def number(self, node: Any) -> Expression:
        """Read a number that is a function of one column."""
        of, kind, cells, missing = self._on_domain(node)
        if kind not in ("whole", "decimal", "double"):
            raise RangeError(f"{sql_text(node)} is a {kind}, and a number is needed here")
        numbers = {label: None if cell is None else Fraction(cell) for label, cell in cells.items()}
        return looked_up(of, numbers, None if missing is None else Fraction(missing))

    def kind(self, node: Any) -> Kind:
        """Return the SQL type of a part of a row: numbers without a granularity are doubles."""

        def leaf(part: Any) -> Typed | None:
            if part.key not in ("column", *_DATE_NODES):
                return None
            kind = self._date(part).kind if part.key != "column" else self._declared_kind(part)
            return Typed(kind, ["key", "0", kind])

        return ScalarReader(leaf, self._dialect).read(node).kind

    def _declared_kind(self, node: Any) -> Kind:
        column = self._rows.declared(node)
        if not isinstance(column, Number):
            return "text"
        shape = number_shape(column)
        if not isinstance(shape, StepShape):
            return "double"
        return "date" if shape.calendar is not None else "whole" if shape.step.denominator == 1 else "decimal"

    def _looked_up(self, found: _Function) -> GroupKey:
        texts = {label: _text(cell) for label, cell in found.cells.items()}
        return GroupKey(looked_up(found.of, texts, _text(found.missing)), found.kind)

    def _on_domain(self, node: Any) -> _Function:
        """Evaluate a node on every public value of the one column that it reads."""
        read: dict[str, Expression] = {}

        def leaf(part: Any) -> Typed | None:
            if part.key not in ("column", *_DATE_NODES):
                return None
            of, kind = self._date(part) if part.key != "column" else self._value(part)
            read[str(of)] = of
            return Typed(kind, ["key", "0", kind])

        found = ScalarReader(leaf, self._dialect).read(node)
        folded = None
        if MEANINGS[self._dialect].ignores_case:
            folded = ScalarReader(leaf, self._dialect, ignore_case=True).read(node)
        if len(read) != 1:
            raise RangeError(
                f"{sql_text(node)} reads {', '.join(read) or 'nothing'}: a function of rows reads one column; GROUP BY "
                "each column, and join them in SELECT"
            )
        (of,) = read.values()
        shape = of.shape(self._schema)
        missing = evaluated(found.tree, StatementRow([ALL], {}, totals=True))
        if isinstance(shape, LabelShape):
            cells = {label: _of_label(found, label) for label in shape.labels}
            if folded is not None and cells != {label: _of_label(folded, label) for label in shape.labels}:
                raise RangeError(
                    f"{sql_text(node)} depends on capitals, which T-SQL usually ignores when it compares texts; write "
                    "both sides with UPPER or LOWER, or the labels as they are declared"
                )
            return _Function(of, found.kind, cells, missing)
        assert isinstance(shape, StepShape)
        values = [code * shape.step for code in range(shape.first, shape.last + 1)]
        return _between_changes(of, values, [_of_label(found, str(value)) for value in values], found.kind, missing)

    def _value(self, node: Any) -> GroupKey:
        """Return a column as what it is evaluated with: a label, or a number of a public list."""
        column = self._rows.declared(node)
        if isinstance(column, Category):
            return GroupKey(Named(column.name), "text")
        shape = number_shape(column) if isinstance(column, Number) else None
        if not isinstance(shape, StepShape) or shape.calendar is not None or shape.last - shape.first >= _MOST_VALUES:
            raise SchemaError(
                f"column {node.name!r} has no list of public values for a function or for groups: declare a category, "
                f"or lower, upper and granularity with at most {_MOST_VALUES} steps. Or {WANTED}; of dates, EXTRACT "
                "and DATE_TRUNC are understood"
            )
        return GroupKey(Named(column.name), "whole" if shape.step.denominator == 1 else "decimal")


def _between_changes(of: Expression, values: list[Fraction], cells: list[Cell], kind: Kind, missing: Cell) -> _Function:
    """Return a function of a number by the intervals on which it is constant."""
    changes = [at for at in range(1, len(values)) if cells[at] != cells[at - 1]]
    if missing is None and 2 * len(changes) > len(values):  # it changes nearly everywhere
        return _Function(of, kind, dict(zip(values, cells, strict=True)), None)
    cut = of.cut([values[at] for at in changes] or [values[0]])
    firsts = [0, *changes] if changes else [0, 0]
    labels = cut.labels  # type: ignore[attr-defined]
    return _Function(cut, kind, {label: cells[at] for label, at in zip(labels, firsts, strict=True)}, missing)


def _of_label(found: Typed, label: str) -> Cell:
    return evaluated(found.tree, StatementRow([label], {}, totals=False))


def _text(cell: Cell) -> str | None:
    if cell is None or isinstance(cell, str):
        return cell
    return ("true" if cell else "false") if isinstance(cell, bool) else number_text(Fraction(cell))
