"""The probes of `server calibrate`: generated rows in hard shapes, and queries of every kind."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from sidelight.accuracy.forecast import as_cells, generated
from sidelight.errors import RangeError, SidelightError
from sidelight.guarantees import decimal_text
from sidelight.plans import query_table
from sidelight.records import Category, Date, Number, PersonId, Schema
from sidelight.registry import import_with_extras
from sidelight.server.config import CURRENCIES, ServedTable, ServerConfig
from sidelight.server.cost import request_size
from sidelight.session.query import prepare_query
from sidelight.summaries.sql_nodes import written_name
from sidelight.wire import LIMITS, WireResolver, check_limits, read_wire_query

_OF_A_COLUMN: Final = ("mean", "sum", "summary", "variance", "standard_deviation")
_MODELS: Final = ("adassp", "additive_regression", "linear_regression")
_CLASSIFIERS: Final = ("additive_classifier", "linear_svc", "logistic_regression")
#: The largest number of labels of a classifier's target, including the one for all others.
_FEW_LABELS: Final = 3


def write_shapes(schema: Schema, rows: int, folder: Path) -> list[Path]:
    """Write generated Parquet tables: spread out, sorted, with few values, and mostly of one person.

    Where the schema has no persons, all rows of the last table are equal.
    """
    import narwhals.stable.v2 as nw

    import_with_extras("pyarrow", what="a calibration")
    cells_of = generated(schema, rows)
    spread = {each.name: _on_grid(each, np.asarray(cells_of[each.name])) for each in schema.columns}
    persons = [each.name for each in schema.columns if isinstance(each, PersonId)]
    place = np.arange(rows)
    shapes = {
        "spread": spread,
        "sorted": {name: np.sort(cells) for name, cells in spread.items()},
        "few": {name: cells if name in persons else cells[place % 3 % rows] for name, cells in spread.items()},
        "one": {
            name: np.where(place % 10 > 0, cells[0], cells)
            if name in persons
            else cells
            if persons
            else cells[0 * place]
            for name, cells in spread.items()
        },
    }
    for name, columns in shapes.items():
        cells = {name: np.asarray(each) for name, each in as_cells(columns, schema).items()}
        nw.from_dict(cells, backend="pyarrow").write_parquet(str(folder / f"{name}.parquet"))
    return [folder / f"{name}.parquet" for name in shapes]


def _on_grid(column: Any, cells: Any) -> Any:
    """Return numbers as multiples of the declared step, so that there are ties."""
    if not isinstance(column, Number) or isinstance(column, Date) or not column.granularity:
        return cells
    return np.rint(cells / float(column.granularity)) * float(column.granularity)


def prices_of(table: ServedTable, kind: str) -> Iterator[dict[str, str]]:
    """Yield the largest and the smallest price of a request, as keys of a query of this kind."""
    known = query_table(kind).known
    for limit in (table.largest, table.smallest):
        amounts = {name: getattr(limit.strongest, name, 0) for name in CURRENCIES[table.currency] if name in known}
        yield {name: decimal_text(Fraction(amount)) for name, amount in amounts.items() if amount}


def probes_of(config: ServerConfig, table: ServedTable, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield queries of a kind that the table accepts, with their sizes in cells.

    Raises:
        SidelightError: none is accepted; the error of the first.
    """
    refused: SidelightError | None = None
    taken = False
    price = next(prices_of(table, kind))
    for probe in _candidates(table, kind):
        try:
            check_limits(probe, table.schema)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                query = probe_query(config, table, {**probe, **price})
                size = request_size(prepare_query(query, table.schema))
        except SidelightError as error:
            refused = refused or error
            continue
        taken = True
        yield size, probe
    if not taken:
        raise refused or RangeError(f"no query of the kind {kind!r} can be made from the schema alone")


def probe_query(config: ServerConfig, table: ServedTable, values: Mapping[str, Any]) -> Any:
    """Read a probe as the server reads a request."""
    public = {name: file for name, (file, _) in config.public.items()}
    return read_wire_query(values, kinds=table.kinds, resolver=WireResolver(public))


def _candidates(table: ServedTable, kind: str) -> Iterator[dict[str, Any]]:
    """Yield queries of a kind, the smallest first; grouped ones without groups, by one category, and by many."""
    columns = table.schema.columns
    numbers = [each.name for each in columns if isinstance(each, Number) and not isinstance(each, Date)]
    labels = {each.name: len(each.labels) + 1 for each in columns if isinstance(each, Category)}
    parts: list[dict[str, Any]]
    if kind == "sql":
        yield from ({"kind": kind, "select": text} for by in _groups(labels) for text in _selects(table, by, numbers))
        return
    if kind in _MODELS or kind in _CLASSIFIERS:
        few = [name for name, number in labels.items() if number <= _FEW_LABELS]
        target = (numbers[-1:] if kind in _MODELS else few[:1]) or [""]
        features = [name for name in numbers if name not in target]
        norm = {"feature_norm": 1} if kind == "adassp" else {}
        parts = [{"target": target[0], "features": part, **norm} for part in (features[:1], features)]
    elif kind in ("covariance", "gaussian"):
        radius = {"radius": 1} if kind == "covariance" else {}
        parts = [{"columns": part, **radius} for part in (numbers[:1], numbers)]
    else:
        column = {"column": (numbers or [*labels, ""])[0]}
        label = {"column": min(labels, key=lambda name: labels[name], default="")}
        by_kind: dict[str, list[dict[str, Any]]] = {
            "count": [{}],
            "count_distinct": [label],
            "distribution": [column],
            "histogram": [{**column, "bins": bins} for bins in (2, 100)],
            "proportion": [{"condition": f"{column['column']} >= 0"}],
            "quantiles": [
                {**column, "levels": levels} for levels in (["0.5"], [f"{n / 100:g}" for n in range(1, 100)])
            ],
            "stable_median": [column],
            "stable_mode": [label],
            "synthetic_table": [{}],
            "top_k": [{**label, "k": 1}],
        }
        parts = by_kind.get(kind, [column] if kind in _OF_A_COLUMN else [])
    grouped = (*_OF_A_COLUMN, "count", "count_distinct", "histogram", "proportion", "quantiles")
    for by in _groups(labels) if kind in grouped else [[]]:
        yield from ({"kind": kind, **part, **({"by": by} if by else {})} for part in parts)


def _selects(table: ServedTable, by: list[str], numbers: list[str]) -> Iterator[str]:
    names = "".join(f"{written_name(each)}, " for each in by)
    end = f" FROM {written_name(table.name)}" + (f" GROUP BY {names[:-2]}" if by else "")
    yield f"SELECT {names}COUNT(*){end}"
    if numbers:
        number = written_name(numbers[0])
        yield f"SELECT {names}COUNT(*), SUM({number}), AVG({number}){end}"


def _groups(labels: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield no category, the smallest one, and as many as a request may group by."""
    chosen: list[str] = []
    cells = 1
    yield []
    for name in sorted(labels, key=lambda each: labels[each]):
        cells *= labels[name]
        if cells > LIMITS["groups"]:
            break
        chosen.append(name)
        if len(chosen) == 1:
            yield list(chosen)
    if len(chosen) > 1:
        yield chosen
