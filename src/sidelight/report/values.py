"""A released value as a table, whatever its kind: a vector, a matrix, a model, a mapping of them.

What a reader came for stands in the table; how it was computed (noise, steps, shrinkage) goes to the settings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sidelight.release import Release
from sidelight.release.shown import as_read, at_most
from sidelight.report.words import supported

Row = tuple[str, str, tuple[str, ...]]  # label, value, and its errors under the headings of the listing

#: More entries than this are counted instead of listed.
_MOST_ENTRIES = 400
#: So many rows stand in the open, fewer where bars with their numbers stand above; what comes after is behind a click.
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
