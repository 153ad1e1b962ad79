"""The part of JSON schema that the schema of plans uses, checked without a library."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from typing import Any

from sidelight.cli.daily import sequence_table
from sidelight.plans.plan import plan_schema

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float, Decimal),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
KNOWN = {"type", "enum", "const", "properties", "additionalProperties", "required", "items", "anyOf", "oneOf"}
KNOWN |= {"minItems", "format"}
ABOUT = {"$schema", "title", "description"}


@cache
def schema() -> dict[str, Any]:
    return plan_schema(sequence_table())


def problems(value: Any, wanted: dict[str, Any], place: str = "plan") -> Iterator[str]:
    """Say what of a value a schema forbids."""
    assert set(wanted) <= KNOWN | ABOUT, set(wanted) - KNOWN
    if "type" in wanted:
        right = isinstance(value, TYPES[wanted["type"]])
        if not right or (isinstance(value, bool) and wanted["type"] != "boolean"):
            yield f"{place} must be of type {wanted['type']}"
            return
    if "enum" in wanted and value not in wanted["enum"]:
        yield f"{place} must be one of {wanted['enum']}"
    if "const" in wanted and value != wanted["const"]:
        yield f"{place} must be {wanted['const']}"
    if "anyOf" in wanted and all(list(problems(value, each, place)) for each in wanted["anyOf"]):
        yield f"{place} fits none of {wanted['anyOf']}"
    if "oneOf" in wanted:
        fits = [not list(problems(value, each, place)) for each in wanted["oneOf"]]
        if sum(fits) != 1:
            yield f"{place} fits {sum(fits)} of its kinds: {value}"
    if wanted.get("format") == "date" and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        yield f"{place} must be a date"
    if isinstance(value, list) and len(value) < wanted.get("minItems", 0):
        yield f"{place} must have at least {wanted['minItems']} entries"
    if isinstance(value, list) and "items" in wanted:
        for position, each in enumerate(value):
            yield from problems(each, wanted["items"], f"{place}[{position}]")
    if isinstance(value, dict):
        properties = wanted.get("properties", {})
        yield from (f"{place} lacks {key}" for key in wanted.get("required", []) if key not in value)
        for key, each in value.items():
            if key in properties:
                yield from problems(each, properties[key], f"{place}.{key}")
            elif wanted.get("additionalProperties") is False:
                yield f"{place} has no key {key}"
            elif isinstance(wanted.get("additionalProperties"), dict):
                yield from problems(each, wanted["additionalProperties"], f"{place}.{key}")
