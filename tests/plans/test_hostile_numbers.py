"""Numbers of a few characters that would take minutes to read: each is refused, or read at once, in every key."""

from __future__ import annotations

import sys
import time
import tomllib
import warnings
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import sidelight as sl
from sidelight.errors import PlanError, SidelightError
from sidelight.plans import Section, read_plan, read_query
from sidelight.plans.section import FolderResolver
from sidelight.session.query import prepare_query

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from every_kind import QUERIES, plan_of_every_kind, write_people

#: As texts, as numbers of JSON and TOML, and as whole numbers.
HOSTILE: tuple[Any, ...] = (
    *("1e12000000", Decimal("1e12000000"), "1e-3000000", Decimal("1e-3000000"), 10**4000),
    *("１e９９９９９９９９９", "٣e-٩٩٩٩٩٩٩٩٩", "1e99999999999999999999"),  # digits of other scripts, too
)
#: Of reading and preparing one section, in processor time; the slowest takes a tenth of it without a hostile number.
SECONDS = 4.0
PRIORS = {
    "cauchy": {"location": 40, "scale": 3},
    "half_cauchy": {"scale": 3},
    "laplace": {"location": 40, "scale": 3},
    "gaussian": {"mean": 40, "deviation": 3},
    "uniform": {"lower": 0, "upper": 99},
}


def replaced(value: Any, hostile: Any) -> Iterator[Any]:
    """Yield copies of a value, with one number of it replaced in each."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | Decimal) or (isinstance(value, str) and value[:1].isdecimal()):
        yield hostile
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from ({**value, key: new} for new in replaced(inner, hostile))
    elif isinstance(value, list):
        for place in {0, len(value) - 1} if value else ():
            yield from ([*value[:place], new, *value[place + 1 :]] for new in replaced(value[place], hostile))


def sections() -> Iterator[tuple[str, dict[str, Any]]]:
    for kind, text in QUERIES.items():
        yield kind, tomllib.loads(f'kind = "{kind}"\n{text}', parse_float=Decimal)
    plain = {"kind": "quantiles", "levels": [Decimal("0.5")], "column": "age", "epsilon": 1}
    for family, numbers in PRIORS.items():
        yield family, {**plain, "prediction": {"family": family, **numbers, "origin": "guess"}}
    where = "age > 1e12000000 and age < 1e-12000000"
    yield "expression", {"kind": "count", "where": where, "epsilon": 1}
    yield "statement", {"kind": "sql", "statement": f"SELECT COUNT(*) FROM people WHERE {where}", "epsilon": 1}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, sl.Schema]:
    folder = tmp_path_factory.mktemp("people")
    write_people(folder)
    return folder, plan_of_every_kind(folder).schema


def test_no_number_takes_long_to_read(people: tuple[Path, sl.Schema]) -> None:
    folder, schema = people
    resolver = FolderResolver(folder)
    tried, slow, others = 0, [], []
    for name, section in sections():
        given = [section, *(new for hostile in HOSTILE[tried % 2 :: 2] for new in replaced(section, hostile))]
        for number, values in enumerate(given):
            start = time.process_time()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    query = read_query(Section(values, resolver=resolver))
                    if number:
                        prepare_query(query, schema)
            except SidelightError:
                pass
            except Exception as error:
                others.append((name, values, repr(error)))
            tried += 1
            if number and time.process_time() - start > SECONDS:
                slow.append((name, values))
    assert tried > 100
    assert slow == []
    assert others == []


@pytest.mark.parametrize("number", ["1" * 5000, "1e99999999999999999999", "-1e-99999999999999999999"])
def test_a_number_that_python_does_not_read_is_a_mistake_in_the_plan(tmp_path: Path, number: str) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(f"[budget]\nepsilon = {number}\n", encoding="utf-8")
    with pytest.raises(PlanError, match="not valid TOML"):
        read_plan(plan)


def test_more_bins_than_a_domain_can_have_are_refused_at_once(people: tuple[Path, sl.Schema]) -> None:
    with pytest.raises(SidelightError, match="at most 10000000 bins"):
        sl.SyntheticTable(sl.marginals(1), bins={"age": 10**4000}, epsilon=1).prepare(people[1])
