"""What a source cannot give is said before the charge: every query, on a file with persons, runs or is refused free."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.baselines.posterior_sampling import BalancedOPS, OutputPerturbation

import sidelight as sl
from probes import PreparedProbe
from sidelight.errors import SidelightError, SourceError
from sidelight.guarantees import ZCDP, Claims, Person, PureDP
from sidelight.noise import Source
from sidelight.published.adaops import AdaOPS
from sidelight.published.stable_logistic import StableLogistic
from sidelight.records import Schema, Table
from sidelight.regression.model_query import ModelQuery
from sidelight.session import Answer
from sidelight.session.accounts import OneOffAccount
from sidelight.session.pipeline import release_through
from sidelight.session.query import Prepared, PublicSource
from sidelight.stability import StablePCA
from sidelight.testing import SeededEntropy, SeededSession

_RNG = np.random.default_rng(5)
_ROWS = np.concatenate([_RNG.normal(-5, 1, (150, 2)), _RNG.normal(5, 1, (150, 2))])
_COLUMNS = {
    "a": _ROWS[:, 0],
    "b": _ROWS[:, 1],
    "c": np.where(_RNG.random(300) < 0.5, "x", "y"),
    "who": np.arange(300) // 2,
}
_FEW, _MANY = _ROWS[::20], _ROWS[::5]
_FIT: dict[str, Any] = {"features": ["a"], "target": "b", "feature_norm": 10, "epsilon": 2, "delta": "1e-6"}

QUERIES: dict[str, Any] = {
    "quantiles": sl.Quantiles([0.5], epsilon=1, column="a"),
    "covariance": sl.Covariance(["a", "b"], radius=10, rho="0.5"),
    "covariance of pairs": sl.Covariance(["a", "b"], radius=10, rho="0.5", centre="pairs"),
    "gaussian": sl.GaussianFit(["a", "b"], prediction=_FEW, rho="0.5"),
    "gaussian by ranges": sl.GaussianFit(["a", "b"], mean_bound=100, variance_bound=100, rho="0.5"),
    "gaussian mean": sl.GaussianMean(["a", "b"], prediction=_FEW, covariance=np.eye(2), rho="0.5"),
    **{
        f"mixture, {method}": sl.SeparatedMixture(["a", "b"], components=2, prediction=public, rho=2, method=method)
        for method, public in (("project-link-verify", _FEW), ("recursive", _FEW), ("public-cluster", _MANY))
    },
    "synthetic table": sl.SyntheticTable(sl.marginals(2), rho="0.5", bins={"a": 4, "b": 4}),
    "ridge regression": sl.AdaSSP(features=["a"], target="b", feature_norm=10, mu=1),
    "logistic regression": ModelQuery(
        model=sl.LogisticRegression(epsilon=1, delta="1e-6", classes=["x", "y"]), target="c"
    ),
    "stable logistic": StableLogistic(
        features=["a", "b"], target="c", feature_norm=15, epsilon=2, delta="1e-6", rows_at_most=1000
    ),
    "stable median": sl.StableMedian("a", epsilon=2, delta="1e-3"),
    "stable mode": sl.StableMode("c", epsilon=2, delta="1e-3"),
    "stable components": StablePCA(columns=["a", "b"], components=1, radius=10, epsilon=2, delta="1e-6"),
    "posterior sample": AdaOPS(**_FIT),
    "balanced sample": BalancedOPS(**_FIT, rows_at_most=1000),
    "output perturbation": OutputPerturbation(**_FIT, rows_at_most=1000),
}
LATE = "charged, then refused"


class FileRefuser:
    """Negative control: a query that cannot read files and says so only in `run`."""

    def prepare(self, schema: Schema) -> Prepared:
        return PreparedProbe(claims=Claims.of(PureDP(1)), request={"kind": "refuser"}, function=self._run)

    @staticmethod
    def _run(table: Table, source: Source) -> Answer:
        if table.rows.length is None:
            raise SourceError("no files")
        return Answer(value=0)


def _schema(most: int) -> list[Any]:
    return [
        sl.Number("a", lower=-10, upper=10, granularity="0.5"),
        sl.Number("b", lower=-10, upper=10),
        sl.Category("c", ["x", "y"], other=None),
        sl.PersonId("who", max_rows=most),
    ]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("files") / "rows.parquet"
    pd.DataFrame(_COLUMNS).to_parquet(made)
    return made


def _course(query: Any, table: Table) -> str:
    """Say how a release goes: "answered", "refused free", or `LATE`."""
    charged: list[bool] = []

    class Account(OneOffAccount):
        def reserve(self, *given: Any, **named: Any) -> Any:
            charged.append(True)
            return super().reserve(*given, **named)

    try:
        release_through(query, table, Account(), entropy=SeededEntropy(1))
    except SidelightError:
        return LATE if charged else "refused free"
    return "answered"


@pytest.mark.parametrize("name", QUERIES)
def test_no_query_is_charged_for_a_file_with_persons_that_it_cannot_read(name: str, path: Path) -> None:
    courses = {_course(QUERIES[name], sl.Table(path, schema=_schema(most))) for most in (1, 2)}
    assert LATE not in courses
    if name.startswith("mixture"):
        assert courses == {"refused free"}
        assert _course(QUERIES[name], sl.Table(_COLUMNS, schema=_schema(2))) == "answered"


def test_the_course_of_a_late_refusal_is_seen(path: Path) -> None:
    assert _course(FileRefuser(), sl.Table(path, schema=_schema(1))) == LATE
    assert _course(FileRefuser(), sl.Table(_COLUMNS, schema=_schema(1))) == "answered"


def test_a_session_charges_nothing_for_a_refused_mixture_alone_or_in_a_batch(path: Path) -> None:
    session = SeededSession(sl.Table(path, schema=_schema(2)), budget=ZCDP(5, unit=Person("who", 2)), seed=1)
    mixture = QUERIES["mixture, recursive"]
    with pytest.raises(SourceError, match=r"in memory.*Nothing was charged"):
        session.release(mixture)
    with pytest.raises(SourceError, match="in memory"):
        session.release_together([QUERIES["covariance"], mixture], delta="1e-6")
    assert "Σρ 0 of" in str(session.spent)
    session.release(QUERIES["covariance"])
    assert "Σρ 0 of" not in str(session.spent)  # the control: a charge would have shown


def test_rows_that_were_brought_are_asked_about_and_the_sessions_are_not(path: Path) -> None:
    from_file = sl.Table(path, schema=_schema(2))
    in_memory = sl.Table(_COLUMNS, schema=_schema(2))
    budget = ZCDP(5, unit=Person("who", 2))
    session = SeededSession(in_memory, budget=budget, seed=1)
    model = sl.GaussianMixture(2, prediction=_FEW, rho=2, session=session)
    with pytest.raises(SourceError, match="in memory"):
        model.fit(from_file)
    assert "Σρ 0 of" in str(session.spent)
    assert not hasattr(model, "n_features_in_")
    model.set_params(session=SeededSession(from_file, budget=budget, seed=1)).fit(in_memory)
    assert model.outcome_ is not None


def test_the_description_of_a_source_has_no_number_of_rows(path: Path) -> None:
    assert [field.name for field in fields(PublicSource)] == ["schema", "engine", "in_memory", "name"]
    short, long = ({name: column[:rows] for name, column in _COLUMNS.items()} for rows in (2, 300))
    assert PublicSource.of(sl.Table(short, schema=_schema(1))) == PublicSource.of(sl.Table(long, schema=_schema(1)))
    assert not PublicSource.of(sl.Table(path, schema=_schema(1))).in_memory
