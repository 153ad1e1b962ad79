"""A released value as rows of a table, whatever its kind: a vector, a matrix, a model, a mapping of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sidelight.release import Release
from sidelight.report.numbers import shown

Row = tuple[str, str, str | None]  # label, value, bound

#: More entries than this are counted instead of listed.
_MOST_ENTRIES = 400
_DIGITS = 6


def rows_of(release: Release, errors: list[float] | None) -> list[Row]:
    """Return what the table of a release shows."""
    value, labels = release.value, release.labels
    if isinstance(value, np.ndarray) and value.ndim == 1 and len(value) == len(labels):
        bounds = [_bound(release, error) for error in errors] if errors and len(errors) == len(value) else None
        return [
            (label, shown(entry), None if bounds is None else bounds[place])
            for place, (label, entry) in enumerate(zip(labels, value.tolist(), strict=True))
        ]
    rows = list(_entries("value", value, labels))
    if errors and len(errors) == 1:
        rows[0] = (*rows[0][:2], _bound(release, errors[0]))
    return rows


def matrix_of(release: Release) -> tuple[tuple[str, ...], np.ndarray] | None:
    """Return the labels and the matrix of a release that is one, or has one as "matrix"."""
    value = release.value.get("matrix") if isinstance(release.value, Mapping) else release.value
    if not isinstance(value, np.ndarray) or value.shape != (len(release.labels),) * 2:
        return None
    return (release.labels, value) if bool(np.all(np.isfinite(value))) else None


def vector_of(release: Release) -> tuple[tuple[str, ...], np.ndarray] | None:
    """Return the labels and the numbers of a release that is a labelled vector."""
    value = release.value
    fits = isinstance(value, np.ndarray) and value.ndim == 1 and len(value) == len(release.labels)
    return (release.labels, value) if fits and value.dtype.kind in "if" and bool(np.all(np.isfinite(value))) else None


def _entries(name: str, value: Any, labels: tuple[str, ...]) -> Iterator[Row]:
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _entries(str(key) if name == "value" else f"{name}: {key}", entry, labels)
    elif isinstance(value, np.ndarray) and value.ndim == 2 and value.size <= _MOST_ENTRIES:
        columns = labels if len(labels) == value.shape[1] else tuple(str(k + 1) for k in range(value.shape[1]))
        # a matrix of columns by columns is symmetric; as many means as there are columns is not
        square = value.shape == (len(labels),) * 2 and np.array_equal(value, value.T, equal_nan=True)
        rows = labels if square else None
        for i, line in enumerate(value.tolist()):
            where = f"{name}, {rows[i]}" if rows else name if len(value) == 1 else f"{name} {i + 1}"
            yield (where, "; ".join(f"{c} {_short(v)}" for c, v in zip(columns, line, strict=True)), None)
    elif isinstance(value, np.ndarray) and value.ndim == 3 and value.size <= _MOST_ENTRIES:
        for i, each in enumerate(value):
            yield from _entries(f"{name} {i + 1}", each, labels)
    elif name == "mean" and isinstance(value, np.ndarray) and value.shape == (len(labels),):
        yield (name, "; ".join(f"{c} {_short(v)}" for c, v in zip(labels, value.tolist(), strict=True)), None)
    elif isinstance(value, np.ndarray) and value.ndim == 1 and value.size <= _MOST_ENTRIES:
        yield (name, ", ".join(_short(entry) for entry in value.tolist()) or "none", None)
    elif isinstance(value, np.ndarray):
        yield (name, f"{' × '.join(f'{side:,}' for side in value.shape)} numbers, in the JSON of the release", None)
    elif isinstance(value, list) and value and len(value) <= _MOST_ENTRIES and all(isinstance(e, dict) for e in value):
        for i, each in enumerate(value):
            yield from _entries(f"{name} {i + 1}", each, labels)
    elif isinstance(value, list | tuple) and len(value) > _MOST_ENTRIES:
        yield (name, f"{len(value):,} entries, in the JSON of the release", None)
    elif isinstance(value, list | tuple):
        yield (name, ", ".join(_short(entry) for entry in value) or "none", None)
    else:
        yield (name, "–" if value is None else shown(value), None)


def _short(entry: Any) -> str:
    return shown(entry, digits=_DIGITS)


def _bound(release: Release, error: float) -> str:
    assert release.error is not None
    return f"± {error:.0f} ranks" if release.error.unit == "ranks" else f"± {error:.3g} {release.error.unit}"
