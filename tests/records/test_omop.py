"""The OMOP preset on a small generated data set: persons, visits and concepts, and what it leaves out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import sidelight as sl
from sidelight.errors import SchemaError
from sidelight.guarantees import PersonOf

PERSONS, VISITS = 40, 90
CONCEPTS = {8507: "male", 8532: "female", 9201: "inpatient", 9202: "outpatient", 11: "statin", 12: "opioid"}
TABLES = ["person", "visit_occurrence", "drug_exposure", "death", "concept"]


def generated() -> dict[str, dict[str, list[Any]]]:
    persons = list(range(1, PERSONS + 1))
    visits = list(range(VISITS))
    drugs = list(range(150))
    return {
        "person": {"person_id": persons, "gender_concept_id": [(8507, 8532)[each % 2] for each in persons]},
        "visit_occurrence": {
            "visit_occurrence_id": visits,
            "person_id": [1 + each * each % PERSONS for each in visits],
            "visit_concept_id": [(9201, 9202)[each % 3 == 0] for each in visits],
        },
        "drug_exposure": {
            "drug_exposure_id": drugs,
            "person_id": [1 + (each % VISITS) ** 2 % PERSONS for each in drugs],
            "visit_occurrence_id": [each % VISITS if each % 5 else None for each in drugs],
            "drug_concept_id": [(11, 12)[each % 2] for each in drugs],
        },
        "death": {"person_id": [3, 4]},
        "concept": {"concept_id": list(CONCEPTS), "concept_name": list(CONCEPTS.values())},
    }


def hospital(source: Any = None, **changed: Any) -> sl.Database:
    given: dict[str, Any] = {
        "tables": TABLES,
        "max_rows": {"visit_occurrence": 90, "drug_exposure": 150},
        "columns": {"concept": [sl.Category("concept_name", [*CONCEPTS.values()])]},
    }
    return sl.omop(generated() if source is None else source, **given | changed)


def test_counts_and_features_are_those_of_the_rows() -> None:
    data = generated()
    database = hospital()
    session = sl.Session(database, budget=sl.PureDP(900_000))
    by_code = sl.Count(by="concept.concept_name", of="rows", max_groups=2, max_rows_per_group=150, epsilon=100_000)
    found = session.release(by_code, of="drug_exposure")
    assert found.guarantee.unit == PersonOf("omop")
    counts = dict(zip(found.value["concept.concept_name"], map(round, found.value["count"]), strict=True))
    assert (counts["statin"], counts["opioid"]) == (75, 75)
    inside = session.release(
        sl.Count(where=sl.col("visit_occurrence.concept.concept_name") == "inpatient", of="rows", epsilon=100_000),
        of="drug_exposure",
    )
    named = zip(data["drug_exposure"]["visit_occurrence_id"], data["drug_exposure"]["person_id"], strict=True)
    wanted = sum(visit is not None and visit % 3 != 0 for visit, _ in named)
    assert round(float(inside.value["count"][0])) == wanted
    people = sl.per_person(database, of="person", visits=sl.fold.count("visit_occurrence", upper=90))
    mean = session.release(sl.Mean("visits", epsilon=100_000), of=people).value["mean"][0]
    assert float(mean) == pytest.approx(
        sum(Counter(data["visit_occurrence"]["person_id"]).values()) / PERSONS, abs=0.01
    )


def test_files_of_a_folder(tmp_path: Path) -> None:
    for name, columns in generated().items():
        rows = ["" if each is None else str(each) for row in zip(*columns.values(), strict=True) for each in row]
        width = len(columns)
        lines = [",".join(rows[at : at + width]) for at in range(0, len(rows), width)]
        (tmp_path / f"{name}.csv").write_text("\n".join([",".join(columns), *lines, ""]), encoding="utf-8")
    session = sl.Session(hospital(tmp_path), budget=sl.PureDP(900_000))
    count = session.release(sl.Count(of="rows", epsilon=100_000), of="drug_exposure").value["count"][0]
    assert round(float(count)) == 150
    (tmp_path / "death.csv").unlink()
    with pytest.raises(SchemaError, match=r"'death.parquet' or 'death.csv', and 0 are there"):
        hospital(tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tables": [*TABLES, "provider"]}, "a provider is a person too"),
        ({"tables": [*TABLES, "vist_occurrence"]}, "did you mean 'visit_occurrence'"),
        ({"max_rows": {"visit_occurrence": 3}}, "how many rows of one person in 'drug_exposure' count"),
        ({"max_rows": {"visit_occurrence": 3, "drug_exposure": 3, "person": 2}}, "one row a person"),
        ({"columns": {"measurement": [sl.Number("value_as_number")]}}, "is not among tables"),
        (
            {"tables": ["person", "measurement"], "columns": {}, "max_rows": {"measurement": 2}},
            "no table 'measurement'",
        ),
    ],
)
def test_what_is_not_declared_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        hospital(**changed)
