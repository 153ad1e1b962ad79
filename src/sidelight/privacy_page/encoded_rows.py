"""A person's own row as the fit saw it: ranges, levels, row policy, constant column; and the label as a target.

The same map that the page computes in the browser. It must be the map of the training rows: a forgotten constant column
or another range makes the row shorter than it was, and the bound too small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from sidelight.errors import SchemaError, nearest
from sidelight.privacy_page.losses import Floats
from sidelight.privacy_page.published import Encoding, Feature


def encode_features(features: Sequence[Feature], row: Mapping[str, Any] | Sequence[Any]) -> Floats:
    """Turn one raw row (values by name, or in the order of the features) into numbers, before the row policy.

    Raises:
        SchemaError: a feature is missing, unknown, no number, or refused by its rule; the message names it.
    """
    entries: list[float] = []
    for feature, value in zip(features, _in_order(features, row), strict=True):
        entries += _level(feature, value) if feature.levels is not None else [_number(feature, value)]
    return np.asarray(entries, dtype=np.float64)


def bounded_rows(encoding: Encoding, rows: Floats) -> Floats:
    """Apply the row policy to encoded rows (n, columns) and append the constant column."""
    largest = np.max(np.abs(rows), axis=1, keepdims=True, initial=0.0)
    scaled = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)  # squares cannot overflow
    length = np.sqrt(np.sum(scaled * scaled, axis=1, keepdims=True))
    full = np.divide(encoding.data_norm, length, out=np.zeros_like(length), where=length > 0)
    change = (largest > full) | (encoding.row_policy == "normalize")  # largest·length > data_norm, without overflow
    bounded = np.where(change, scaled * full, rows)
    if encoding.intercept_value is None:
        return bounded
    return np.hstack([bounded, np.full((rows.shape[0], 1), encoding.intercept_value)])


def encode_row(encoding: Encoding, row: Mapping[str, Any] | Sequence[Any]) -> Floats:
    """Turn one raw row into the row of the fit, shape (1, columns)."""
    return bounded_rows(encoding, encode_features(encoding.features, row)[None, :])


def encode_label(encoding: Encoding, label: Any) -> float:
    """Turn one label into the target of the loss: -1 or 1, the number of a class, or a number clamped to its range.

    Raises:
        SchemaError: the label is none of the declared ones, or no number.
    """
    declared = encoding.label
    if declared.lo is not None and declared.hi is not None:
        return min(max(_finite("label", label), declared.lo), declared.hi)
    known = declared.classes or [str(declared.negative), str(declared.positive)]
    text = _text(label)
    if text not in known:
        raise SchemaError(f"label: {text!r} is no class of this model; {nearest(text, known)}")
    place = known.index(text)
    return float(place) if declared.classes is not None else 2.0 * place - 1.0


def _in_order(features: Sequence[Feature], row: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
    names = [feature.name for feature in features]
    if isinstance(row, Mapping):
        for name in row:
            if name not in names:
                raise SchemaError(f"{name}: this model has no such feature; {nearest(str(name), names)}")
        for name in names:
            if name not in row:
                raise SchemaError(f"{name}: missing; give a value for every feature")
        return [row[name] for name in names]
    if isinstance(row, str) or len(row) != len(names):
        raise SchemaError(f"a row has {len(names)} values ({', '.join(names[:5])}, ...), got {len(row)}")
    return list(row)


def _number(feature: Feature, value: Any) -> float:
    number = _finite(feature.name, value)
    if feature.lo is None or feature.hi is None:
        return number
    if feature.rejects and not feature.lo <= number <= feature.hi:
        raise SchemaError(
            f"{feature.name}: must lie in {feature.lo:g} .. {feature.hi:g}; a row like this could not have been used"
        )
    low, high = feature.ends
    share = (min(max(number, feature.lo), feature.hi) - feature.lo) / (feature.hi - feature.lo)
    return low + share * (high - low)


def _level(feature: Feature, value: Any) -> list[float]:
    levels, (off, on) = feature.levels or [], feature.ends
    text = _text(value)
    if text not in levels and feature.rejects:
        raise SchemaError(
            f"{feature.name}: {text!r} is no level; {nearest(text, levels)}; a row like this could not have been used"
        )
    return [on if level == text else off for level in levels]


def _finite(name: str, value: Any) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise SchemaError(f"{name}: a number belongs here, got {_shown(value)}")
    number = float(value)
    if not np.isfinite(number):
        raise SchemaError(f"{name}: a finite number belongs here, got {number}")
    return number


def _text(value: Any) -> str:
    """Return a level or label as the file spells it."""
    return str(value.item() if isinstance(value, np.generic) else value)


def _shown(value: Any) -> str:
    return "nothing" if value is None or value == "" else repr(value)
