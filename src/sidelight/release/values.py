"""Released values as JSON and back, without losing a bit."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from sidelight.group_table import GroupTable
from sidelight.released_distribution import ReleasedDistribution

#: Arrays with more entries are written as bytes.
_LONG = 4096


def encode_value(value: Any) -> Any:
    """Return a released value as plain JSON values."""
    if isinstance(value, np.ndarray) and value.size > _LONG and value.dtype.kind in "if":
        return _encode_long(value)
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": value.dtype.name}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, GroupTable):
        return {"groups": value.to_json()}
    if isinstance(value, ReleasedDistribution):
        return {"distribution": value.to_json()}
    if isinstance(value, Mapping):
        return {"mapping": {str(key): encode_value(entry) for key, entry in value.items()}}
    if isinstance(value, list | tuple):
        return [encode_value(entry) for entry in value]
    return value


def _encode_long(value: np.ndarray) -> dict[str, Any]:
    """Write the bytes of a long array: as exact as digits, and fifty times quicker."""
    if not np.all(np.isfinite(value)):
        raise ValueError("a release holds finite numbers")  # as `allow_nan=False` says of short ones
    written = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
    text = base64.b64encode(written.tobytes()).decode("ascii")
    return {"bytes": text, "dtype": value.dtype.name, "shape": list(value.shape)}


def decode_value(value: Any) -> Any:
    """Read what `encode_value` returned."""
    if isinstance(value, dict) and "array" in value:
        return np.array(value["array"], dtype=value["dtype"])
    if isinstance(value, dict) and "bytes" in value:
        little = np.dtype(value["dtype"]).newbyteorder("<")
        read = np.frombuffer(base64.b64decode(value["bytes"], validate=True), dtype=little)
        return read.astype(value["dtype"]).reshape(value["shape"])
    if isinstance(value, dict) and "groups" in value:
        return GroupTable.from_json(value["groups"])
    if isinstance(value, dict) and "distribution" in value:
        return ReleasedDistribution.from_json(value["distribution"])
    if isinstance(value, dict):
        return {key: decode_value(entry) for key, entry in value["mapping"].items()}
    if isinstance(value, list):
        return [decode_value(entry) for entry in value]
    return value
