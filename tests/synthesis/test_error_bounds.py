"""Error bounds of whole marginals: numbers by hand, brute force over all tables, and what a user reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import sidelight as sl
from sidelight.synthesis import linear_queries, prefixes, ranges
from sidelight.synthesis.answer_bounds import (
    NoiseTail,
    bound_marginals,
    bound_measured_queries,
    covered_queries,
    refines,
    selection_loss,
)
from sidelight.synthesis.answers import ErrorBounds, kind_of
from sidelight.synthesis.certify import average_of_sums, bound_rows
from sidelight.synthesis.domain import Domain
from sidelight.synthesis.measurement import MarginalMeasurement, NoisyRows
from sidelight.synthesis.query_blocks import CellQueries, MatrixQueries
from sidelight.synthesis.selection import MarginalRound, RoundRecords
from sidelight.synthesis.workload import Marginal
from sidelight.testing import seeded_release

DOMAIN = Domain(("a", "b"), (2, 2))
A, B, AB = Marginal(("a",)), Marginal(("b",)), Marginal(("a", "b"))


def measured(marginal: Marginal, values: Any, *, law: Any = "gaussian", scale: float = 1.0) -> MarginalMeasurement:
    numbers = np.asarray(values, np.float64)
    return MarginalMeasurement(
        marginal=marginal, values=numbers, law=law, scale=scale, deviation=scale, mean_error=scale
    )


def record_of(*, penalties: tuple[float, ...] = (2.0, 2.0), steepness: float = 0.5) -> MarginalRound:
    flat = np.array([5.0, 5.0])
    return MarginalRound(
        candidates=(A, B),
        expected=(flat, flat),
        penalties=penalties,
        steepness=steepness,
        chosen=0,
        measured=measured(A, [9, 1]),
    )


def test_one_round_by_hand() -> None:
    """Noise of two counts: 4.28995 (noise tails). Selection: 2 log 99 = 9.19024. Distance 8 between y and t."""
    record = record_of()
    final = {A: np.array([8.0, 2.0]), B: np.array([6.0, 4.0])}
    found = bound_marginals([record], [record.measured], final, failure=0.01)
    assert found[B] == pytest.approx(8 + 4.28995 - 2 + 9.19024 + 2 + 2, rel=1e-5)
    norm = NoiseTail("gaussian", 1.0).norm_level(2, 0.01)
    assert found[A] == pytest.approx(min(8 + 4.28995 + 6, 2 + norm), rel=1e-5)
    still = {A: np.array([5.0, 5.0]), B: np.array([5.0, 5.0])}
    assert bound_marginals([record], [], still, failure=0.01)[A] == pytest.approx(12.28995, rel=1e-5)
    dear = record_of(penalties=(2.0, 7.0))
    more = bound_marginals([dear], [], still, failure=0.01)[B] - bound_marginals([record], [], still, failure=0.01)[B]
    assert more == pytest.approx(5.0)


def test_single_counts_and_rows_by_hand() -> None:
    one = measured(AB, [[30, 0], [0, 10]], scale=10.0)
    final = {AB: np.array([[26.0, 4.0], [4.0, 9.0]])}
    # 4 + 2 + 2 counts and 3 + 3 ranges, two sides each: 0.001 for each of 28 tails; 3.09023 deviations
    found = bound_measured_queries([one], final, failure=0.028)
    assert covered_queries([2, 2]) == 14
    assert found[("a", "b"), "cells"] == pytest.approx(4 + 31, rel=1e-4)  # 30.9023 - 1/2, a whole number
    assert found[("a",), "cells"] == pytest.approx(3 + 30.9023 * 2**0.5 + 1, rel=1e-4)
    assert found[("a",), "prefixes"] == pytest.approx(3 + 30.9023 * 2 + 2, rel=1e-4)
    assert found[("b",), "ranges"] == found[("b",), "dyadic ranges"] == found[("a",), "ranges"]
    again = measured(AB, [[30, 0], [0, 10]], scale=1.0)
    assert bound_measured_queries([one, again], final, failure=0.028)[("a",), "cells"] < 9  # the better one counts
    # two sides, three sources: 0.01 each; four counts: min(√(2·4·100.083·4.60517), 2.32635·20 + 2) = 48.527
    assert bound_rows([one], 53.0, first=None, sizes=[4], failure=0.06) == pytest.approx(53)  # 0 to 88.527
    assert bound_rows([one], 30.0, first=None, sizes=[4], failure=0.06) == pytest.approx(10 + 48.527, rel=1e-4)
    first = NoisyRows(value=43.0, law="gaussian", scale=2.0, deviation=2.0)  # 38 to 48
    assert bound_rows([one], 43.0, first=first, sizes=[4], failure=0.06) == pytest.approx(5, rel=1e-4)
    assert bound_rows([one], 45.0, first=first, sizes=[4], failure=0.06) == pytest.approx(7, rel=1e-4)
    exact = measured(AB, [[30, 0], [0, 10]], scale=0.01)  # 37.98 to 42.02: both at once
    assert bound_rows([exact], 41.0, first=first, sizes=[4], failure=0.06) == pytest.approx(3.02, rel=1e-2)
    # the average of two: variance 200; θ = 0.42919, (25.0208 θ + 4.60517/θ)/0.5
    average, level = average_of_sums([one, measured(AB, [[10, 30], [10, 10]], scale=10.0)], sizes=[4], each_side=0.01)
    assert average == pytest.approx(50)
    assert level == pytest.approx(42.938, rel=1e-4)
    assert bound_rows([one, one], 30.0, first=None, sizes=[4], failure=0.08) == pytest.approx(52.938, rel=1e-4)


@given(
    candidates=st.integers(2, 50), steepness=st.floats(1e-4, 10), failure=st.floats(1e-6, 0.05), best=st.integers(0, 9)
)
def test_the_loss_of_a_selection_is_exact_in_the_worst_case(
    candidates: int, steepness: float, failure: float, best: int
) -> None:
    def missed(loss: float) -> float:
        scores = np.full(candidates, -loss)
        scores[best % candidates] = 0.0
        law = np.exp(steepness * scores)
        return float(1 - law[best % candidates] / law.sum())

    loss = selection_loss(candidates, steepness=steepness, failure=failure)
    assert missed(loss) == pytest.approx(failure, rel=1e-9)
    assert missed(0.95 * loss) > failure  # nothing smaller is right
    assert selection_loss(1, steepness=steepness, failure=failure) == 0.0


def tables(most: int) -> Iterator[np.ndarray]:
    for cells in product(range(most + 1), repeat=4):
        if sum(cells) <= most:
            yield np.array(cells).reshape(2, 2)


TABLES = list(tables(6))


def counts_of(table: np.ndarray) -> dict[Marginal, np.ndarray]:
    return {A: table.sum(axis=1), B: table.sum(axis=0), AB: table}


weights = st.lists(st.integers(0, 8), min_size=4, max_size=4).filter(any)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(
    before=weights,
    after=weights,
    noisy=st.lists(st.integers(-2, 8), min_size=4, max_size=4),
    chosen=st.sampled_from([A, B, AB]),
    steepness=st.sampled_from([0.3, 1.0, 4.0]),
    penalty=st.sampled_from([0.0, 0.4, 1.5]),
    scale=st.sampled_from([0.4, 1.0]),
    law=st.sampled_from(["gaussian", "laplace"]),
)
def test_no_table_that_fits_what_was_released_lies_beyond_the_bounds(
    before: list[int],
    after: list[int],
    noisy: list[int],
    chosen: Marginal,
    steepness: float,
    penalty: float,
    scale: float,
    law: str,
) -> None:
    """Brute force: all tables for which the selection and the noise were not unusual, against the bounds."""
    failure, rows = 0.1, 5.0
    marginals = (A, B, AB)
    expected = counts_of(rows * np.array(before).reshape(2, 2) / sum(before))
    final = counts_of(rows * np.array(after).reshape(2, 2) / sum(after))
    values = counts_of(np.array(noisy).reshape(2, 2))[chosen]
    record = MarginalRound(
        candidates=marginals,
        expected=tuple(expected[each] for each in marginals),
        penalties=tuple(penalty * each.cells(DOMAIN) for each in marginals),
        steepness=steepness,
        chosen=marginals.index(chosen),
        measured=measured(chosen, values, law=law, scale=scale),
    )
    found = bound_marginals([record], [record.measured], final, failure=failure)
    singles = bound_measured_queries([record.measured], final, failure=failure)
    tail = NoiseTail(law, scale)  # type: ignore[arg-type]
    loss = selection_loss(3, steepness=steepness, failure=failure)
    fitting = 0
    for table in TABLES:
        counts = counts_of(table)
        noise = values - counts[chosen]
        scores = {e: np.abs(counts[e] - expected[e]).sum() - penalty * e.cells(DOMAIN) for e in marginals}
        usual = max(scores.values()) <= scores[chosen] + loss
        usual &= (np.sign(counts[chosen] - expected[chosen]) * noise).sum() >= -tail.sum_level(noise.size, failure)
        usual &= np.abs(noise).sum() <= tail.norm_level(noise.size, failure)
        if not usual:
            continue
        fitting += 1
        for each in marginals:
            assert np.abs(counts[each] - final[each]).sum() <= found[each] + 1e-4  # the grid of the scores
        each_side = failure / (2 * covered_queries(noise.shape))
        sums = [(1, noise)] if noise.ndim == 1 else [(1, noise), (2, noise.sum(axis=0)), (2, noise.sum(axis=1))]
        sums.append((noise.size, noise.sum()))
        if all(np.abs(part).max() <= tail.sum_level(count, each_side) for count, part in sums):
            for part in (A, B, AB) if chosen == AB else (chosen,):
                apart = counts[part] - final[part]
                assert np.abs(apart).max() <= singles[part.columns, "cells"] + 1e-9
                if part != AB:
                    assert np.abs(np.cumsum(apart)).max() <= singles[part.columns, "prefixes"] + 1e-9
                    assert np.abs([apart[0], apart[1], apart.sum()]).max() <= singles[part.columns, "ranges"] + 1e-9
    assume(fitting)


@given(lower=st.integers(-4, 3), width=st.integers(1, 4), values=st.lists(st.floats(-9, 9), min_size=4, max_size=4))
def test_a_query_is_bounded_by_its_marginal(lower: int, width: int, values: list[float]) -> None:
    """|Σ q d| for the worst q in [l, u] is at most what the bounds say, and they are attained."""
    errors = np.array(values)
    low, high = lower / 4, min(lower + width, 4) / 4
    block = MatrixQueries(("a", "b"), (2, 2), matrix=np.full((1, 4), low), lower=low, upper=high)
    worst = max(abs(float(np.dot(q, errors))) for q in product((low, high), repeat=4))
    total, rows = float(np.abs(errors).sum()), abs(float(errors.sum()))
    with_rows = ErrorBounds(confidence=0.95, rows=rows, marginals={AB: total}).of_block(block)
    without = ErrorBounds(confidence=0.95, marginals={AB: total}).of_block(block)
    assert with_rows is not None
    assert without is not None
    assert worst <= with_rows + 1e-9 <= without + 2e-9
    assert worst >= with_rows / 2 - 1e-9


def test_a_count_is_off_by_half_the_sum_where_the_rows_are_known() -> None:
    bounds = ErrorBounds(confidence=0.95, rows=2.0, marginals={AB: 30.0}, queries={(("a", "b"), "cells"): 11.0})
    assert bounds.of_sum(["b"]) == 30.0
    assert bounds.of_block(CellQueries(("b",), (2,))) == 16.0
    assert bounds.of_block(CellQueries(("a", "b"), (2, 2))) == 11.0
    assert bounds.of_sum(["c"]) is None
    assert bounds.of_block(CellQueries(("c",), (2,))) is None


def test_which_partitions_contain_which() -> None:
    long, grouped = Marginal(("t",)), Marginal(("t",), (4,))
    assert refines(long, grouped)
    assert refines(Marginal(("t",), (2,)), grouped)
    assert not refines(grouped, long)
    assert not refines(Marginal(("t",), (3,)), grouped)
    assert not refines(A, AB)
    record = replace(record_of(), candidates=(AB, B), expected=(np.full((2, 2), 2.5), np.array([5.0, 5.0])))
    record = replace(record, penalties=(0.0, 50.0), measured=measured(AB, [[3, 2], [2, 3]]))
    final = {AB: np.full((2, 2), 2.5), B: np.array([5.0, 5.0])}
    found = bound_marginals([record], [], final, failure=0.01)
    assert found[B] == found[AB] < 15  # summing counts adds no distance; its own penalty would give more than 50


def test_old_rounds_are_forgotten_but_never_the_last() -> None:
    records: RoundRecords[MarginalRound] = RoundRecords(most=9)
    for _ in range(5):
        records.add(record_of())  # four numbers each
    assert len(records.kept) == 2
    tiny: RoundRecords[MarginalRound] = RoundRecords(most=1)
    tiny.add(record_of())
    assert len(tiny.kept) == 1


# What a user reads off a release.

SCHEMA: list[sl.Category | sl.Number] = [
    sl.Category("sex", ["F", "M"], other=None),
    sl.Category("job", ["nurse", "cook", "driver"], other=None),
    sl.Number("age", lower=0, upper=99, granularity=1),
]
BINS = {"age": [0, 18, 40, 65, 100]}


def cells(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    return np.stack([sex, np.where(rng.random(n) < 0.6, sex, rng.integers(0, 3, n)), rng.integers(0, 4, n)], axis=1)


def data_of(codes: np.ndarray) -> dict[str, Any]:
    return {
        "sex": np.array(["F", "M"])[codes[:, 0]].tolist(),
        "job": np.array(["nurse", "cook", "driver"])[codes[:, 1]].tolist(),
        "age": np.array([5, 20, 50, 80])[codes[:, 2]].tolist(),
    }


def made(seed: int = 1, **given: Any) -> sl.Synthetic:
    query = sl.SyntheticTable(**{"bins": BINS, "rho": 1, **given})
    return sl.Synthetic(seeded_release(query, sl.Table(data_of(cells(2000)), schema=SCHEMA), seed=seed))


def test_what_could_have_been_measured_has_a_bound_and_nothing_else() -> None:
    synthetic = made(rounds=2)
    for line in synthetic.report(sl.marginals(2)):
        assert line["bound"] > 0
        assert line["bound_share"] == line["bound"] / synthetic.rows
        assert 0 < line["total_variation_bound"] <= 1.01
    lines = {line["basis"]: line for line in synthetic.report(sl.marginals(2))}
    assert lines["measured"]["bound_share"] < 0.02 < lines["model-based"]["bound_share"]
    one_way = synthetic.answer(["age"])
    assert one_way.bound is not None  # type: ignore[union-attr]
    below = synthetic.answer(prefixes("age"))
    assert below.bound <= synthetic.answer(ranges("age")).bound  # type: ignore[union-attr, operator]
    assert below.bound_of_sum is None  # type: ignore[union-attr]
    triple = synthetic.answer(["sex", "job", "age"])
    assert triple.bound is triple.bound_of_sum is None  # type: ignore[union-attr]
    assert repr(triple).startswith("Answers(24 answers on sex x job x age, model-based, no bound, NOT PRIVATE")
    assert [line["bound"] for line in synthetic.report(sl.marginals(3))] == [None]
    (model_based,) = (line["columns"] for line in synthetic.report(sl.marginals(2)) if line["basis"] == "model-based")
    assert "model-based, off by at most" in repr(synthetic.answer(model_based))
    assert "with 95% confidence" in repr(synthetic.answer(model_based))


def test_bounds_survive_json_and_releases_of_before_have_none() -> None:
    synthetic = made()
    again = sl.Synthetic(sl.Release.from_json(synthetic.release.to_json()))
    assert again.report(sl.marginals(2)) == synthetic.report(sl.marginals(2))
    assert repr(again.answer(["sex"])) == repr(synthetic.answer(["sex"]))
    assert dict(again.bounds.marginals) == dict(synthetic.bounds.marginals)
    assert dict(again.bounds.queries) == dict(synthetic.bounds.queries)
    assert again.bounds.rows == synthetic.bounds.rows
    assert ErrorBounds.from_value(None).of_sum(["sex"]) is None


def test_bounds_are_a_function_of_what_is_released() -> None:
    """The value holds a few numbers, and none of them is exact: other noise, other bounds."""
    first, second = made(seed=1), made(seed=2)
    assert len(first.release.value["bounds"]["marginals"]) == 3
    assert len(first.release.value["bounds"]["queries"]) == 3 + 3 + 3 * 3
    bounds = [[each["bound"] for each in one.release.value["bounds"]["marginals"]] for one in (first, second)]
    assert all(one != other for one, other in zip(*bounds, strict=True))


def test_a_long_column_with_coarsenings() -> None:
    codes = np.random.default_rng(0).integers(0, 300, 4000)
    table = sl.Table({"t": codes}, schema=[sl.Number("t", lower=0, upper=299, granularity=1)])
    query = sl.SyntheticTable(prefixes("t"), bins={"t": list(range(301))}, rho=1, rounds=3)
    synthetic = sl.Synthetic(seeded_release(query, table, seed=3))
    assert any(not each.fine for each in synthetic.bounds.marginals)
    found = synthetic.answer(prefixes("t"))
    exact = np.cumsum(np.bincount(codes, minlength=300))[:-1]
    assert found.bound is not None  # type: ignore[union-attr]
    assert np.abs(found.counts - exact).max() <= found.bound  # type: ignore[union-attr]


@pytest.mark.parametrize("size", [300, 1000])
def test_running_sums_have_bounds_of_their_own(size: int) -> None:
    codes = np.random.default_rng(0).integers(0, size, 40_000)
    table = sl.Table({"t": codes}, schema=[sl.Number("t", lower=0, upper=size - 1, granularity=1)])
    query = sl.SyntheticTable(prefixes("t"), bins={"t": list(range(size + 1))}, rho="0.1", rounds=9)
    synthetic = sl.Synthetic(seeded_release(query, table, seed=3))
    below, each, between = (synthetic.answer(w) for w in (prefixes("t"), sl.marginals(1), ranges("t")))
    assert below.bound <= between.bound < 0.8 * each.bound_of_sum / 2  # type: ignore[union-attr, operator]
    exact = np.bincount(codes, minlength=size)
    assert np.abs(below.counts - np.cumsum(exact)[:-1]).max() <= below.bound  # type: ignore[union-attr]
    running = np.concatenate([[0.0], np.cumsum(each.counts - exact)])  # type: ignore[union-attr]
    assert np.ptp(running) <= between.bound  # type: ignore[union-attr]


@settings(max_examples=60, deadline=None)
@given(
    width=st.integers(2, 5),
    true=st.lists(st.integers(0, 9), min_size=7, max_size=7),
    fit=st.lists(st.floats(0, 9), min_size=7, max_size=7),
    noise=st.lists(st.integers(-2, 2), min_size=4, max_size=4),
)
def test_groups_bound_what_lies_inside_them(width: int, true: list[int], fit: list[float], noise: list[int]) -> None:
    """Any noise within the levels: no running sum of the rows is farther from the fit than the bounds say."""
    marginal = Marginal(("t",), (width,))
    x, fine = np.array(true), np.array(fit)
    coarse = marginal.grouped(x)
    drawn = np.array(noise)[: len(coarse)]
    level = NoiseTail("gaussian", 1.0).sum_level(1, 0.1 / (2 * covered_queries([len(coarse)])))
    assert level > 2  # and longer sums have larger levels than the sums of these
    assume(abs(drawn.sum()) <= level and np.ptp([0, *np.cumsum(drawn)]) <= level)
    found = bound_measured_queries([measured(marginal, coarse + drawn)], {Marginal(("t",)): fine}, failure=0.1)
    running = np.concatenate([[0.0], np.cumsum(x - fine)])
    assert np.abs(running).max() <= found[("t",), "prefixes"] + 1e-9
    assert np.ptp(running) <= found[("t",), "ranges"] + 1e-9
    assert (("t",), "cells") not in found


def test_matrices_are_recognised_dense_or_sparse() -> None:
    from scipy.sparse import coo_array, csr_array

    dense = np.array([[1.0, 0.0, 0.5, 0.0], [0.0, 0.25, 0.0, 1.0]])
    doubled = coo_array(([0.5, 0.5, 0.5, 0.25, 1.0], ([0, 0, 0, 1, 1], [0, 0, 2, 1, 3])), shape=(2, 4))

    def kind(matrix: Any) -> str:
        (block,) = linear_queries(matrix).blocks(DOMAIN)
        return kind_of(block)

    assert kind(dense) == kind(csr_array(dense)) == kind(doubled)
    assert kind(dense) != kind(dense[::-1])
    assert kind(dense) != kind(np.vstack([dense, np.zeros((1, 4))]))
    assert (
        len({kind_of(b) for w in (prefixes("a"), ranges("a"), sl.marginals(1, ["a"])) for b in w.blocks(DOMAIN)}) == 3
    )
