"""Additive models as users meet them: what they learn, what they refuse, and that no data makes a fit fail."""

from __future__ import annotations

import warnings
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, clone

import sidelight as sl
from away_rows import away_table
from sidelight.errors import NotPrivateWarning, RangeError, SchemaError, WeakFitWarning
from sidelight.regression.additive import fine_codes
from sidelight.regression.additive.fine_codes import KEPT_BYTES, AdditiveExamples
from sidelight.regression.model_query import ModelQuery
from sidelight.testing import seeded_release
from sidelight.testing.seeded import SeededSession

PRICE: dict[str, Any] = {"epsilon": 2, "delta": "1e-6"}
AGE, PLAN = sl.Number("age", lower=0, upper=100), sl.Category("plan", ["free", "team", "firm"], other=None)
COLUMNS = [AGE, PLAN]


def people(count: int = 4000, seed: int = 1) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.uniform(0, 100, count), "plan": rng.choice(["free", "team", "firm"], count)})
    y = np.abs(frame["age"] - 50) / 10 + np.where(frame["plan"] == "team", 2.0, 0.0) + rng.normal(0, 0.3, count)
    return frame, y.to_numpy()


def regressor(**more: Any) -> sl.AdditiveRegressor:
    settings: dict[str, Any] = {**PRICE, "columns": COLUMNS, "target_range": (0, 10), "random_state": 3} | more
    return sl.AdditiveRegressor(**settings)


def classifier(**more: Any) -> sl.AdditiveClassifier:
    settings: dict[str, Any] = {**PRICE, "columns": COLUMNS, "classes": ["no", "yes"], "random_state": 3} | more
    return sl.AdditiveClassifier(**settings)


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        warnings.simplefilter("ignore", WeakFitWarning)
        yield


class TestModels:
    def test_it_learns_a_curve_and_a_table(self) -> None:
        frame, y = people()
        model = regressor().fit(frame, y)
        new, wanted = people(1000, seed=2)
        assert np.mean((model.predict(new) - wanted) ** 2) < 0.15 * wanted.var()
        line = sl.LinearRegression(**PRICE, target_range=(0, 10), random_state=3)
        table = sl.Table(frame.assign(y=y), schema=[*COLUMNS, sl.Number("y", lower=0, upper=10)])
        assert np.mean((line.fit_table(table, target="y").predict(new) - wanted) ** 2) > 0.5 * wanted.var()
        curve = model.curve("age")
        assert curve.values[0] > 1
        assert curve.values[-1] > 1
        assert curve.values[len(curve.values) // 2] < 0
        assert len(curve.edges) == len(curve.values) + 1
        assert curve.sentence().startswith("age: falls from")
        assert (
            model.curve("plan").sentence().endswith("most for team (+1.34)") or "team" in model.curve("plan").sentence()
        )
        assert abs(sum(each.share for each in model.curves_.values()) - 1) < 1e-9
        with pytest.raises(SchemaError, match="no column"):
            model.curve("agee")
        figure = model.plot()
        panels = [panel for panel in figure.axes if panel.get_visible()]
        assert len(panels) == 5  # shares, and each column with its counts
        assert len([panel for panel in model.plot(["age"]).axes if panel.get_visible()]) == 3
        assert panels[1].get_ylim() == panels[2].get_ylim()

    def test_contributions_and_intercept_add_up(self) -> None:
        frame, y = people(1500)
        model = regressor().fit(frame, y)
        odd = pd.DataFrame({"age": [np.nan, np.inf, -5.0, 50.0], "plan": ["free", None, "none", "firm"]})
        parts = model.contributions(odd)
        assert parts.shape == (4, 2)
        np.testing.assert_allclose(model.intercept_ + parts.sum(axis=1), model.decision_function(odd))
        assert ((model.predict(odd) >= 0) & (model.predict(odd) <= 10)).all()
        assert parts[2, 1] == 0  # an unknown label adds nothing
        binary = classifier().fit(frame, np.where(y > 3, "yes", "no"))
        both = binary.predict_proba(frame)
        np.testing.assert_allclose(both.sum(axis=1), 1)
        np.testing.assert_allclose(np.log(both[:, 1] / both[:, 0]), binary.decision_function(frame), atol=1e-6)
        assert binary.score(frame, np.where(y > 3, "yes", "no")) > 0.85

    def test_every_kind_of_rows_gives_the_same_model(self) -> None:
        frame, y = people(800)
        expected = regressor().fit(frame, y).release_.value["tables"]
        cells = frame.to_numpy(dtype=object)
        given: list[Any] = [pl.from_pandas(frame), pa.Table.from_pandas(frame), {c: frame[c] for c in frame}, cells]
        for rows in given:
            np.testing.assert_array_equal(regressor().fit(rows, y).release_.value["tables"], expected)
        model = regressor()
        assert clone(model).get_params() == model.get_params()
        assert not hasattr(clone(model.fit(frame, y)), "curves_")

    def test_missing_numbers_have_a_cell_of_their_own(self) -> None:
        frame, y = people()
        frame.loc[::4, "age"] = np.nan
        y = np.where(frame["age"].isna(), 9.0, y)
        kept = regressor().fit(frame, y)
        there = kept.curve("age").missing
        assert there is not None
        assert there > 3
        dropped = regressor(on_missing="drop").fit(frame, y)
        assert dropped.curve("age").missing is None
        assert dropped.intercept_ < kept.intercept_
        filled = [sl.Number("age", lower=0, upper=100, missing=sl.Fill(20)), PLAN]
        assert regressor(columns=filled).fit(frame, y).curve("age").missing is None

    def test_monotone_columns_only_rise(self) -> None:
        frame, y = people(1500)
        model = regressor(monotone={"age": "increasing"}).fit(frame, y)
        grid = {"age": np.linspace(0, 100, 300), "plan": ["free"] * 300}
        assert (np.diff(model.decision_function(grid)) >= -1e-9).all()
        assert model.release_.query["monotone"] == {"age": "increasing"}
        with pytest.raises(RangeError, match="numeric column"):
            regressor(monotone={"plan": "increasing"}).fit(frame, y)
        with pytest.raises(RangeError, match="monotone of"):
            regressor(monotone={"age": "up"}).fit(frame, y)


class TestRefusals:
    def test_what_is_missing_is_named_before_anything_is_charged(self) -> None:
        frame, y = people(50)
        for name in ("epsilon", "delta", "columns", "target_range"):
            with pytest.raises(RangeError, match=name):
                regressor(**{name: None}).fit(frame, y)
        several = classifier(classes=["a", "b", "c"], monotone={"age": "increasing"})
        with pytest.raises(RangeError, match="two classes"):
            several.fit(frame, np.full(50, "a"))
        for wrong, match in (
            ({"lines": "some"}, "lines"),
            ({"on_missing": "raise"}, "on_missing"),
            ({"rows": 0}, "rows"),
        ):
            with pytest.raises(RangeError, match=match):
                regressor(**wrong).fit(frame, y)
        with pytest.raises(SchemaError, match="no column 'plan'"):
            regressor().fit(frame[["age"]], y)
        with pytest.raises(SchemaError, match="public range"):
            regressor(columns=[sl.Number("age"), PLAN]).fit(frame, y)
        many = [sl.Number(f"x{i}", lower=0, upper=1) for i in range(1001)]
        with pytest.raises(RangeError, match="1 to 1000 columns"):
            regressor(columns=many).fit(np.zeros((3, 1001)), np.zeros(3))
        wide = [sl.Category("w", [str(i) for i in range(20000)])]
        with pytest.raises(RangeError, match="labels"):
            regressor(columns=wide).fit({"w": ["1"]}, [1.0])
        table = sl.Table(frame, schema=COLUMNS)
        with pytest.raises(SchemaError, match="fit_table"):
            regressor().fit(table, y)


#: Every public estimator with a parameter `columns`, and how one that takes these columns is made.
TAKES_COLUMNS = {
    "AdditiveClassifier": lambda **more: classifier(**more),
    "AdditiveRegressor": lambda **more: regressor(**more),
    "TableEncoding": lambda columns, **_: sl.TableEncoding(columns),
}


class TestColumnsAreFeatures:
    """Persons among `columns=` capped rows, and the fit was priced and stated for a row."""

    OTHERS = (
        sl.PersonId("who", max_rows=1),
        sl.PersonVia("who", to="people", max_rows=1),
        sl.Label("who"),
        sl.Key("who"),
        sl.Reference("who", to="people"),
    )

    def test_every_public_estimator_that_takes_columns_is_tested(self) -> None:
        public = {name: getattr(sl, name) for name in sl.__all__}
        made = {
            name: each for name, each in public.items() if isinstance(each, type) and issubclass(each, BaseEstimator)
        }
        assert len(made) >= 11
        declared = {"columns", "schema", "encoding"}
        assert {name for name, each in made.items() if declared & set(signature(each).parameters)} == set(TAKES_COLUMNS)

    @pytest.mark.parametrize("name", sorted(TAKES_COLUMNS))
    @pytest.mark.parametrize("other", OTHERS, ids=[type(each).__name__ for each in OTHERS])
    def test_whatever_is_no_feature_is_refused_before_any_charge(self, name: str, other: Any) -> None:
        frame, y = people(100)
        frame = frame.assign(who=np.arange(100) // 2)
        session = SeededSession(sl.Table(frame, schema=COLUMNS), budget=sl.ApproxDP(5, 1e-4), seed=4)
        before = str(session.spent)
        for columns in ([*COLUMNS, other], [other, *COLUMNS]):
            for own in (None, session):
                model = TAKES_COLUMNS[name](columns=columns, session=own, random_state=None)
                with pytest.raises(SchemaError, match=f"got {type(other).__name__}; .*Nothing was charged"):
                    model.fit(frame, y)
        if name != "TableEncoding":
            with pytest.raises(SchemaError, match=f"got {type(other).__name__}; "):
                TAKES_COLUMNS[name](columns=[*COLUMNS, other]).forecast(rows=100, draws=1)
        assert str(session.spent) == before

    def test_persons_are_sent_to_a_table(self) -> None:
        frame, y = people(100)
        with pytest.raises(SchemaError, match="declare them in the table of a session and write fit_table"):
            regressor(columns=[*COLUMNS, sl.PersonId("who", max_rows=1)]).fit(frame.assign(who="p"), y)

    def test_dates_are_features(self) -> None:
        days = pd.date_range("2024-01-01", periods=200).to_numpy()
        columns = [sl.Date("day", start="2024-01-01", end="2024-12-31")]
        model = regressor(columns=columns).fit({"day": days}, np.linspace(0, 10, 200))
        assert model.feature_names_in_.tolist() == ["day"]


@pytest.mark.parametrize("kind", ["number", "classes"])
@pytest.mark.parametrize("lines", ["auto", "none"])
def test_no_data_makes_a_fit_fail(kind: str, lines: str) -> None:
    rng = np.random.default_rng(5)
    some = rng.uniform(0, 100, 60)
    sets: dict[str, tuple[Any, Any]] = {
        "none": (np.empty(0), np.empty(0, object)),
        "one": ([50.0], ["free"]),
        "one value": (np.full(60, 50.0), np.full(60, "free")),
        "all missing": (np.full(60, np.nan), np.full(60, "firm")),
        "one end": (np.full(60, 100.0), np.full(60, "team")),
        "one step below the end": (np.full(60, np.nextafter(100.0, 0)), np.full(60, "team")),
        "infinite": (np.where(np.arange(60) % 2, np.inf, -np.inf), np.full(60, "free")),
        "unknown labels": (some, np.full(60, "else")),
    }
    for name, (age, plan) in sets.items():
        targets = [0.0, 10.0, np.nan] if kind == "number" else ["yes", "perhaps"]
        for target in targets if lines == "none" else targets[:1]:
            for epsilon in ("0.01", 20):
                make: Any = regressor if kind == "number" else classifier
                model = make(epsilon=epsilon, lines=lines)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model.fit({"age": age, "plan": plan}, np.full(len(age), target))
                found = model.decision_function({"age": [0.0, np.nan, 100.0], "plan": ["free", "none", "firm"]})
                assert np.isfinite(found).all(), name
                assert all(np.isfinite(curve.values).all() for curve in model.curves_.values())


class TestTables:
    SCHEMA = (*COLUMNS, sl.Number("y", lower=0, upper=10), sl.Category("old", ["no", "yes"], other=None))

    def cells(self, rows: int = 600) -> pa.Table:
        frame, y = people(rows)
        frame.loc[::17, "age"] = np.nan
        frame.loc[::23, "plan"] = None
        frame["y"], frame["old"] = y, np.where(y > 3, "yes", "no")
        frame["who"] = np.arange(rows) % 190
        return pa.Table.from_pandas(frame)

    @pytest.mark.parametrize("persons", [False, True], ids=["rows", "persons"])
    def test_rows_that_only_workers_read_give_the_same_release(self, persons: bool) -> None:
        schema = [*self.SCHEMA, *([sl.PersonId("who", max_rows=2)] if persons else [])]
        guess = sl.CurvePrediction({"age": [(0, 2.0), (50, -2.0), (100, 2.0)]}, intercept=3.0)
        for model, target in (
            (sl.AdditiveRegressor(**PRICE), "y"),
            (sl.AdditiveRegressor(**PRICE, prediction=guess), "y"),
            (sl.AdditiveClassifier(**PRICE), "old"),
        ):
            query = ModelQuery(model=model, target=target, features=["age", "plan"])
            expected = seeded_release(query, sl.Table(self.cells(), schema=schema), seed=7)
            for parts in (5,):
                found = seeded_release(query, away_table(self.cells(), schema, parts=parts), seed=7)
                for name, value in expected.value.items():
                    np.testing.assert_array_equal(np.asarray(found.value[name]), np.asarray(value), err_msg=name)

    @pytest.mark.parametrize("persons", [False, True], ids=["rows", "persons"])
    def test_files_and_engines_give_the_same_release(
        self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, *, persons: bool
    ) -> None:
        """Also where no pass may keep what an earlier one read: the rows of a file larger than memory."""
        import duckdb
        import pyarrow.csv as csv
        import pyarrow.parquet as pq

        rows, schema = self.cells(), [*self.SCHEMA, *([sl.PersonId("who", max_rows=2)] if persons else [])]
        pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=100)
        csv.write_csv(rows, tmp_path / "rows.csv")
        sources: dict[str, Any] = {
            "a Parquet file": tmp_path / "rows.parquet",
            "a CSV file": tmp_path / "rows.csv",
            "DuckDB": duckdb.connect().from_arrow(rows),
            "a lazy frame": pl.scan_parquet(tmp_path / "rows.parquet"),
            "lists": {name: rows.column(name).to_pylist() for name in rows.column_names},
        }
        for model, target in ((sl.AdditiveRegressor(**PRICE), "y"), (sl.AdditiveClassifier(**PRICE), "old")):
            query = ModelQuery(model=model, target=target, features=["age", "plan"])
            expected = seeded_release(query, sl.Table(rows, schema=schema), seed=7).value
            for kept in (KEPT_BYTES, 0):
                monkeypatch.setattr(fine_codes, "KEPT_BYTES", kept)
                for name, source in sources.items():
                    found = seeded_release(query, sl.Table(source, schema=schema), seed=7).value
                    for part, value in expected.items():
                        np.testing.assert_array_equal(found[part], value, err_msg=f"{name}: {part}")

    def test_persons_have_more_noise_and_a_session_pays(self) -> None:
        schema = [*self.SCHEMA, sl.PersonId("who", max_rows=4)]
        table = sl.Table(self.cells(), schema=schema)
        session = SeededSession(table, budget=sl.ApproxDP(5, 1e-3), seed=4)
        model = sl.AdditiveRegressor(**PRICE, session=session).fit_table(table, target="y", features=["age"])
        assert "4" in str(model.privacy_.unit)
        assert float(model.guarantee_.gdp().mu) <= float(model.privacy_.mu)  # type: ignore[union-attr]
        noise = model.release_.value["count_noise"]
        rows = sl.Table(self.cells(), schema=self.SCHEMA)
        alone = regressor(columns=None, random_state=1).fit_table(rows, target="y", features=["age"])
        assert noise == pytest.approx(4 * alone.release_.value["count_noise"])

    def test_scores_of_a_query_are_those_of_the_model(self) -> None:
        query = ModelQuery(model=sl.AdditiveRegressor(**PRICE), target="y", features=["age", "plan"])
        table = sl.Table(self.cells(), schema=self.SCHEMA)
        value = query.release(table).value
        found = query.scores(value, {"age": [10.0, np.nan], "plan": ["free", "team"]}, table.schema)
        assert found.shape == (2,)
        assert np.isfinite(found).all()


class TestRequests:
    def request(self, columns: list[Any], **more: Any) -> Any:
        schema = sl.Schema([*columns, sl.Number("y", lower=0, upper=10)])
        model = sl.AdditiveRegressor(**PRICE, **more)
        return dict(ModelQuery(model=model, target="y").prepare(schema).request)

    def test_what_changes_the_model_is_another_request(self) -> None:
        filled = sl.Number("age", lower=0, upper=100, missing=sl.Fill(20))
        found = [
            self.request([AGE, PLAN]),
            self.request([AGE, PLAN], on_missing="drop"),
            self.request([filled, PLAN]),
            self.request([sl.Number("age", lower=0, upper=100, missing=sl.Fill(30)), PLAN]),
            self.request([AGE, sl.Category("plan", ["free", "team | firm"], other=None)]),
            self.request([AGE, sl.Category("plan", ["free | team", "firm"], other=None)]),
        ]
        assert all(one != other for place, one in enumerate(found) for other in found[:place])

    @pytest.mark.parametrize("max_rows", [1, 3])
    def test_arrays_in_a_session_of_persons_are_refused(self, max_rows: int) -> None:
        frame, y = people(300)
        persons = sl.Table(
            {"who": np.arange(300), "z": np.zeros(300)}, schema=[sl.Number("z"), sl.PersonId("who", max_rows=max_rows)]
        )
        session = SeededSession(persons, budget=sl.ApproxDP(5, 1e-4), seed=4)
        with pytest.raises(RangeError, match="bring a table that declares the persons"):
            regressor(session=session, random_state=None).fit(frame, y)


class TestPredictions:
    def test_public_rows_help_where_noise_is_large_and_wrong_ones_do_not_harm_much(self) -> None:
        frame, y = people(2000)
        public, known = people(800, seed=9)
        new, wanted = people(1000, seed=2)

        def error(model: Any) -> float:
            return float(np.mean((model.predict(new) - wanted) ** 2) / wanted.var())

        def told(targets: np.ndarray) -> Any:
            return sl.PublicData(public.assign(target=targets), "a survey")

        few: dict[str, Any] = {"epsilon": "0.1", "delta": "1e-5"}
        right = regressor(**few, prediction=told(known)).fit(frame, y)
        assert right.prediction_.chosen == 0
        assert error(right) < 0.12
        assert error(right) < 0.5 * error(regressor(**few).fit(frame, y))
        wrong = regressor(**few, prediction=told(known.max() - known)).fit(frame, y)
        assert wrong.prediction_.chosen is None
        assert error(wrong) < 2 * error(regressor(**few, lines="none").fit(frame, y)) + 0.2
        with pytest.raises(RangeError, match="rows that are fitted"):
            regressor(prediction=sl.PublicData(frame.assign(target=y), "mine")).fit(frame, y)
        with pytest.raises(RangeError, match="is missing"):
            regressor(prediction=sl.PublicData(public, "a survey")).fit(frame, y)
        with pytest.raises(RangeError, match="at least 10"):
            regressor(prediction=sl.PublicData(public.assign(target=known).head(5), "a survey")).fit(frame, y)

    def test_an_earlier_release_is_worth_its_rows(self) -> None:
        frame, y = people(4000)
        labels = np.where(y > 3, "yes", "no")
        for make, target in ((regressor, y), (classifier, labels)):
            earlier = make(epsilon=4).fit(frame[:2000], target[:2000])
            few: dict[str, Any] = {"epsilon": "0.1", "delta": "1e-5"}
            for given in (earlier, earlier.release_, sl.Release.from_json(earlier.release_.to_json())):
                model = make(**few, prediction=given).fit(frame[2000:], target[2000:])
                assert model.prediction_.chosen == 0
                assert np.corrcoef(model.decision_function(frame), earlier.decision_function(frame))[0, 1] > 0.95
        with pytest.raises(RangeError, match="another"):
            regressor(prediction=earlier).fit(frame, y)
        other = [sl.Number("age", lower=0, upper=99), PLAN]
        with pytest.raises(RangeError, match="other columns"):
            classifier(prediction=earlier, columns=other).fit(frame, labels)

    def test_an_earlier_model_of_other_dates_is_refused(self) -> None:
        days = np.arange("2019-01-01", "2020-01-01", dtype="M8[D]")

        def model(unit: Any, start: str, end: str, **more: Any) -> sl.AdditiveRegressor:
            return regressor(columns=[sl.Date("when", start=start, end=end, unit=unit)], **more)

        y = np.arange(365) / 36.5
        earlier = model("day", "2019-01-01", "2019-12-31").fit({"when": days}, y)
        model("day", "2019-01-01", "2019-12-31", prediction=earlier).fit({"when": days}, y)
        for unit, start, end in (("day", "2021-01-01", "2021-12-31"), ("hour", "2019-01-01", "2019-01-16 04:00")):
            other = model(unit, start, end, prediction=earlier)
            assert other.columns[0].upper == 364
            with pytest.raises(RangeError, match="other columns, ranges, dates"):
                other.fit({"when": days}, y)

    def test_stated_curves_and_coefficients(self) -> None:
        frame, y = people(600)
        few: dict[str, Any] = {"epsilon": "0.1", "delta": "1e-5"}
        stated = sl.CurvePrediction(
            {"age": [(0, 2.5), (50, -2.5), (100, 2.5)], "plan": {"team": 2.0}},
            intercept=2.5,
            scale=0.2,
            origin="a book",
        )
        model = regressor(**few, prediction=stated).fit(frame, y)
        assert model.prediction_.chosen == 0
        assert "stated curves" in model.prediction_.description
        new, wanted = people(1000, seed=2)
        assert np.mean((model.predict(new) - wanted) ** 2) < 0.1 * wanted.var()
        table = AdditiveExamples(tuple(COLUMNS), sl.Number("y", lower=0, upper=10), None)  # tables are on fine codes
        assert [len(each) for each in stated.tables(table.columns)] == [1025, 3]
        lines = sl.CoefficientPrediction({"age": 0.1, "plan=team": 2.0}, intercept=1.0)
        flat = regressor(**few, prediction=[lines, stated]).fit(frame, y)
        assert flat.prediction_.given == 2
        for wrong, match in (
            ({"agee": [(0, 1)]}, "no column"),
            ({"age": 3}, "points"),
            ({"plan": {"fre": 1.0}}, "no label"),
        ):
            with pytest.raises(RangeError, match=match):
                regressor(prediction=sl.CurvePrediction(wrong)).fit(frame, y)
        with pytest.raises(RangeError, match="scale"):
            sl.CurvePrediction({}, scale=-1)
        with pytest.raises(RangeError, match="an additive model takes"):
            regressor(prediction=3).fit(frame, y)


@pytest.mark.parametrize("columns", [["a"], "a", [None], [sl.Number]])
def test_columns_that_are_no_declarations_are_refused_in_words(columns: Any) -> None:
    model = sl.AdditiveClassifier(epsilon=1, delta="1e-6", columns=columns, classes=[0, 1])
    with pytest.raises(SchemaError, match="a schema is a list of Number"):
        model.fit(np.zeros((4, 1)), [0, 1, 0, 1])
