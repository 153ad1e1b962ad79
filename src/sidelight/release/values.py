"""Released values as JSON and back, without losing a bit; and the JSON object that a stored outcome is."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.group_table import GroupTable
from sidelight.released_distribution import ReleasedDistribution

FORMAT = "1"
WANTED = "expected the JSON of releases, as release.to_json() writes it"
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


def stored_object(text: str) -> dict[str, Any]:
    """Parse the JSON object of an outcome, or say why it is none that this version reads."""
    if not isinstance(text, str | bytes | bytearray):
        raise RangeError(f"{WANTED}, got {type(text).__name__}; of a file pass its text: Path(...).read_text()")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise RangeError(f"{WANTED}, got a text that is not JSON; is it the whole text?") from None
    if not isinstance(data, dict) or "format" not in data or "circumstances" not in data:
        raise RangeError(f"{WANTED}, got other JSON; what `sidelight run --json` wrote is for `sidelight report`")
    if data["format"] != FORMAT:
        raise RangeError(f"this is release format {data['format']!r}; this version reads {FORMAT!r}: upgrade sidelight")
    return data
