"""On an engine that hands no rows over, every kind of query gives its usual release, or nothing is charged."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import sidelight as sl
from away_rows import AwayRows, away_table
from report.every_kind import COLUMNS, QUERIES, write_people
from sidelight.errors import SourceError
from sidelight.plans import read_plan
from sidelight.records import Table
from sidelight.testing import seeded_release

#: Kinds that look at rows one by one. A new one needs a reason, or an aggregate.
ONE_BY_ONE = {"linear_svc"}
MORE = {
    "quantiles by group": ("quantiles", 'column = "income"\nlevels = [0.5]\nby = "sex"\nepsilon = 0.5'),
    "quantiles with a condition": (
        "quantiles",
        'column = "age"\nlevels = [0.1, 0.5]\nwhere = "income > 30000"\nepsilon = 1',
    ),
    "histogram with bins of its own": ("histogram", 'column = "age"\nbins = 4\nepsilon = 2'),
    "covariance about the mean": (
        "covariance",
        'columns = ["age", "height"]\nradius = 300\ncentre = "mean"\nepsilon = 2\ndelta = 1e-6',
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    write_people(folder)
    return folder


@pytest.fixture(scope="module")
def people(folder: Path) -> pa.Table:
    from pyarrow import csv

    return csv.read_csv(folder / "people.csv")


@pytest.mark.parametrize("name", [*QUERIES, *MORE])
def test_every_kind_gives_the_same_release_or_is_refused_before_the_charge(
    name: str, folder: Path, people: pa.Table
) -> None:
    kind, text = MORE.get(name, (name, QUERIES.get(name, "")))
    path = folder / f"{name}.toml"
    head = f'[source]\npath = "people.csv"\n{COLUMNS}[budget]\nepsilon = 60\ndelta = 1e-4\n'
    path.write_text(f'{head}\n[[query]]\nkind = "{kind}"\n{text}\n', encoding="utf-8")
    plan = read_plan(path)
    query, table = plan.queries[0].query, away_table(people, plan.schema)
    if name in ONE_BY_ONE:
        session = sl.Session(table, budget=sl.ApproxDP(60, 1e-4))
        before = str(session.spent)
        with pytest.raises(SourceError, match="Nothing was charged"):
            session.release(query)
        assert str(session.spent) == before
        return
    expected = seeded_release(query, Table(people, schema=plan.schema), seed=3)
    found = seeded_release(query, table, seed=3)
    assert repr(getattr(found, "value", found)) == repr(getattr(expected, "value", expected))


def test_what_needs_single_rows_is_refused_before_the_charge(people: pa.Table) -> None:
    schema = [
        sl.Number("height", lower=100, upper=250),
        sl.Number("age"),
        sl.Category("sex", ["F", "M"]),
        sl.Label("job"),
    ]
    table = away_table(people, schema)
    refused = [
        sl.Count(by="job", epsilon=1, delta=1e-6),
        sl.Mean("height", by="job", epsilon=1, delta=1e-6),
        sl.Covariance(["height", "age"], radius=300, centre="pairs", epsilon=1, delta=1e-6),
        sl.CountDistinct("job", epsilon=1),
        sl.Mean("height", by="sex", clip="by_group", epsilon=1),
        sl.Sum("height", by="sex", clip="by_group", epsilon=1),
    ]
    for query in refused:
        session = sl.Session(table, budget=sl.ApproxDP(9, 1e-3))
        before = str(session.spent)
        with pytest.raises(SourceError, match="'away' only adds rows up"):
            session.release(query)
        assert str(session.spent) == before
    assert isinstance(table.rows, AwayRows)
    assert table.rows.asked == 0
