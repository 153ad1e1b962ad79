"""The file of the private table as public rows: refused by its name, wherever in a query it stands, and never read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.session.pipeline import refuse_own_file

SCHEMA = [
    sl.Number("a", lower=-1, upper=1),
    sl.Number("b", lower=-1, upper=1),
    sl.Category("c", ["x", "y"], other=None),
]
PRICE: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}


def written(path: Path) -> Path:
    rng = np.random.default_rng(len(path.name))
    rows = [f"{a:.3f},{b:.3f},{'xy'[int(a > 0)]}" for a, b in rng.uniform(-1, 1, (80, 2))]
    path.write_text("\n".join(["a,b,c", *rows, ""]))
    return path


@pytest.fixture
def private(tmp_path: Path) -> Path:
    return written(tmp_path / "private.csv")


def linked(path: Path, how: str) -> str:
    other = path.with_name(f"{how}.csv")
    if how == "symbolic":
        other.symlink_to(path)
    elif how == "hard":
        os.link(path, other)
    elif how == "dots":
        return str(path.parent / ".." / path.parent.name / path.name)
    elif how == "pattern":
        return str(path.parent / "priv*.csv")
    elif how == "folder":
        return str(path.parent)
    elif how == "relative":
        return os.path.relpath(path)
    else:
        return str(path)
    return str(other)


@pytest.mark.parametrize("how", ["same", "symbolic", "hard", "dots", "pattern", "folder", "relative"])
def test_every_name_of_the_file_is_refused(private: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(private.parent)
    public = sl.PublicData(linked(private, how), "published rows")
    session = sl.Session(sl.Table(private, schema=SCHEMA), budget=sl.ApproxDP(10, "1e-4"))
    spent = str(session.spent)
    with pytest.raises(RangeError, match="file of the private table"):
        session.release(sl.ModelQuery(model=sl.LinearRegression(**PRICE, prediction=public), target="b"))
    assert str(session.spent) == spent


def _one(rows: Any) -> Any:
    """Keep one column in the file, and say that these are its rows."""
    lines = Path(rows.rows).read_text().splitlines()
    Path(rows.rows).write_text("\n".join([line.split(",")[0] for line in lines] + [""]))
    return rows


QUERIES: dict[str, Callable[[Any], Any]] = {
    "model": lambda rows: sl.ModelQuery(model=sl.LogisticRegression(**PRICE, prediction=rows), target="c"),
    "several": lambda rows: sl.ModelQuery(model=sl.LinearRegression(**PRICE, prediction=[rows]), target="b"),
    "gaussian": lambda rows: sl.GaussianFit(["a", "b"], prediction=rows, rho="0.5"),
    "covariance": lambda rows: sl.Covariance(["a", "b"], radius=2, rho="0.5", prediction=rows),
    "mixture": lambda rows: sl.SeparatedMixture(["a", "b"], components=1, prediction=rows, rho=1),
    "synthetic": lambda rows: sl.SyntheticTable(rho="0.5", bins={"a": 2, "b": 2}, prediction=rows),
    "synthetic, path": lambda rows: sl.SyntheticTable(rho="0.5", bins={"a": 2, "b": 2}, prediction=rows.rows),
    "quantiles": lambda rows: sl.Quantiles(
        [0.5], column="a", epsilon=1, prediction=sl.quantiles.fit_public(_one(rows), levels=[0.5], size=1000)
    ),
    "selection": lambda rows: sl.Selection(
        candidates=[sl.ModelQuery(model=sl.LinearRegression(**PRICE, prediction=rows), target="b")] * 2,
        score=sl.PublicScore(lambda value: 0.0, "nothing"),
        delta="1e-6",
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_that_takes_public_rows_refuses_its_own_file(private: Path, name: str) -> None:
    table = sl.Table(private, schema=SCHEMA)
    with pytest.raises(RangeError, match="file of the private table"):
        sl.Session(table, budget=sl.ApproxDP(10, "1e-2")).release(
            QUERIES[name](sl.PublicData(private, "published rows"))
        )


def test_another_file_is_taken(private: Path) -> None:
    public = sl.PublicData(written(private.with_name("published.csv")), "published rows")
    table = sl.Table(private, schema=SCHEMA)
    sl.GaussianFit(["a", "b"], prediction=public, rho="0.5").release(table)


def test_a_fit_of_a_table_refuses_its_own_file(private: Path) -> None:
    table = sl.Table(private, schema=SCHEMA)
    session = sl.Session(table, budget=sl.ApproxDP(10, "1e-4"))
    model = sl.LinearRegression(**PRICE, session=session, prediction=sl.PublicData(private, "published rows"))
    with pytest.raises(RangeError, match="file of the private table"):
        model.fit_table(table, target="b")


class OwnRegression(sl.LinearRegression):
    """A model of a user's own class."""


def test_a_model_of_a_class_of_its_own_is_looked_into(private: Path) -> None:
    model = OwnRegression(**PRICE, prediction=sl.PublicData(private, "published rows"))
    session = sl.Session(sl.Table(private, schema=SCHEMA), budget=sl.ApproxDP(10, "1e-4"))
    with pytest.raises(RangeError, match="file of the private table"):
        session.release(sl.ModelQuery(model=model, target="b"))


class Disguised(sl.PublicData):
    """Public rows that say they are a text."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return str


def test_what_an_object_says_of_its_class_is_not_asked(private: Path) -> None:
    with pytest.raises(RangeError, match=r"must be sl.PublicData itself"):
        sl.GaussianFit(["a", "b"], prediction=Disguised(private, "published rows"), rho="0.5")
    with pytest.raises(RangeError, match="file of the private table"):
        refuse_own_file([Disguised(private, "published rows")], sl.Table(private, schema=SCHEMA))
