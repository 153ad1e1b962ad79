"""Schemas to other tools' metadata and back: does any declaration change, and does each format say what it can say?

Schemas of all kinds of columns are drawn, written in each of four formats by `sidelight init --write-metadata`'s own
function, and read again. A difference is a column that is not equal afterwards. Then what stands under our own key is
taken away, as another tool would leave it, and what the format has words for must still be there; where `csvw-eo` is
installed, its reader has to take the CSVW document.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import sized
from sidelight.metadata import read_metadata, write_metadata
from sidelight.metadata.files import FORMATS, OWN
from sidelight.records import Category, Column, Date, Drop, Fill, Label, Number, PersonId

SCHEMAS = sized(250, 5)
FILES = {"csvw": "a.json", "smartnoise": "a.yaml", "frictionless": "a.schema.json", "croissant": "a.croissant.json"}
#: What each format says in its own words, by the kind of the column.
SAID: Mapping[str, Mapping[str, Sequence[str]]] = {
    "csvw": {
        "number": ("lower", "upper", "decimal", "thousands", "missing_texts"),
        "date": ("start", "end", "unit", "missing_texts"),
        "category": ("categories", "per_person", "missing_texts"),
        "person": ("max_rows", "missing_texts"),
    },
    "smartnoise": {"number": ("lower", "upper"), "person": ("max_rows",)},
    "frictionless": {
        "number": ("lower", "upper", "decimal", "thousands", "missing_texts"),
        "date": ("start", "end", "unit", "missing_texts"),
        "category": ("categories", "missing_texts"),
    },
    "croissant": {"number": (), "category": ("categories",)},
}


def draw_schema(seed: int) -> list[Column]:
    """Return columns of all kinds with drawn declarations."""
    draw = np.random.default_rng(seed)

    def maybe(value: Any, otherwise: Any) -> Any:
        return value if draw.random() < 0.5 else otherwise

    texts = maybe(["k.A.", "n/a", "999"][: int(draw.integers(1, 4))], [])
    low = maybe(int(draw.integers(-99, 99)), maybe("0.25", None))
    number = Number(
        maybe("cost", 'odd "name"/1'),
        lower=low,
        upper=maybe(int(draw.integers(100, 10**6)), maybe("1e3", None)),
        granularity=maybe(1, maybe("0.01", None)),
        missing=maybe(Fill(100) if low is not None else Drop(), None),
        decimal=maybe(",", None),
        thousands=maybe(" ", None),
        missing_texts=texts,
    )
    unit = maybe("day", "hour")
    forms = [["%d.%m.%Y"], ["%d/%m/%Y %H:%M", "iso"], ["%Y-%m-%dT%H:%M"], []][int(draw.integers(4))]
    day = Date("day", start="2020-01-01", end="2025-12-31", unit=unit, formats=forms, missing_texts=maybe(texts, []))
    labels = [f"label {place}" for place in range(int(draw.integers(2, 9)))]
    category = Category(
        "sex",
        labels,
        other=maybe("other", maybe("rest", None)),
        missing=maybe(Fill(labels[0]), None),
        per_person=maybe(2, None),
        aliases=maybe({labels[1]: ["1", "zwei"]}, None),
        casefold=maybe(True, False),
        strip=maybe(True, False),
        missing_texts=maybe(["?"], []),
    )
    columns: list[Column] = [number, day, category, Label("drug", casefold=maybe(True, False), missing_texts=texts)]
    if draw.random() < 0.7:
        columns.append(PersonId("who", max_rows=int(draw.integers(1, 20)), strip=maybe(True, False)))
    order = draw.permutation(len(columns))
    return [columns[place] for place in order]


def differences(columns: Sequence[Column], kind: str, folder: Path) -> int:
    """Count the columns that differ after a round trip, and what a format could have said and did not."""
    path = folder / FILES[kind]
    assert write_metadata(path, columns, name="table") == kind
    found = read_metadata(path)
    wrong = sum(each.column != column for each, column in zip(found, columns, strict=True))
    if kind == "csvw" and find_spec("csvw_eo"):
        wrong += _refused_by_csvw_eo(path)
    return wrong + _unsaid(path, columns, kind)


def _unsaid(path: Path, columns: Sequence[Column], kind: str) -> int:
    """Take our own key away and count what is lost that the format has a word for."""
    from sidelight.records import Schema

    text = path.read_text(encoding="utf-8")
    if path.suffix == ".yaml":
        import yaml

        document = yaml.safe_load(text)
    else:
        document = json.loads(text)
    for each in FORMATS[kind].columns(document):
        each.pop(OWN, None)
    said = FORMATS[kind].read(document)
    whole = Schema(columns).to_json()["columns"]
    lost = 0
    for entry, column in zip(said, whole, strict=True):
        for key in SAID[kind].get(column["kind"], ()):
            lost += column.get(key) != entry.get(key)
    return lost


def _refused_by_csvw_eo(path: Path) -> int:
    from csvw_eo.validate_metadata import validate_metadata

    document = json.loads(path.read_text(encoding="utf-8"))
    for column in document["tableSchema"]["columns"]:
        if isinstance(column["datatype"], dict):  # the standard's, which that reader does not know
            column["datatype"] = column["datatype"]["base"]
    try:
        validate_metadata(document)
    except Exception:
        return 1
    return 0


def measure() -> Mapping[str, float]:
    """Count what differs over all schemas and formats."""
    differs = 0
    with tempfile.TemporaryDirectory() as name:
        for seed in range(SCHEMAS):
            columns = draw_schema(seed)
            differs += sum(differences(columns, kind, Path(name)) for kind in FILES)
    return {"differs": float(differs), "schemas": float(SCHEMAS), "formats": float(len(FILES))}


if __name__ == "__main__":
    print(measure())
