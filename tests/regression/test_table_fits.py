"""Models of a table: public encoding, files in passes, persons, and mistakes that are found before the charge."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import BudgetError, RangeError, SchemaError
from sidelight.regression import rows as bounded
from sidelight.regression.descent import mapped_rows
from sidelight.regression.estimators import TableEncoding
from sidelight.regression.estimators import table_encoding as reading
from sidelight.testing import SeededSession

pytestmark = pytest.mark.usefixtures("prices_once")
SCHEMA = [
    sl.Number("age", lower=0, upper=100),
    sl.Category("sex", ["F", "M"], other=None),
    sl.Number("income", lower=0, upper=10),
    sl.Category("renews", ["no", "yes"], other=None),
]


def columns(n: int = 3000, *, seed: int = 4) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    age, sex = rng.uniform(0, 100, n).round(2), rng.choice(["F", "M"], n)
    income = np.clip(2 + age / 20 + (sex == "F"), 0, 10).round(3)
    renews = np.where(age / 50 + (sex == "F") + rng.logistic(size=n) / 4 > 1.5, "yes", "no")
    return {"age": age, "sex": sex.astype(object), "income": income, "renews": renews.astype(object)}


def table(data: Any = None, schema: Any = None) -> sl.Table:
    return sl.Table(columns() if data is None else data, schema=schema or SCHEMA, name="people")


def seeded(protected: sl.Table, seed: int = 1) -> SeededSession:
    return SeededSession(protected, budget=sl.ApproxDP(30, "1e-3"), seed=seed)


def logistic(protected: sl.Table, **more: Any) -> sl.LogisticRegression:
    model = sl.LogisticRegression(**{"epsilon": 4, "delta": "1e-6", "session": seeded(protected)} | more)
    return model.fit_table(protected, target="renews", features=["age", "sex"])


def written(folder: Path, kind: str) -> Path:
    import pandas as pd

    path = folder / f"people.{kind}"
    frame = pd.DataFrame(columns())
    frame.to_parquet(path) if kind == "parquet" else frame.to_csv(path, index=False)
    return path


class TestModels:
    def test_classes_ranges_and_norm_come_from_the_schema(self) -> None:
        model = logistic(table())
        assert model.classes_.tolist() == ["no", "yes"]
        assert model.feature_names_in_.tolist() == ["age", "sex"]
        assert model.n_features_in_ == 2
        assert model.encoding_.names == ("age", "sex=F", "sex=M")
        assert model.release_.query["data_norm"] == "1"
        assert np.mean(model.predict(table()) == columns()["renews"]) > 0.85

    def test_a_number_is_predicted_in_its_range(self) -> None:
        people = table()
        model = sl.LinearRegression(epsilon=4, delta="1e-6", session=seeded(people))
        model.fit_table(people, target="income", features=["age", "sex"])
        assert model.score(people, columns()["income"]) > 0.9

    def test_counts_take_their_bound_from_the_schema(self) -> None:
        people = table()
        model = sl.PoissonRegressor(epsilon=8, delta="1e-6", session=seeded(people))
        model.fit_table(people, target="income", features=["age"])
        assert model.privacy_.loss["largest_count"] == "10"
        assert (model.predict(people) > 0).all()

    def test_without_features_all_other_columns(self) -> None:
        people = table()
        model = sl.LogisticRegression(epsilon=1, delta="1e-6").fit_table(people, target="renews")
        assert model.encoding_.names == ("age", "sex=F", "sex=M", "income")
        assert model.guarantee_.implies(sl.ApproxDP(1, "1e-6").under(numerics="idealized"))
        assert model.release_.private

    def test_it_is_the_model_of_the_encoded_rows(self) -> None:
        people = table()
        model = logistic(people)
        X = model.encoding_.matrix(people)
        same = sl.LogisticRegression(
            epsilon=4, delta="1e-6", data_norm=1, classes=["no", "yes"], session=seeded(people)
        ).fit(X, columns()["renews"])
        np.testing.assert_allclose(model.coef_, same.coef_, atol=0.01)
        assert not hasattr(same, "encoding_")

    @pytest.mark.parametrize("kind", ["parquet", "csv"])
    def test_files_give_the_model_of_memory(self, kind: str, tmp_path: Path) -> None:
        file = sl.Table(written(tmp_path, kind), schema=SCHEMA)
        model, same = logistic(file), logistic(table())
        np.testing.assert_allclose(model.coef_, same.coef_, atol=0.01)
        np.testing.assert_allclose(model.intercept_, same.intercept_, atol=0.01)

    def test_whole_numbers_as_classes_stay_numbers(self) -> None:
        schema = [sl.Number("x", lower=-1, upper=1), sl.Category("y", [0, 1])]
        people = sl.Table({"x": np.linspace(-1, 1, 500), "y": np.arange(500) // 250}, schema=schema)
        model = sl.LogisticRegression(epsilon=8, delta="1e-6", classes=[0, 1], session=seeded(people))
        assert model.fit_table(people, target="y").predict(people).dtype.kind == "i"
        assert model.score(people, np.arange(500) // 250) > 0.9
        texts = sl.LogisticRegression(epsilon=8, delta="1e-6").fit_table(people, target="y")
        assert texts.classes_.tolist() == ["0", "1"]

    def test_wide_categories_stay_sparse(self) -> None:
        from scipy.sparse import issparse

        schema = [sl.Category("place", range(400), other=None), sl.Category("y", [0, 1], other=None)]
        people = sl.Table({"place": np.arange(2000) % 400, "y": np.arange(2000) % 400 // 200}, schema=schema)
        model = sl.LogisticRegression(epsilon=8, delta="1e-6", session=seeded(people)).fit_table(people, target="y")
        X = model.encoding_.matrix(people)
        assert issparse(X)
        dense = model.encoding_.encoder._dense((np.arange(2000) % 400,))
        np.testing.assert_array_equal(X.toarray(), dense)
        assert model.coef_.shape == (1, 400)


class TestRows:
    def test_no_row_is_longer_than_one(self) -> None:
        extreme = {"age": [1e300, -np.inf, 50.0], "sex": ["F", "M", "F"], "income": [5.0] * 3, "renews": ["no"] * 3}
        for width in range(1, 9):
            schema = [*SCHEMA[:3], *(sl.Number(f"x{i}", lower=0, upper=1) for i in range(width))]
            data = extreme | {f"x{i}": [1.0] * 3 for i in range(width)}
            encoding = TableEncoding(tuple(schema))  # type: ignore[arg-type]
            X = encoding.matrix(sl.Table(data, schema=schema))
            from fractions import Fraction

            assert all(sum(Fraction(cell) ** 2 for cell in row) <= 1 for row in X.tolist())

    def test_rows_that_miss_something_follow_the_schema(self) -> None:
        plain = logistic(table()).coef_
        data = {
            name: np.append(cells, extra)
            for (name, cells), extra in zip(columns().items(), [np.nan, "F", 1.0, "yes"], strict=True)
        }
        np.testing.assert_allclose(logistic(table(data)).coef_, plain, atol=1e-3)
        for name, bad in (("sex", "X"), ("renews", "perhaps"), ("renews", None)):
            data = {column: np.append(cells, cells[:1]) for column, cells in columns().items()}
            data[name][-1] = bad
            np.testing.assert_allclose(logistic(table(data)).coef_, plain, atol=1e-3)

    def test_the_control_a_good_row_does_change_the_model(self) -> None:
        data = {column: np.append(cells, np.repeat(cells[:1], 300)) for column, cells in columns().items()}
        assert np.abs(logistic(table(data)).coef_ - logistic(table()).coef_).max() > 1e-2

    def test_one_row_of_a_person_counts(self) -> None:
        schema = [*SCHEMA, sl.PersonId("who", max_rows=1)]
        data = columns(300) | {"who": np.arange(300)}
        many = {name: np.concatenate([cells, np.repeat(cells[:1], 5000)]) for name, cells in data.items()}
        once, often = (logistic(table(each, schema)) for each in (data, many))
        np.testing.assert_array_equal(once.coef_, often.coef_)
        twice = logistic(table(many, [*SCHEMA, sl.PersonId("who", max_rows=2)]))
        assert np.isfinite(twice.coef_).all()
        with pytest.raises(RangeError, match="one row"):
            logistic(table(data, [*SCHEMA, sl.PersonId("who", max_rows=2)]), solver="objective")

    @pytest.mark.parametrize("n", [0, 1])
    def test_few_rows_still_give_a_model(self, n: int) -> None:
        few = {name: cells[:n] for name, cells in columns().items()}
        assert np.isfinite(logistic(table(few)).coef_).all()

    def test_missing_cells_of_a_prediction(self) -> None:
        model = logistic(table())
        odd = {"age": [np.nan, 50.0], "sex": ["X", None], "income": [1.0, 1.0], "renews": ["no", "no"]}
        scores = model.decision_function(table(odd))
        np.testing.assert_allclose(scores, model.intercept_[0], atol=1e-9)


class TestPasses:
    def counted(self, monkeypatch: pytest.MonkeyPatch, keep: int) -> list[int]:
        passes = [0]
        original = reading.TableExamples.batches

        def batches(self: Any, table: Any) -> Any:
            passes[0] += 1
            return original(self, table)

        class Streamed(bounded.StreamedRows):
            def __init__(self, *args: Any, **rest: Any) -> None:
                super().__init__(*args, **rest | {"keep_bytes": keep})

        monkeypatch.setattr(reading.TableExamples, "batches", batches)
        monkeypatch.setattr(reading, "StreamedRows", Streamed)
        monkeypatch.setattr(mapped_rows, "KEPT_BYTES", keep)
        return passes

    @pytest.mark.parametrize(("solver", "fewest", "most"), [("objective", 3, 12), ("descent", 18, 18)])
    def test_a_source_that_does_not_fit_is_read_in_a_few_passes(
        self, monkeypatch: pytest.MonkeyPatch, solver: Any, fewest: int, most: int
    ) -> None:
        plain = logistic(table(columns(60_000)), solver=solver)
        passes = self.counted(monkeypatch, keep=0)
        model = logistic(table(columns(60_000)), solver=solver)
        assert fewest <= passes[0] <= most
        np.testing.assert_allclose(model.coef_, plain.coef_, atol=0.01 if solver == "objective" else 0)

    def test_codes_and_mapped_rows_are_kept_where_the_source_is_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The source is read once where the codes fit, also if what they are mapped to does not: the same integers."""
        fits = []
        for room, most in ((1 << 28, 1), (60_000 * 20, 1), (60_000 * 3, 18)):
            passes = self.counted(monkeypatch, keep=0)
            monkeypatch.setattr(mapped_rows, "KEPT_BYTES", room)
            fits.append(logistic(table(columns(60_000))).coef_.tolist())
            assert passes[0] == most
            monkeypatch.undo()
        assert fits[0] == fits[1] == fits[2]

    @pytest.mark.parametrize(("solver", "fewest", "most"), [("objective", 3, 12), ("descent", 18, 18)])
    def test_several_classes_take_no_more_passes(
        self, monkeypatch: pytest.MonkeyPatch, solver: Any, fewest: int, most: int
    ) -> None:
        schema = [sl.Number("x", lower=-1, upper=1), sl.Category("y", ["a", "b", "c"], other=None)]
        x = np.linspace(-1, 1, 60_000)
        people = sl.Table({"x": x, "y": np.repeat(["a", "b", "c"], 20_000).astype(object)}, schema=schema)
        fits = []
        for keep in (bounded.KEPT_BYTES, 0):
            passes = self.counted(monkeypatch, keep=keep)
            model = sl.LogisticRegression(epsilon=8, delta="1e-6", solver=solver, session=seeded(people))
            fits.append(model.fit_table(people, target="y").coef_)
        assert fewest <= passes[0] <= most
        np.testing.assert_allclose(fits[0], fits[1], atol=0.01)

    def test_a_source_that_fits_is_read_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        passes = self.counted(monkeypatch, keep=bounded.KEPT_BYTES)
        logistic(table())
        assert passes[0] == 1

    def test_a_sample_holds_on_to_nothing(self) -> None:
        block = bounded.Block(np.ones((100, 2)), 1.0, np.ones((100, 1)), np.ones((100, 1)))
        assert block.every(7).features.base is None
        streamed = bounded.StreamedRows.__new__(bounded.StreamedRows)
        streamed._kept = [block] * 1000
        sample, weight = streamed.sample()
        found = sum(part.size for part in sample.blocks())
        assert weight & (weight - 1) == 0
        assert abs(found * weight - 100_000) <= 1000 * weight


class TestMistakes:
    def test_they_are_found_before_the_charge(self) -> None:
        open_ended = [sl.Number("x"), *SCHEMA]
        data = columns() | {"x": np.zeros(3000)}
        self.refused(SchemaError, "public range", data=data, schema=open_ended, target="renews")
        self.refused(SchemaError, "renew", target="renew")
        self.refused(SchemaError, "did you mean 'sex'", target="renews", features=["sexx"])
        self.refused(SchemaError, "list of column names", target="renews", features="sex")
        self.refused(SchemaError, "among the features", target="renews", features=["renews", "sex"])
        self.refused(SchemaError, "twice", target="renews", features=["sex", "sex"])
        self.refused(SchemaError, "at least one feature", target="renews", features=[])
        self.refused(SchemaError, "is a number", target="income")
        self.refused(SchemaError, "name a column", target=None)
        self.refused(SchemaError, "does not declare", target="renews", model={"classes": ["yes", "never"]})
        self.refused(RangeError, "delta", target="renews", model={"delta": None})
        self.refused(RangeError, "for arrays", target="renews", model={"on_missing": "raise"})
        people = table()
        for model in (sl.LinearRegression(epsilon=1, delta="1e-6"), sl.PoissonRegressor(epsilon=1, delta="1e-6")):
            with pytest.raises(SchemaError, match="category"):
                model.fit_table(people, target="renews")
        with pytest.raises(SchemaError, match="fit_table wants"):
            sl.LinearRegression(epsilon=1, delta="1e-6").fit_table(columns(), target="income")  # type: ignore[arg-type]

    def refused(
        self, kind: type[Exception], text: str, *, data: Any = None, schema: Any = None, model: Any = None, **call: Any
    ) -> None:
        people = table(data, schema)
        session = seeded(people)
        before = str(session.spent)
        with pytest.raises(kind, match=text):
            sl.LogisticRegression(**{"epsilon": 1, "delta": "1e-6", "session": session} | (model or {})).fit_table(
                people, **call
            )
        assert str(session.spent) == before

    def test_a_session_of_another_table_is_refused(self) -> None:
        with pytest.raises(RangeError, match="another table"):
            logistic(table(), session=seeded(table()))

    def test_the_charge_comes_before_the_data(self, monkeypatch: pytest.MonkeyPatch) -> None:
        people = table()
        session = sl.Session(people, budget=sl.ApproxDP("0.5", "1e-5"))
        monkeypatch.setattr(reading, "coded_rows", lambda *_: pytest.fail("the data was opened"))
        with pytest.raises(BudgetError):
            logistic(people, session=session)

    def test_a_model_of_arrays_reads_no_table(self) -> None:
        model = sl.LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, classes=[0, 1]).fit(np.eye(2), [0, 1])
        with pytest.raises(SchemaError, match="fit_table"):
            model.predict(table())


class TestProgress:
    def test_a_pipe_sees_nothing(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        logistic(sl.Table(written(tmp_path, "parquet"), schema=SCHEMA))
        assert capfd.readouterr() == ("", "")

    def test_a_terminal_sees_no_number(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import rich.console

        screen = io.StringIO()
        plain = rich.console.Console

        def terminal(**rest: Any) -> Any:
            return plain(file=screen, force_terminal=True, color_system=None, width=100, **rest | {"stderr": False})

        monkeypatch.setattr(rich.console, "Console", terminal)
        logistic(sl.Table(written(tmp_path, "parquet"), schema=SCHEMA))
        import re

        shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
        assert "people" in shown
        assert "steps of descent" in shown  # as many as the plan has: no number of rows
        told = [line for line in re.split("[\r\n]+", shown) if "steps of descent" not in line]
        assert not any(sign.isdigit() for line in told for sign in line)
