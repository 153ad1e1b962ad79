"""SmartNoise's YAML, Frictionless table schemas and Croissant: what they say about columns, read and written.

None of them has a word for everything: SmartNoise knows no labels, Frictionless no persons, Croissant no bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sidelight.metadata.entries import Entry, bounds_of, bounds_to, days_of, labels_of, texts_of

_DAYS = {"date": "day", "datetime": "hour", "sc:Date": "day", "sc:DateTime": "hour"}
_NUMBERS = {"integer": True, "number": False, "int": True, "float": False, "sc:Integer": True, "sc:Float": False}


# SmartNoise: collections of schemas of tables; a column is a table with a type.


def is_smartnoise(data: Mapping[str, Any]) -> bool:
    """Return whether a document holds a table as SmartNoise describes one."""
    return next(_tables(data), None) is not None


def _tables(data: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(data, Mapping):
        return
    for name, inside in data.items():
        if not isinstance(inside, Mapping):
            continue
        if any(isinstance(each, Mapping) and isinstance(each.get("type"), str) for each in inside.values()):
            yield str(name), inside
        else:
            yield from _tables(inside)


def read_smartnoise(data: Mapping[str, Any]) -> list[Entry]:
    """Return what is said about each column of the first table."""
    _, table = next(_tables(data))
    most = next((table[key] for key in ("max_ids", "max_contrib") if key in table), None)
    found = []
    for name, column in table.items():
        if not isinstance(column, Mapping) or "type" not in column:
            continue
        entry: Entry = {"name": str(column.get("name", name))}
        if column.get("private_id"):
            entry |= {"kind": "person"} | ({} if most is None else {"max_rows": str(most)})
        elif column["type"] in _NUMBERS:
            entry |= bounds_of(column, whole=_NUMBERS[column["type"]], low="lower", high="upper")
            if column.get("missing_value") is not None:
                entry["missing"] = {"policy": "fill", "value": str(column["missing_value"])}
        elif column["type"] in _DAYS:
            entry |= {"kind": "date", "unit": "day"}
        elif column["type"] == "boolean":
            entry |= labels_of(["true", "false"], closed=False)
        found.append(entry)
    return found


def write_smartnoise(entries: list[Entry], *, name: str) -> dict[str, Any]:
    """Return the document of a schema."""
    person = next((each for each in entries if each["kind"] == "person"), None)
    table: dict[str, Any] = {"row_privacy": True} if person is None else {"max_ids": int(person["max_rows"])}
    for entry in entries:
        column: dict[str, Any] = {"type": "string"}
        if entry["kind"] == "number":
            column = {"type": "int" if entry.get("granularity") == "1" else "float"}
            column |= bounds_to(entry, "lower", "upper")
        elif entry["kind"] == "date":
            column = {"type": "datetime"}
        elif entry["kind"] == "person":
            column["private_id"] = True
        elif entry["kind"] == "category":
            column["cardinality"] = len(entry["categories"]) + ("other" in entry)
        table[entry["name"]] = column
    return {"": {"": {name: table}}}


# Frictionless: a table schema, alone or in a resource of a data package.


def is_frictionless(data: Mapping[str, Any]) -> bool:
    """Return whether a document is a table schema or a data package."""
    return "fields" in data or "resources" in data


def read_frictionless(data: Mapping[str, Any]) -> list[Entry]:
    """Return what is said about each field of the (first) schema."""
    schema = data if "fields" in data else data["resources"][0].get("schema", {})
    return [_field(each, schema) for each in schema.get("fields", ())]


def _field(field: Mapping[str, Any], schema: Mapping[str, Any]) -> Entry:
    kind, limits = field.get("type", "string"), field.get("constraints", {})
    entry: Entry = {"name": str(field["name"])}
    missing = field.get("missingValues", schema.get("missingValues", ()))
    entry |= texts_of(each["value"] if isinstance(each, Mapping) else each for each in missing)
    listed = field.get("categories") or limits.get("enum")
    if listed:
        values = [each["value"] if isinstance(each, Mapping) else each for each in listed]
        return entry | labels_of(values, closed=False)
    if kind == "boolean":
        names = {"true": field.get("trueValues"), "false": field.get("falseValues")}
        others = {label: [each for each in texts if each != label] for label, texts in names.items() if texts}
        aliases = {label: texts for label, texts in others.items() if texts}
        return entry | labels_of(["true", "false"], closed=False) | ({"aliases": aliases} if aliases else {})
    if kind in _DAYS:
        form = field.get("format", "default")
        forms = {"formats": [form]} if form not in ("default", "any") else {}
        return entry | days_of(limits, unit=_DAYS[kind]) | forms
    if kind in _NUMBERS:
        entry |= bounds_of(limits, whole=_NUMBERS[kind])
        entry |= {"decimal": field["decimalChar"]} if "decimalChar" in field else {}
        return entry | ({"thousands": field["groupChar"]} if "groupChar" in field else {})
    return entry


def write_frictionless(entries: list[Entry], *, name: str) -> dict[str, Any]:
    """Return the document of a schema: a table schema, with the missing texts of each field."""
    del name
    fields = []
    for entry in entries:
        kind = entry["kind"]
        field: dict[str, Any] = {"name": entry["name"], "type": "string"}
        limits: dict[str, Any] = {}
        if kind == "number":
            field["type"] = "integer" if entry.get("granularity") == "1" else "number"
            limits = bounds_to(entry, "minimum", "maximum")
            field |= {"decimalChar": entry["decimal"]} if "decimal" in entry else {}
            field |= {"groupChar": entry["thousands"]} if "thousands" in entry else {}
        elif kind == "date":
            field["type"] = "date" if entry["unit"] == "day" else "datetime"
            limits = {"minimum": entry["start"], "maximum": entry["end"]}
            field |= {"format": entry["formats"][0]} if len(entry.get("formats", ())) == 1 else {}
        elif kind == "category":
            limits = {"enum": entry["categories"]}
        field |= {"constraints": limits} if limits else {}
        field |= {"missingValues": ["", *entry["missing_texts"]]} if "missing_texts" in entry else {}
        fields.append(field)
    return {"fields": fields, "missingValues": [""]}


# Croissant: fields of record sets; labels are records of another set, which is an enumeration.


def is_croissant(data: Mapping[str, Any]) -> bool:
    """Return whether a document has record sets."""
    return "recordSet" in data or "cr:recordSet" in data


def read_croissant(data: Mapping[str, Any]) -> list[Entry]:
    """Return what is said about each field of the first set that is not an enumeration."""
    sets = data.get("recordSet") or data.get("cr:recordSet") or []
    listed = {str(each.get("@id", each.get("name"))): each for each in sets if "data" in each}
    table: Mapping[str, Any] = next((each for each in sets if "data" not in each), {})
    found = []
    for field in table.get("field", ()):
        kinds = field.get("dataType", "sc:Text")
        kinds = [kinds] if isinstance(kinds, str) else kinds
        entry: Entry = {"name": str(field.get("name", field.get("@id", ""))).rpartition("/")[2]}
        to = field.get("references", {}).get("field", {}).get("@id", "")
        of, _, key = str(to).rpartition("/")
        number = next((kind for kind in kinds if kind in _NUMBERS), None)
        day = next((kind for kind in kinds if kind in _DAYS), None)
        if of in listed:
            records = listed[of]["data"]
            values = [next((value for name, value in each.items() if name.endswith(key)), None) for each in records]
            entry |= labels_of([value for value in values if value is not None], closed=False)
        elif number is not None:
            entry |= bounds_of({}, whole=_NUMBERS[number])
        elif day is not None:
            entry |= {"kind": "date", "unit": _DAYS[day]}
        elif "sc:Boolean" in kinds:
            entry |= labels_of(["true", "false"], closed=False)
        found.append(entry)
    return found


def write_croissant(entries: list[Entry], *, name: str) -> dict[str, Any]:
    """Return the document of a schema: a record set, and an enumeration for each list of labels."""
    fields, sets = [], []
    for entry in entries:
        kind, own = entry["kind"], f"{name}/{entry['name']}"
        field: dict[str, Any] = {"@type": "cr:Field", "@id": own, "name": own, "dataType": "sc:Text"}
        if kind == "number":
            field["dataType"] = "sc:Integer" if entry.get("granularity") == "1" else "sc:Float"
        elif kind == "date":
            field["dataType"] = "sc:Date" if entry["unit"] == "day" else "sc:DateTime"
        elif kind == "category":
            of = f"labels of {entry['name']}"
            field["references"] = {"field": {"@id": f"{of}/label"}}
            key = {"@type": "cr:Field", "@id": f"{of}/label", "name": f"{of}/label", "dataType": "sc:Text"}
            data = [{f"{of}/label": label} for label in entry["categories"]]
            sets.append({"@type": "cr:RecordSet", "@id": of, "name": of, "field": [key], "data": data})
        fields.append(field)
    table = {"@type": "cr:RecordSet", "@id": name, "name": name, "field": fields}
    context = {"@vocab": "https://schema.org/", "sc": "https://schema.org/", "cr": "http://mlcommons.org/croissant/"}
    standard = {"conformsTo": "http://mlcommons.org/croissant/1.0", "name": name}
    return {"@context": context, "@type": "sc:Dataset", **standard, "recordSet": [table, *sets]}
