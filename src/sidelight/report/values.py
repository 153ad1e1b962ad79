"""A released value as a table, whatever its kind: a vector, a matrix, a model, a mapping of them.

What a reader came for stands in the table; how it was computed (noise, steps, shrinkage) goes to the settings.

Of an additive model a report shows the curve of each column over its noisy counts, and a sentence for each. All of it
is read from the release, whose numbers are public. No confidence band is drawn: none that was measured holds.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape

from sidelight.readable import as_read, at_most, supported
from sidelight.release import Release
from sidelight.report.charts import Axis, bar_chart, cut, line_part, svg_body, text_part
from sidelight.report.words import axis_texts, short

if TYPE_CHECKING:
    from sidelight.regression.estimators.curves import ColumnCurve


Row = tuple[str, str, tuple[str, ...]]  # label, value, and its errors under the headings of the listing

#: More entries than this are counted instead of listed.
_MOST_ENTRIES = 400
#: Rows that are shown at once, fewer below bars with numbers; further ones are behind a
#: click.
MOST_ROWS, MOST_BESIDE_BARS = 12, 6
_DIGITS = 6
#: Entries of a mapping that say how it was computed.
_TECHNICAL = frozenset(
    (
        "checks",
        "components",
        "gradient",
        "gradient_variance",
        "method",
        "noise",
        "noise_scale",
        "noisy",
        "shrinkage",
        "start",
        "steps",
        "warnings",
        "weak",
    )
)
_WEAK = (
    "with this budget and so many rows the estimate is not certified for the assumed condition number; more public "
    "rows, more rows or a larger budget help"
)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rows of a table under a common heading."""

    heading: str | None
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What the page lists of a value: in the open, behind a click, among the settings, and as a warning."""

    shown: tuple[Group, ...]
    folded: tuple[Group, ...]
    technical: tuple[tuple[str, tuple[str, ...]], ...]
    cautions: tuple[str, ...]
    headings: tuple[str, ...] = ()  # of the errors: the likely one first, where there is one

    @property
    def bounded(self) -> bool:
        """Whether some row has a bound of its own."""
        return any(row[2] for group in (*self.shown, *self.folded) for row in group.rows)

    @property
    def folded_rows(self) -> int:
        """How many rows are behind a click."""
        return sum(len(group.rows) for group in self.folded)


def listing_of(release: Release, errors: Sequence[float] | None, *, most: int = MOST_ROWS) -> Listing:
    """Return what the page lists of a release; the groups that fit into `most` rows are in the open."""
    value, labels = release.shown, release.labels
    stated = {} if errors is None or len(errors) != len(labels) else _stated(release, errors)
    bounds = list(zip(*stated.values(), strict=True)) if stated else None
    technical: list[tuple[str, tuple[str, ...]]] = []
    cautions: list[str] = []
    if isinstance(value, Mapping):
        results = {key: entry for key, entry in value.items() if key not in _TECHNICAL}
        for key in sorted(_TECHNICAL & value.keys()):
            technical += _lines(key, value[key], labels)
        cautions = [str(each) for each in value.get("warnings") or ()] + ([_WEAK] if value.get("weak") is True else [])
        groups = _mapped(results, labels, bounds, off=_off_of_entries(release, errors))
    else:
        name = labels[0] if len(labels) == 1 and not isinstance(value, np.ndarray) else "value"
        groups = list(_groups(name, value, labels, bounds))
    groups = [group for group in groups if group.rows]
    open_rows, place = 0, 0
    while place < len(groups) and open_rows + len(groups[place].rows) <= most:
        open_rows += len(groups[place].rows)
        place += 1
    return Listing(
        shown=tuple(groups[:place]),
        folded=tuple(groups[place:]),
        technical=tuple(technical),
        cautions=tuple(cautions),
        headings=tuple(stated),
    )


def matrix_of(release: Release) -> tuple[tuple[str, ...], np.ndarray] | None:
    """Return the labels and the matrix of a release that is one, or has one as "matrix" or "covariance"."""
    value = release.value
    if isinstance(value, Mapping):
        value = value.get("matrix", value.get("covariance"))
    if not isinstance(value, np.ndarray) or value.shape != (len(release.labels),) * 2:
        return None
    return (release.labels, value) if bool(np.all(np.isfinite(value))) else None


def vector_of(release: Release) -> tuple[tuple[str, ...], np.ndarray] | None:
    """Return the labels and the numbers of a release that is a labelled vector."""
    value = release.shown
    if isinstance(value, Mapping):
        value = value.get("quantiles")
    fits = isinstance(value, np.ndarray) and value.ndim == 1 and len(value) == len(release.labels)
    return (release.labels, value) if fits and value.dtype.kind in "if" and bool(np.all(np.isfinite(value))) else None


def _off_of_entries(release: Release, errors: Sequence[float] | None) -> float:
    """Return how far off every entry of a matrix can be; 0 where the bound is of something else."""
    holds = release.error is not None and release.error.unit == "in operator norm" and bool(errors)
    return max(errors) if errors and holds else 0.0


def _mapped(
    value: Mapping[str, Any], labels: tuple[str, ...], bounds: Sequence[tuple[str, ...]] | None, *, off: float
) -> list[Group]:
    """Put single entries first, then vectors, then matrices; a value that comes back from JSON is in the same order."""
    found = [group for key in sorted(value) for group in _groups(str(key), value[key], labels, bounds, off=off)]
    single = [row for group in found if group.heading is None for row in group.rows]
    headed = sorted((group for group in found if group.heading is not None), key=lambda group: len(group.rows))
    return [Group(heading=None, rows=tuple(single)), *headed]


def _groups(
    name: str,
    value: Any,
    labels: tuple[str, ...],
    bounds: Sequence[tuple[str, ...]] | None,
    *,
    labelled: bool = False,
    off: float = 0.0,
) -> Iterator[Group]:
    """Yield the rows of one entry; `labelled` says that a vector of the right length is one number a label, `off` how
    far off each entry of a matrix can be: its digits end there."""
    whole = name in ("value", "quantiles")
    fits = isinstance(value, np.ndarray) and 0 < value.size <= _MOST_ENTRIES and value.shape[-1:] == (len(labels),)
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _groups(f"{name}, {key}", value[key], labels, None)
    elif (
        fits and value.ndim == 1 and (whole or labelled or name == "mean")
    ):  # not weights, of which there may be as many
        marks = bounds if whole and bounds is not None else [()] * len(labels)
        written = [_short(entry) for entry in value.tolist()]
        # a vector that is the whole value needs no heading
        yield Group(heading=None if whole else name, rows=tuple(zip(labels, written, marks, strict=True)))
    elif fits and value.shape == (len(labels),) * 2 and np.array_equal(value, value.T, equal_nan=True):
        # a matrix of columns by columns is symmetric, so half of it is enough; as many means as columns are not
        entries = {(i, j): value[i, j].item() for i, j in _upper(len(labels))}
        rows: list[Row] = [
            (f"{labels[i]} × {labels[j]}", supported(entry, off) if off else _short(entry), ())
            for (i, j), entry in entries.items()
        ]
        yield Group(heading=None if whole else name, rows=tuple(rows))
    elif fits and value.ndim >= 2:
        for place, each in enumerate(value):
            yield from _groups(name if len(value) == 1 else f"{name} {place + 1}", each, labels, None, labelled=True)
    else:
        rows = [(label, line, ()) for label, lines in _lines(name, value, ()) for line in lines]
        yield Group(heading=None, rows=tuple(rows))


def _upper(size: int) -> Iterator[tuple[int, int]]:
    return ((i, j) for i in range(size) for j in range(i, size))


def _lines(name: str, value: Any, labels: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Write an entry as lines of text under its name."""
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _lines(f"{name}: {key}", value[key], labels)
    elif isinstance(value, list | tuple) and value and all(isinstance(each, Mapping) for each in value):
        for place, each in enumerate(value[:_MOST_ENTRIES]):
            yield from _lines(f"{name} {place + 1}", each, labels)
    elif isinstance(value, np.ndarray) and value.size > _MOST_ENTRIES:
        yield name, (f"{' × '.join(f'{side:,}' for side in value.shape)} numbers, in the JSON of the release",)
    elif isinstance(value, np.ndarray) and value.ndim == 3:
        for place, each in enumerate(value):
            yield from _lines(f"{name} {place + 1}", each, labels)
    elif isinstance(value, np.ndarray) and value.ndim == 2:
        named = labels if len(labels) == len(value) else ("",) * len(value)
        yield (
            name,
            tuple(
                f"{label}: {_joined(line)}" if label else _joined(line)
                for label, line in zip(named, value, strict=True)
            ),
        )
    elif isinstance(value, list | tuple) and len(value) > _MOST_ENTRIES:
        yield name, (f"{len(value):,} entries, in the JSON of the release",)
    elif isinstance(value, list | tuple | np.ndarray):
        yield name, (_joined(value),)
    elif isinstance(value, bool):
        yield name, ("yes" if value else "no",)
    else:
        yield name, ("–" if value is None else as_read(value),)


def _joined(values: Sequence[Any] | np.ndarray) -> str:
    entries = values.ravel().tolist() if isinstance(values, np.ndarray) else values
    return ", ".join(_short(entry) for entry in entries) or "none"


def _short(entry: Any) -> str:
    return as_read(entry, digits=_DIGITS)


def _stated(release: Release, errors: Sequence[float]) -> dict[str, list[str]]:
    """Return the errors of all entries under their headings, the likely ones first."""
    error = release.error
    assert error is not None
    likely = {} if error.likely is None else {"Likely within": error.likely.at(0.95).tolist()}
    found = likely | {"Worst case" if error.proved else "Within": errors}
    return {heading: [_bound(release, each) for each in column] for heading, column in found.items()}


def _bound(release: Release, error: float) -> str:
    assert release.error is not None
    size = as_read(math.ceil(error - 1e-9)) if release.error.unit == "ranks" else at_most(error)
    return f"±\u00a0{size} {release.error.unit}"


_WIDTH, _HEIGHT, _ROW = 330, 150, 19
#: This many columns are drawn; the others have a sentence. Classes have this many colours.
_MOST_DRAWN, _COLOURS = 24, 4


def additive_card(release: Release) -> Mapping[str, Any] | None:
    """Return everything that the page shows of an additive model; None of a stored release that was changed."""
    from sidelight.regression.additive.fine_codes import fine_size
    from sidelight.regression.estimators.curves import curves_of
    from sidelight.regression.table_rows import declared_columns

    query, value = release.query, release.value
    try:
        columns = declared_columns(query)
        if sum(map(fine_size, columns)) != len(value["tables"]):
            return None
        classes = tuple(_classes(query))
        unit = float(query.get("half_range", 1.0))
        curves = sorted(curves_of(columns, value, classes=classes, unit=unit).values(), key=lambda each: -each.share)
    except (KeyError, TypeError, ValueError, IndexError):
        return None
    drawn = curves[:_MOST_DRAWN]
    heights = [part for each in drawn for part in (each.values, each.predicted) if part is not None]
    low, high = min(float(part.min()) for part in heights), max(float(part.max()) for part in heights)
    room = 0.05 * (high - low) or 1.0
    ends = (low - room, high + room)
    return {
        "facts": _facts(release, classes),
        "shares": bar_chart([each.column for each in drawn], np.array([each.share for each in drawn])),
        "columns": [
            (each.column, _chart(each, ends), each.sentence().removeprefix(f"{each.column}: ")) for each in drawn
        ],
        "others": [each.sentence() for each in curves[_MOST_DRAWN:]],
        "predicted": any(each.predicted is not None for each in drawn),
        "classes": classes if len(classes) > 2 else (),
    }


def _classes(query: Mapping[str, Any]) -> list[str]:
    return [str(each) for each in ast.literal_eval(query["classes"])] if "classes" in query else []


def _facts(release: Release, classes: Sequence[str]) -> list[tuple[str, str]]:
    value, query = release.value, release.query
    constants = " / ".join(short(float(each)) for each in np.atleast_1d(value["intercept"]))
    known = "declared" if query["rows"] != "none" else "released with noise"
    began = "lines" if query["lines"] != "none" else "nothing"
    if int(value["chosen"]) >= 0:
        began = f"prediction {int(value['chosen']) + 1} of {query['predictions']}"
    return [
        ("Predicts", ": ".join([str(query["column"]), *([", ".join(classes)] if classes else [])])),
        ("Intercept", f"{constants}, to which every column adds what its curve says"),
        ("Rows", f"about {as_read(round(float(value['rows'])))}, {known}"),
        ("Began with", f"{began}; {int(value['passes'])} noisy steps"),
    ]


def _chart(curve: ColumnCurve, ends: tuple[float, float]) -> Markup:
    """Draw a curve, the same scale for all, with its sentence as the text alternative."""
    parts, height = _labels(curve, ends) if curve.labels else _steps(curve, ends)
    body = svg_body(parts, width=_WIDTH, height=height)
    return Markup(f'<svg role="img" aria-label="{escape(curve.sentence())}" {body}')


def _outputs(values: Any) -> list[Any]:
    return [values] if values.ndim == 1 else list(values.T)


def _steps(curve: ColumnCurve, ends: tuple[float, float]) -> tuple[list[str], float]:
    left, right, bottom = 62, _WIDTH - 8, _HEIGHT - 24
    x = Axis(low=float(curve.edges[0]), high=float(curve.edges[-1]), start=left, end=right)
    y = Axis(low=ends[0], high=ends[1], start=bottom, end=6)
    parts, most = [], max(float(curve.counts.max()), 1.0)
    for low, high, count, few in zip(curve.edges, curve.edges[1:], curve.counts, curve.hatched, strict=False):
        tall = max(float(count), 0.0) / most * (bottom - 6) / 4
        kind = "count few" if few else "count"
        parts.append(
            f'<rect class="{kind}" x="{x(low):.1f}" y="{bottom - tall:.1f}" '
            f'width="{max(x(high) - x(low) - 0.5, 0.5):.1f}" height="{tall:.1f}"/>'
        )
    parts += [line_part(left, y(0), right, y(0), "grid"), line_part(left, bottom, right, bottom, "axis")]
    for each, kind in ((curve.predicted, "curve stated"), (curve.values, "curve")):
        for at, values in enumerate([] if each is None else _outputs(each)):
            corners = [
                f"{x(edge):.1f},{y(value):.1f}"
                for place, value in enumerate(values)
                for edge in curve.edges[place : place + 2]
            ]
            parts.append(f'<polyline class="{kind} line{at % _COLOURS}" points="{" ".join(corners)}"/>')
    parts += [text_part(left - 6, y(each) + 4, short(each, digits=2), "tick end") for each in ends]
    outer = [float(curve.edges[0]), float(curve.edges[-1])]
    first, last = axis_texts(outer) if curve.calendar is None else map(curve.calendar.text, outer)
    parts += [
        text_part(left, _HEIGHT - 8, first, "tick"),
        text_part(right, _HEIGHT - 8, last, "tick end"),
    ]
    return parts, _HEIGHT


def _labels(curve: ColumnCurve, ends: tuple[float, float]) -> tuple[list[str], float]:
    left, right = 100, _WIDTH - 8
    x, parts = Axis(low=ends[0], high=ends[1], start=left, end=right), []
    height = _ROW * len(curve.labels)
    parts.append(line_part(x(0), 0, x(0), height, "grid"))
    for place, at in enumerate(np.argsort(-_outputs(curve.values)[0], kind="stable")):
        middle = _ROW * place + _ROW / 2
        parts.append(text_part(left - 6, middle + 4, cut(curve.labels[at], left - 10), "tick end"))
        for output, values in enumerate(_outputs(curve.values)):
            parts.append(
                f'<circle class="dot line{output % _COLOURS}" cx="{x(values[at]):.1f}" cy="{middle:.1f}" r="4.5"/>'
            )
        expected = [] if curve.predicted is None else [x(values[at]) for values in _outputs(curve.predicted)]
        parts += [line_part(each, middle - 7, each, middle + 7, "curve stated") for each in expected]
    parts += [
        text_part(left, height + 14, short(ends[0], digits=2), "tick"),
        text_part(right, height + 14, short(ends[1], digits=2), "tick end"),
    ]
    return parts, height + 20
