"""What one row adds to each integer sum of an additive model: brute force, with the bugs that must be found."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.guarantees import Row
from sidelight.regression.additive.basis import coordinates
from sidelight.regression.additive.counts import ColumnCells, scaled_counts
from sidelight.regression.additive.fine_codes import MISSING, AdditiveExamples, fine_code
from sidelight.regression.additive.plan import COARSE_LEVELS, FINE_LEVELS, plan_additive
from sidelight.regression.additive.row_sums import ONE, CurveErrors, FineCounts, LeadingGram, gradient_of
from sidelight.regression.additive.steps import gram_radius
from sidelight.regression.descent.targets import Targets

NUMBER = Targets(kind="squared", target_range=(0.0, 10.0), target_centre=5.0)
CLASSES = Targets(kind="logistic", classes=("no", "yes"))
COLUMNS = (
    sl.Number("a", lower=0, upper=1),
    sl.Number("b", lower=-5, upper=5),
    sl.Category("c", ["u", "v", "w"], other=None),
)


def plan_of(columns: Any = COLUMNS, targets: Targets = NUMBER, **more: Any) -> Any:
    settings = {"epsilon": 1, "delta": "1e-5", "unit": Row(), "line_features": 5} | more
    return plan_additive(columns=tuple(columns), targets=targets, **settings)


def coded(targets: Targets, values: list[Any]) -> np.ndarray:
    return targets.admit(np.array(values))[0]


class TestCounts:
    """One-way counts: a row is one entry of every level of every column."""

    @pytest.mark.parametrize("levels", [FINE_LEVELS, COARSE_LEVELS])
    @pytest.mark.parametrize("targets", [NUMBER, CLASSES])
    def test_a_row_has_exactly_the_stated_length(self, levels: tuple[int, ...], targets: Targets) -> None:
        plan = plan_of(targets=targets)
        rng = np.random.default_rng(1)
        counts = FineCounts(targets=targets, sizes=plan.sizes)
        some = [0, 1, 511, 1023, 1024]
        labels = [0.0, 3.3, 9.99, 10.0, -4.0] if targets is NUMBER else ["no", "yes"]
        for a, b, c, label in itertools.product(some, some, range(3), labels):
            _, fine, target = counts.split(counts(np.array([[a, b, c]]), coded(targets, [label])))
            vector = scaled_counts(plan.columns, fine, target, levels)
            assert int(vector @ vector) == plan.counts_square(levels)
        rows = np.column_stack([rng.integers(0, 1025, (200, 2)), rng.integers(0, 3, 200)])
        y = coded(targets, list(rng.choice(np.array(labels, dtype=object), 200)))
        whole, rest = counts(rows, y), counts(rows[1:], y[1:])
        np.testing.assert_array_equal(whole - rest, counts(rows[:1], y[:1]))  # whatever the other rows are
        order = rng.permutation(200)
        np.testing.assert_array_equal(counts(rows[order], y[order]), whole)
        np.testing.assert_array_equal(counts(rows[:77], y[:77]) + counts(rows[77:], y[77:]), whole)

    def test_reference_numbers(self) -> None:
        numbers = [sl.Number(f"n{i}", lower=0, upper=1) for i in range(5)]
        labels = [sl.Category(f"c{i}", ["a", "b"], other=None) for i in range(7)]
        plan = plan_of([*numbers, *labels], line_features=19)
        assert plan.counts_square(FINE_LEVELS) == 113
        assert plan.counts_square(COARSE_LEVELS) == 93
        for epsilon, mu in (("0.1", 0.0325), (1, 0.2681), (8, 1.6660)):
            assert abs(float(plan_of(epsilon=epsilon).mu) - mu) < 6e-5
        assert fine_code(np.array([2**20, -(2**20), 0, MISSING])).tolist() == [1023, 0, 512, 1024]

    def test_the_noise_is_that_of_the_length(self) -> None:
        """A target that weighs 5 with the noise of a weight of 3 would be found here."""
        plan = plan_of()
        for levels in (FINE_LEVELS, COARSE_LEVELS):
            noise = plan.counts_noise(np.zeros(9, np.int64), levels)
            cost = math.sqrt(plan.counts_square(levels)) / noise.deviation
            assert 0.999999 < cost / plan.mu_of(plan.shares.counts) <= 1
            planted = math.sqrt(plan.counts_square(levels) - 25 + 9) / plan.mu_of(plan.shares.counts)
            assert math.sqrt(plan.counts_square(levels)) / planted > plan.mu_of(plan.shares.counts)


def random_cells(rng: np.random.Generator, *, codes: int, cells: int) -> ColumnCells:
    cell_of = np.sort(np.append(np.arange(cells), rng.integers(0, cells, codes - cells)))
    counts = rng.integers(20, 200, cells).astype(float)
    return ColumnCells(
        cell_of=cell_of, counts=counts, centres=(np.arange(cells) + 0.5) / cells, missing=False, fine=np.ones(codes)
    )


class TestGradients:
    """The lemma on looked-up rows, and exact sums."""

    def test_no_row_moves_the_sum_by_more_than_the_clip(self) -> None:
        rng = np.random.default_rng(2)
        found = 0
        for targets, labels in ((NUMBER, [0.0, 4.0, 10.0]), (CLASSES, ["no", "yes"])):
            for _ in range(6):
                place = coordinates([random_cells(rng, codes=3, cells=3) for _ in range(2)], scale=1.0, noise=0.01)
                squares = tuple((table**2).sum(axis=1).astype(float) for table in place.z_tables)
                clip = int(rng.integers(1, 2**28))
                tables = tuple(np.rint(rng.normal(0, 2**28, 3)) for _ in range(2))
                errors = CurveErrors(targets=targets, predictors=tables, constant=0.0, squares=squares, clip=clip)
                for a, b, label in itertools.product(range(3), range(3), labels):
                    moved = gradient_of(errors(np.array([[a, b]]), coded(targets, [label])), place.z_tables)
                    length = sum(int(each) ** 2 for each in moved)
                    assert length <= clip**2
                    norm2 = ONE**2 + sum(int(s[x]) for s, x in zip(squares, (a, b), strict=True))
                    rounded_down = clip // math.isqrt(norm2)  # the bug: a norm that is rounded down
                    found += rounded_down**2 * norm2 > clip**2
        assert found  # so the lemma would fail with it

    def test_sums_by_cell_are_sums_by_row(self) -> None:
        rng = np.random.default_rng(3)
        place = coordinates([random_cells(rng, codes=40, cells=9) for _ in range(3)], scale=1.0, noise=0.01)
        squares = tuple((table**2).sum(axis=1).astype(float) for table in place.z_tables)
        tables = tuple(np.rint(rng.normal(0, 2**28, 40)) for _ in range(3))
        codes, y = rng.integers(0, 40, (500, 3)), coded(NUMBER, list(rng.uniform(0, 10, 500)))
        errors = CurveErrors(targets=NUMBER, predictors=tables, constant=7.0, squares=squares, clip=2**27)
        each = errors.errors([codes[:, j] for j in range(3)], y)
        wanted = [0] * place.dimension
        for row, e in zip(codes, each.astype(int).tolist(), strict=True):
            z = [ONE, *(int(v) for j in range(3) for v in place.z_tables[j][row[j]])]
            wanted = [total + entry * e for total, entry in zip(wanted, z, strict=True)]
        np.testing.assert_array_equal(gradient_of(errors(codes, y), place.z_tables), wanted)

    def test_a_sum_beyond_all_integers_is_clamped_and_never_wraps(self) -> None:
        table = np.array([[2**20], [-(2**20)]])
        big = np.array([2**50, 2**50, -(2**49)], np.int64)
        assert gradient_of(big, [table]).tolist() == [2**62, 2**62]
        assert gradient_of(-big, [table]).tolist() == [-(2**62), -(2**62)]


class TestGram:
    """Rows of leading components are shortened towards 0."""

    def test_no_row_is_longer_than_the_radius(self) -> None:
        rng = np.random.default_rng(4)
        nearest_fails = 0
        for _ in range(300):
            width = int(rng.integers(1, 7))
            table = rng.integers(-40, 41, (1, width))
            radius = int(rng.integers(1, 40))
            gram = LeadingGram(tables=(table,), radius=radius)(np.zeros((1, 1), int), np.zeros((1, 1)))
            assert sum(int(entry) ** 2 for entry in gram.ravel()) <= radius**4
            length = math.sqrt(float((table**2).sum()))
            if length > radius:
                nearest_fails += float((np.rint(table * radius / length) ** 2).sum()) > radius**2
        assert nearest_fails  # rounding to nearest would break it

    def test_sums_of_wide_rows_are_exact(self) -> None:
        rng = np.random.default_rng(5)
        width, rows = 1024, 40
        radius = gram_radius(width)
        table = rng.integers(-(2**20), 2**20, (rows, width))
        gram = LeadingGram(tables=(table,), radius=radius)
        codes = np.arange(rows)[:, None]
        short = gram.rows(codes).astype(int)
        assert all(sum(int(v) ** 2 for v in row) <= radius**2 for row in short.tolist())
        total = gram(codes, np.zeros((rows, 1)))
        for i, j in rng.integers(0, width, (50, 2)):
            assert int(total[i, j]) == sum(int(a) * int(b) for a, b in zip(short[:, i], short[:, j], strict=True))


def test_rows_that_take_no_part_are_zero_in_every_sum() -> None:
    data = {"a": [0.5, 0.5, np.nan], "b": [1.0, 1.0, 2.0], "c": ["u", "zzz", "v"], "y": [np.nan, 3.0, 4.0]}
    table = sl.Table(data, schema=[*COLUMNS, sl.Number("y", lower=0, upper=10)])
    counts = FineCounts(targets=NUMBER, sizes=plan_of().sizes)
    for keep, left in ((True, 1), (False, 0)):
        examples = AdditiveExamples(COLUMNS, sl.Number("y", lower=0, upper=10), None, keep)
        with examples.fine(table, NUMBER) as rows:
            total, fine, _ = counts.split(rows.added_up(counts))
        assert total == left
        assert fine[0][1024] == left  # the missing number of the row that is left has its own cell, and no other
        assert fine[0].sum() == left


class TestPrice:
    """Squares as fractions, for every combination of parts."""

    @pytest.mark.parametrize("rows", [None, 1000])
    @pytest.mark.parametrize(("lines", "candidates"), [("auto", ()), ("none", ()), ("auto", ("a guess",))])
    def test_parts_cost_no_more_than_the_whole_and_no_less_than_nearly_all(
        self, rows: int | None, lines: Any, candidates: tuple[Any, ...]
    ) -> None:
        plan = plan_of(rows=rows, lines=lines, candidates=candidates)
        shares = plan.shares
        parts = (shares.lines, shares.count, shares.counts, shares.gram, shares.choice, shares.steps)
        assert sum(parts) == 1
        spent = sum(plan.squares.values())
        assert 0.95 < spent / plan.mu**2 <= 1  # a choice is rounded down
        assert (plan.lines is None) == (lines == "none" or bool(candidates))
        assert plan.claims.gdp().mu == plan.mu  # type: ignore[union-attr]

    @pytest.mark.parametrize("rows_of_a_person", [1, 4])
    def test_a_person_with_several_equal_rows_costs_what_is_claimed(self, rows_of_a_person: int) -> None:
        unit = sl.PersonId("who", max_rows=rows_of_a_person)
        schema = sl.Schema([*COLUMNS, unit])
        plan = plan_of(unit=schema.unit)
        k = rows_of_a_person
        counts = plan.counts_noise(np.zeros(3, np.int64), FINE_LEVELS)
        step = plan.step_noise(np.zeros(3, np.int64), clip=77, passes=6)
        moved = {
            "count": (k / plan.count_noise(0).deviation, plan.shares.count),
            "counts": (k * math.sqrt(plan.counts_square(FINE_LEVELS)) / counts.deviation, plan.shares.counts),
            "gram": (k * 900.0 / plan.gram_noise(np.zeros((3, 3), np.int64), 30).deviation, plan.shares.gram),
            "step": (k * 77.0 / step.deviation, plan.shares.steps / 6),
        }
        for cost, share in moved.values():
            assert 0.99999 < cost / plan.mu_of(share) <= 1 + 1e-12  # noise of √k would cost √k times as much
