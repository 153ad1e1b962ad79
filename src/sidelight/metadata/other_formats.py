"""SmartNoise's YAML, Frictionless table schemas and Croissant: what they say about columns, read and written.

None of them has a word for everything: SmartNoise knows no labels, Frictionless no persons, Croissant no bounds.

CSV on the Web, with the extension for differential privacy that the package `csvw-eo` reads and writes.

The standard has names, types, bounds, forms of numbers and dates, and texts for null; the extension has the column
that names people (`privacyId`), its rows (`maxContributions`), public labels (`keyValues`) and their number per person.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sidelight.errors import SchemaError
from sidelight.metadata.entries import Entry, bounds_of, bounds_to, check_flags, days_of, labels_of, limits_of, texts_of

_DAYS = {"date": "day", "datetime": "hour", "sc:Date": "day", "sc:DateTime": "hour"}
_NUMBERS = {"integer": True, "number": False, "int": True, "float": False, "sc:Integer": True, "sc:Float": False}

#: What SmartNoise says of a table, next to its columns.
_OF_TABLES = (
    *("row_privacy", "rows", "max_ids", "max_contrib", "sample_max_ids", "censor_dims", "clamp_counts"),
    *("clamp_columns", "use_dpsu"),
)


# SmartNoise: collections of schemas of tables; a column is a table with a type.


def is_smartnoise(data: Mapping[str, Any]) -> bool:
    """Return whether a document holds a table as SmartNoise describes one."""
    return next(smartnoise_tables(data), None) is not None


def smartnoise_tables(data: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the tables of a document with their names."""
    if not isinstance(data, Mapping):
        return
    for name, inside in data.items():
        if not isinstance(inside, Mapping):
            continue
        if any(isinstance(each, Mapping) and isinstance(each.get("type"), str) for each in inside.values()):
            yield str(name), inside
        else:
            yield from smartnoise_tables(inside)


def read_smartnoise(data: Mapping[str, Any]) -> list[Entry]:
    """Return what is said about each column of the one table."""
    _, table = next(smartnoise_tables(data))
    most = next((table[key] for key in ("max_ids", "max_contrib") if key in table), None)
    if most is not None and not (isinstance(most, int) and not isinstance(most, bool) and most >= 1):
        raise SchemaError(f"max_ids is how many rows a person has at most, a whole number from 1 on, got {most!r}")
    check_flags("the table", table, "row_privacy")
    found = []
    for name, column in table.items():
        if not isinstance(column, Mapping) or "type" not in column:
            continue
        entry: Entry = {"name": str(column.get("name", name))}
        check_flags(entry["name"], column, "private_id")
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
    # what says that people are protected, and not who they are, is refused: rows would be protected instead
    rows, said = table.get("row_privacy"), f"a person may have {most} rows (max_ids)"
    said = "row_privacy is false" if rows is False else said
    if (rows is False or (most not in (None, 1) and not rows)) and all(e.get("kind") != "person" for e in found):
        raise SchemaError(
            f"{said}, and no column says whose row it is; mark it with private_id, or write row_privacy: true"
        )
    return found


def write_smartnoise(entries: list[Entry], *, name: str) -> dict[str, Any]:
    """Return the document of a schema."""
    person = next((each for each in entries if each["kind"] == "person"), None)
    table: dict[str, Any] = {"row_privacy": True} if person is None else {"max_ids": int(person["max_rows"])}
    for entry in entries:
        if entry["name"] in _OF_TABLES:
            raise SchemaError(
                f"SmartNoise's {entry['name']!r} is said of a table, and a column cannot have that name; write JSON"
            )
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


_CONTEXT = "http://www.w3.org/ns/csvw"
_WHOLE = (
    *("integer", "long", "int", "short", "byte", "positiveInteger", "negativeInteger", "nonNegativeInteger"),
    *("nonPositiveInteger", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte"),
)
_REAL = ("decimal", "double", "float", "number")
_CSVW_DAYS = {"date": "day", "datetime": "hour", "dateTime": "hour", "dateTimeStamp": "hour"}
#: The forms of dates of Unicode (UAX 35), and what `strptime` calls them.
# fmt: off
_FORMS = {
    "yyyy": "%Y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "M": "%m", "dd": "%d", "d": "%d", "HH": "%H",
    "H": "%H", "hh": "%I", "h": "%I", "mm": "%M", "ss": "%S", "a": "%p", "XXX": "%z", "DDD": "%j",
}
# fmt: on
_PARTS = re.compile(r"'[^']*'|([A-Za-z])\1*|[^A-Za-z']")


def is_csvw(data: Mapping[str, Any]) -> bool:
    """Return whether a document is a table, or a group of tables, of CSV on the Web."""
    return "tableSchema" in data or "tables" in data


def read_csvw(data: Mapping[str, Any]) -> list[Entry]:
    """Return what is said about each column of the (first) table."""
    table = data["tables"][0] if data.get("tables") else data
    schema = table.get("tableSchema") or data.get("tableSchema") or {}
    for each in schema.get("columns", ()):
        check_flags(_name(each), each, "privacyId", "exhaustiveKeys", "virtual")
    columns = [each for each in schema.get("columns", ()) if not each.get("virtual")]
    # a property may stand with the group of tables, with the table, or with its schema
    table = {**table, **{name: _one_of(name, data, table, schema) for name in ("privacyUnit", "maxContributions")}}
    person = _person(table, columns)
    return [_column(each, table, person) for each in columns]


def _one_of(name: str, *levels: Mapping[str, Any]) -> Any:
    """Return what a property is; refuse two values on different levels."""
    given = [level[name] for level in levels if level.get(name) is not None]
    if any(each != given[0] for each in given):
        raise SchemaError(f"{name} must be said once, got {' and '.join(map(str, given))} on different levels")
    return given[0] if given else None


def _name(column: Mapping[str, Any]) -> str:
    return str(column.get("name") or next(iter(_titles(column)), None))


def _titles(column: Mapping[str, Any]) -> list[str]:
    """Return what the header of a file may call a column: a text, several, or those of each language."""
    titles = column.get("titles") or ()
    found = list(titles.values()) if isinstance(titles, Mapping) else [titles]
    return [str(each) for some in found for each in ([some] if isinstance(some, str) else some)]


def _person(table: Mapping[str, Any], columns: list[Mapping[str, Any]]) -> str | None:
    """Return the column that names people, by the table's `privacyUnit` or a column's `privacyId`.

    What says that people are protected, and not who they are, is refused: rows would be protected instead.
    """
    unit, most = table.get("privacyUnit"), table.get("maxContributions")
    marked = [_name(each) for each in columns if each.get("privacyId")]
    if unit is not None and (unit not in map(_name, columns) or marked not in ([], [unit])):
        ids = f"the privacyId {', '.join(marked)}" if marked else "no privacyId"
        raise SchemaError(
            f"privacyUnit must name the column of people, got {unit!r} and {ids}; name one column in both"
        )
    if unit is None and not marked and most not in (None, 1):
        raise SchemaError(f"maxContributions is {most}, and no column says whose row it is; mark it with privacyId")
    return str(unit) if unit is not None else next(iter(marked), None)


def _column(column: Mapping[str, Any], table: Mapping[str, Any], person: str | None) -> Entry:
    name, most = _name(column), table.get("maxContributions")
    given = column.get("datatype", "string")
    datatype: Mapping[str, Any] = given if isinstance(given, Mapping) else {"base": given}
    base = str(datatype.get("base", "string"))
    both = limits_of(name, datatype, column)
    entry: Entry = {"name": name, "titles": _titles(column)}
    null = column.get("null", table.get("null", ()))
    entry |= texts_of([null] if isinstance(null, str) else null)
    bounded = len(both) == 2
    # lists of the numbers and dates that occur say less than bounds do
    valued = base in _REAL or base in _CSVW_DAYS or (base in _WHOLE and bounded)
    keys = [] if valued else column.get("keyValues") or _predicates(column)
    if column.get("privacyId") or name == person:
        return entry | {"kind": "person"} | ({} if most is None else {"max_rows": str(most)})
    if keys or base == "boolean":
        entry |= labels_of(keys or ["true", "false"], closed=bool(column.get("exhaustiveKeys")))
        groups = column.get("maxGroupsPerUnit")
        return entry | ({} if groups is None else {"per_person": str(groups)})
    if base in _CSVW_DAYS:
        form = _from_unicode(datatype.get("format"))
        return entry | days_of(both, unit=_CSVW_DAYS[base]) | ({"formats": [form]} if form else {})
    if base in _WHOLE or base in _REAL:
        signs = datatype.get("format") if isinstance(datatype.get("format"), Mapping) else {}
        assert isinstance(signs, Mapping)
        entry |= bounds_of(both, whole=base in _WHOLE)
        entry |= {"decimal": signs["decimalChar"]} if "decimalChar" in signs else {}
        return entry | ({"thousands": signs["groupChar"]} if "groupChar" in signs else {})
    return entry


def _predicates(column: Mapping[str, Any]) -> list[Any]:
    found = [each.get("predicate", {}).get("partitionValue") for each in column.get("partitions") or ()]
    return [each for each in found if each is not None]


def write_csvw(entries: list[Entry], *, name: str) -> dict[str, Any]:
    """Return the document of a schema."""
    person = next((each for each in entries if each["kind"] == "person"), None)
    table: dict[str, Any] = {"@context": [_CONTEXT], "@type": "Table", "url": name}
    if person is not None:
        table |= {"privacyUnit": person["name"], "maxContributions": int(person["max_rows"])}
    return table | {"tableSchema": {"columns": [_written(each) for each in entries]}}


def _written(entry: Entry) -> dict[str, Any]:
    kind = entry["kind"]
    column: dict[str, Any] = {"@type": "Column", "name": entry["name"], "titles": entry["name"]}
    if kind == "number":
        signs = {"decimalChar": entry.get("decimal"), "groupChar": entry.get("thousands")}
        given = {key: value for key, value in signs.items() if value is not None}
        base = "integer" if entry.get("granularity") == "1" else "double"
        column["datatype"] = {"base": base, "format": given} if given else base
        column |= bounds_to(entry, "minimum", "maximum")
    elif kind == "date":
        base = "date" if entry["unit"] == "day" else "dateTime"
        form = _to_unicode(entry["formats"][0]) if len(entry.get("formats", ())) == 1 else None
        column["datatype"] = {"base": base, "format": form} if form else base
        column |= {"minimum": entry["start"], "maximum": entry["end"]}
    else:
        column["datatype"] = "string"
    if kind == "category":
        column |= {"keyValues": entry["categories"], "exhaustiveKeys": "other" not in entry}
    if "per_person" in entry:
        column["maxGroupsPerUnit"] = int(entry["per_person"])
    if kind == "person":
        column["privacyId"] = True
    if "missing_texts" in entry:
        column["null"] = ["", *entry["missing_texts"]]
    return column


def _from_unicode(form: Any) -> str | None:
    """Return a form of dates as `strptime` writes it; None if it is none, or one that we do not know.

    >>> _from_unicode("dd.MM.yyyy HH:mm"), _from_unicode("yyyy-'W'ww")
    ('%d.%m.%Y %H:%M', None)
    """
    if not isinstance(form, str):
        return None
    parts = [found[0] for found in _PARTS.finditer(form)]
    if any(part[0].isalpha() and part not in _FORMS for part in parts):
        return None
    plain = (part.strip("'") if part[0] == "'" else part.replace("%", "%%") for part in parts)
    return "".join(_FORMS.get(part, part) for part in plain)


def _to_unicode(form: str) -> str | None:
    """Return a form of `strptime` as Unicode writes it; None if there is no word for a part of it."""
    words = {directive: word for word, directive in reversed(_FORMS.items())}
    parts = re.findall(r"%.|[A-Za-z]+|[^%A-Za-z]", form)
    if any(part[0] == "%" and part not in words for part in parts) or "'" in form:
        return None
    return "".join(words.get(part, f"'{part}'" if part[0].isalpha() else part) for part in parts)
