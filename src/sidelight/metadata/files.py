"""Files of metadata: which format it is, what each column lacks, and what a format has no word for.

A format says what it can in its own words. What is left stands under the key "sidelight" of each column, so that a
schema that is written and read again is the same; other tools pass over a key that they do not know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

from sidelight.errors import SchemaError, SidelightError
from sidelight.metadata import other_formats
from sidelight.metadata.entries import Entry
from sidelight.records import Column, Schema
from sidelight.records.numbers import exact_number

#: The key under which a column says what its format has no word for.
OWN = "sidelight"
#: What a kind of column cannot do without.
_NEEDED = {"person": ("max_rows",), "date": ("start", "end"), "category": ("categories",), "number": (), "label": ()}


@dataclass(frozen=True)
class _Format:
    """A format: whether a document is one, its tables, how one is read and written, and where its columns are."""

    fits: Callable[[Mapping[str, Any]], bool]
    tables: Callable[[Mapping[str, Any]], list[tuple[str, Mapping[str, Any]]]]
    read: Callable[[Mapping[str, Any]], list[Entry]]
    write: Callable[..., dict[str, Any]]
    columns: Callable[[Any], list[dict[str, Any]]]


# The tables of a document by name, each as a document of its own.


def _smartnoise_tables(data: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(name, {"": {"": {name: table}}}) for name, table in other_formats.smartnoise_tables(data)]


def _csvw_tables(data: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(PurePosixPath(str(each.get("url"))).stem, {**data, "tables": [each]}) for each in data.get("tables", ())]


def _croissant_tables(data: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    sets = data.get("recordSet") or data.get("cr:recordSet") or []
    listed = [each for each in sets if "data" in each]
    tables = [each for each in sets if "data" not in each]
    return [(str(each.get("name", each.get("@id"))), {**data, "recordSet": [each, *listed]}) for each in tables]


def _frictionless_tables(data: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    resources = () if "fields" in data else data["resources"]
    return [(str(each.get("name")), {**data, "resources": [each]}) for each in resources]


# The columns of a document of one table.


def _smartnoise_columns(data: Any) -> list[dict[str, Any]]:
    _, table = next(other_formats.smartnoise_tables(data))
    return [each for each in table.values() if isinstance(each, dict) and "type" in each]


def _csvw_columns(data: Any) -> list[dict[str, Any]]:
    table = data["tables"][0] if data.get("tables") else data
    found = (table.get("tableSchema") or data.get("tableSchema") or {}).get("columns", [])
    return [each for each in found if not each.get("virtual")]


def _croissant_columns(data: Any) -> list[dict[str, Any]]:
    sets = data.get("recordSet") or data.get("cr:recordSet") or []
    return list(next((each.get("field", []) for each in sets if "data" not in each), []))


def _frictionless_columns(data: Any) -> list[dict[str, Any]]:
    schema = data if "fields" in data else data["resources"][0].get("schema", {})
    return list(schema.get("fields", []))


FORMATS = {
    "csvw": _Format(
        other_formats.is_csvw,
        _csvw_tables,
        other_formats.read_csvw,
        other_formats.write_csvw,
        _csvw_columns,
    ),
    "croissant": _Format(
        other_formats.is_croissant,
        _croissant_tables,
        other_formats.read_croissant,
        other_formats.write_croissant,
        _croissant_columns,
    ),
    "frictionless": _Format(
        other_formats.is_frictionless,
        _frictionless_tables,
        other_formats.read_frictionless,
        other_formats.write_frictionless,
        _frictionless_columns,
    ),
    "smartnoise": _Format(
        other_formats.is_smartnoise,
        _smartnoise_tables,
        other_formats.read_smartnoise,
        other_formats.write_smartnoise,
        _smartnoise_columns,
    ),
}


@dataclass(frozen=True, kw_only=True)
class MetadataColumn:
    """What a file says about a column: its declaration, or what is lacking for one.

    Args:
        name: The name of the column.
        kind: "number", "date", "category", "label" or "person"; empty where the file does not tell.
        column: The declaration; None where something is lacking.
        lacking: The keys that are lacking, such as "start" and "end".
    """

    name: str
    kind: str
    column: Column | None
    lacking: tuple[str, ...] = ()


def read_metadata(path: Path, *, of: str = "", names: Collection[str] = ()) -> list[MetadataColumn]:
    """Return what a file of metadata says about the columns of a table; no data is opened.

    Args:
        path: The file.
        of: The name of the table, which chooses where several are described.
        names: The columns of the data: one of them may be the title that a column has apart from its name.

    Raises:
        SchemaError: the file is of no known format, says something about a column that cannot be, describes a column
            twice or two of persons, or describes several tables and none, or two, of this name.
    """
    data = _parsed(path)
    found = _read(path, data, of, names) if isinstance(data, Mapping) else None
    if found is not None:
        return found
    raise SchemaError(
        f"{str(path)!r} is none of CSVW (a tableSchema), SmartNoise's YAML, a Frictionless table schema (fields) and "
        "Croissant (a recordSet); declare the columns with options instead"
    )


def _read(path: Path, data: Mapping[str, Any], of: str, names: Collection[str]) -> list[MetadataColumn] | None:
    """Return what a document says by the first format that it fits; None if it fits none."""
    message = ""
    try:
        found = next((each for each in FORMATS.values() if each.fits(data)), None)
        if found is None:
            return None
        data = _table_of(found.tables(data), of) or data
        entries = found.read(data)
        more = [each.get(OWN, {}) for each in found.columns(data)]
        columns = [_merged(_named(entry, names), own) for entry, own in zip(entries, more, strict=True)]
        _check_once(columns)
        return [_found(each) for each in columns]
    except SidelightError as error:
        message = str(error)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        message = f"it is not built as its format says ({type(error).__name__})"
    raise SchemaError(f"{str(path)!r}: {message}")


def _table_of(tables: list[tuple[str, Mapping[str, Any]]], of: str) -> Mapping[str, Any] | None:
    """Return the document of the one table, or of the one of this name: another one may name other persons."""
    if len(tables) < 2:
        return tables[0][1] if tables else None
    named = [document for name, document in tables if name.casefold() == of.casefold()]
    if len(named) == 1:
        return named[0]
    raise SchemaError(
        f"it describes {len(tables)} tables ({', '.join(name for name, _ in tables)}), and "
        f"{'none' if not named else 'more than one'} of them is named {of!r} as the data is; give the data that "
        "name, or keep one table in the file"
    )


def _named(entry: Entry, names: Collection[str]) -> Entry:
    """Return what is said about a column under the name that the data have for it, a title before the name."""
    titles = entry.pop("titles", ())
    return entry | {"name": next((each for each in titles if each in names), entry["name"])}


def _check_once(columns: Sequence[Entry]) -> None:
    """Refuse a column that is described twice, and two whose persons are to be protected."""
    named = [each["name"] for each in columns]
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise SchemaError(f"it describes the column {twice!r} twice, and which is meant cannot be known; keep one")
    persons = [repr(each["name"]) for each in columns if each.get("kind") == "person"]
    if len(persons) > 1:
        raise SchemaError(f"it says of {' and '.join(persons)} that they name the persons; keep the mark of one")


def _merged(entry: Entry, own: Mapping[str, Any]) -> Entry:
    kept = {key: value for key, value in entry.items() if key not in own.get("without", ())}
    return kept | {key: value for key, value in own.items() if key != "without"}


def _found(entry: Entry) -> MetadataColumn:
    kind = entry.get("kind", "")
    lacking = ("kind",) if not kind else tuple(key for key in _NEEDED[kind] if key not in entry)
    column = None if lacking else _column(entry)
    return MetadataColumn(name=entry["name"], kind=kind, column=column, lacking=lacking)


def _column(entry: Entry) -> Column:
    """Return the declaration; a schema of a person alone is none, so another column goes with it."""
    return Schema.from_json({"columns": [entry, {"kind": "number", "name": f"{entry['name']}'"}]}).columns[0]


def write_metadata(path: Path, columns: Sequence[Column], *, name: str) -> str:
    """Write a schema in the format that the name of the file tells, and return the name of that format.

    `.yaml` and `.yml` are SmartNoise's; of JSON files, a name with "croissant" is Croissant, one with "datapackage",
    "frictionless" or "schema" is a Frictionless table schema, and any other is CSVW.
    """
    ending, lower = path.suffix.lower(), path.name.lower()
    if ending not in (".json", ".jsonld", ".yaml", ".yml"):
        raise SchemaError(f"metadata is written to a file .json or .yaml, got {str(path)!r}; name it so")
    kind = "csvw"
    if ending in (".yaml", ".yml"):
        kind = "smartnoise"
    elif "croissant" in lower:
        kind = "croissant"
    elif any(word in lower for word in ("datapackage", "frictionless", "schema")):
        kind = "frictionless"
    document = document_of(columns, kind, name=name)
    text = json.dumps(document, indent=2, ensure_ascii=False) if kind != "smartnoise" else "\n".join(_yaml(document))
    path.write_text(text + "\n", encoding="utf-8")
    return kind


def document_of(columns: Sequence[Column], kind: str, *, name: str) -> dict[str, Any]:
    """Return a schema as a document of a format, with what it has no word for under `OWN`."""
    entries = Schema(columns).to_json()["columns"]
    found = FORMATS[kind]
    document = found.write(entries, name=name)
    for column, entry, said in zip(found.columns(document), entries, found.read(document), strict=True):
        whole = _found(_named(said, ())).column
        read = said if whole is None else Schema.from_json({"columns": [said, _OTHER]}).to_json()["columns"][0]
        own = {key: value for key, value in entry.items() if read.get(key) != value}
        without = [key for key in read if key not in entry]
        if own or without:
            column[OWN] = own | ({"without": without} if without else {})
    return document


_OTHER = {"kind": "number", "name": "another column, because a person alone is no schema"}


def _parsed(path: Path) -> Any:
    reason, text = "", ""
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix.lower() not in (".yaml", ".yml"):
            return json.loads(text, parse_float=_number, object_pairs_hook=_unique)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
    except KeyError as error:
        reason = f"the key {error.args[0]!r} is given twice, and which of them is meant cannot be known"
    except (ValueError, RecursionError):
        reason = "it is not JSON"
    if reason:
        raise SchemaError(f"the metadata {str(path)!r} cannot be read: {reason}")
    try:
        import yaml
    except ImportError:
        raise SchemaError('metadata in YAML needs PyYAML; pip install "sidelight[yaml]"') from None
    try:
        # A few lines of aliases of aliases mean a document of any size, and one of itself has no end.
        if not any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            _check_keys(yaml.compose(text, Loader=yaml.SafeLoader))
            return yaml.safe_load(text)
        reason = "it has YAML aliases (*name); write out what they stand for"
    except KeyError as error:
        reason = f"the key {error.args[0]!r} is given twice, and which of them is meant cannot be known"
    except (yaml.YAMLError, RecursionError, ValueError):
        reason = "it is not YAML"
    raise SchemaError(f"the metadata {str(path)!r} cannot be read: {reason}")


def _number(text: str) -> Decimal:
    """Return a number of JSON as it is written; refuse one whose digits would fill the memory (1e999999999)."""
    exact_number(text, name="a number of metadata")
    return Decimal(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; raise KeyError with a key that it has twice."""
    found = dict[str, Any]()
    for key, value in pairs:
        if key in found:
            raise KeyError(key)
        found[key] = value
    return found


def _check_keys(node: Any) -> None:
    """Raise KeyError with a key that a mapping of YAML has twice."""
    below = node.value if isinstance(getattr(node, "value", None), list) else []
    if below and isinstance(below[0], tuple):
        _unique([(key.value, None) for key, _ in below if isinstance(key.value, str)])
        below = [value for _, value in below]
    for each in below:
        _check_keys(each)


def _yaml(data: Mapping[str, Any], indent: str = "") -> list[str]:
    """Write tables of tables, a key to a line; what is inside is JSON, which YAML reads."""
    lines = []
    for key, value in data.items():
        inside = isinstance(value, Mapping) and value
        lines.append(f"{indent}{_quoted(key)}:" + ("" if inside else f" {_quoted(value)}"))
        lines += _yaml(value, f"{indent}  ") if inside else []
    return lines


def _quoted(value: object) -> str:
    """Write JSON whose texts YAML reads as they are: control characters and ends of lines by their numbers."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda found: f"\\u{ord(found[0]):04x}", text)
