"""Marginals by shared sums equal brute force, and factors of cells are their adjoint."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.synthesis.domain import Domain
from sidelight.synthesis.spaces import DenseSpace, SupportSpace, marginal_sums
from sidelight.synthesis.workload import Marginal, linear_queries, marginals, prefixes, ranges

SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=5)


def subsets(count: int) -> list[tuple[int, ...]]:
    return [axes for size in range(count + 1) for axes in combinations(range(count), size)]


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, seed=st.integers(0, 2**30), data=st.data())
def test_sums_equal_direct_sums(sizes: list[int], seed: int, data: st.DataObject) -> None:
    table = np.random.default_rng(seed).integers(0, 2**40, tuple(sizes))
    wanted = data.draw(st.lists(st.sampled_from(subsets(len(sizes))), min_size=1, max_size=8))
    found = marginal_sums(table, sizes, wanted)
    for axes, sums in zip(wanted, found, strict=True):
        direct = table.sum(axis=tuple(a for a in range(len(sizes)) if a not in axes))
        assert np.array_equal(sums, direct)
        assert sums.dtype == np.int64


def test_large_tables_take_the_fast_paths() -> None:
    rng = np.random.default_rng(0)
    sizes = (7, 2, 9, 3, 5, 2)
    floats, integers = rng.random(sizes), rng.integers(0, 100, sizes)
    for axes in subsets(6):
        rest = tuple(a for a in range(6) if a not in axes)
        assert np.allclose(marginal_sums(floats, sizes, [axes])[0], floats.sum(axis=rest), rtol=1e-12)
        assert np.array_equal(marginal_sums(integers, sizes, [axes])[0], integers.sum(axis=rest))


DOMAIN = Domain(("a", "b", "c"), (3, 4, 5))


def test_support_of_all_cells_is_the_dense_space() -> None:
    rng = np.random.default_rng(1)
    weights = rng.random(DOMAIN.cells)
    dense, support = DenseSpace(DOMAIN), SupportSpace(DOMAIN, DOMAIN.unravel(np.arange(DOMAIN.cells)))
    wanted = [*marginals(2).partitions(DOMAIN), Marginal(("a", "c"), (2, 3)), Marginal(("b",), (4,))]
    for one, other in zip(dense.marginals(weights, wanted), support.marginals(weights, wanted), strict=True):
        assert np.allclose(one, other)
    parts = [rng.random(each.shape(DOMAIN)) for each in wanted]
    for part, each in zip(parts, wanted, strict=True):
        one, other = weights.copy(), weights.copy()
        dense.multiply(one, part, each)
        support.multiply(other, part, each)
        assert np.allclose(one, other)
        assert np.isclose((dense.marginals(weights, [each])[0] * part).sum(), one.sum())  # the adjoint of the sums


def test_queries_equal_the_matrix_that_is_never_written() -> None:
    rng = np.random.default_rng(2)
    matrix = rng.random((6, 20)) * 2 - 1
    workload = marginals(2) + prefixes("c") + ranges("b") + linear_queries(matrix, lower=-1, columns=["b", "c"])
    table = rng.integers(0, 50, DOMAIN.sizes)
    for block in workload.blocks(DOMAIN):
        rest = tuple(a for a in range(3) if a not in DOMAIN.axes(block.columns))
        marginal = table.sum(axis=rest)
        answers = np.asarray(block.answers(marginal)) / block.steps
        written = np.array([float((block.coefficients(place) * marginal).sum()) for place in range(block.count)])
        assert np.allclose(answers, written, rtol=1e-12)
        low, high = block.bounds
        for place in range(block.count):
            assert low <= (block.coefficients(place) * block.steps).min()
            assert high >= (block.coefficients(place) * block.steps).max()


def test_cells_are_numbered_as_numpy_does() -> None:
    cells = np.arange(DOMAIN.cells)
    codes = DOMAIN.unravel(cells)
    assert np.array_equal(np.ravel_multi_index(tuple(codes.T), DOMAIN.sizes), cells)
    assert np.array_equal(DOMAIN.ravel(codes), cells)
    assert np.array_equal(DOMAIN.ravel(codes, ("a", "c")), codes[:, 0] * 5 + codes[:, 2])


def test_long_columns_enter_with_their_coarsenings() -> None:
    domain = Domain(("t",), (300,))
    found = prefixes("t").partitions(domain)
    assert [each.widths[0] for each in found] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    counts = np.random.default_rng(0).integers(0, 9, 300)
    for each in found:
        assert each.grouped(counts).sum() == counts.sum()
        assert len(each.grouped(counts)) == each.cells(domain)
    assert len(prefixes("t").partitions(Domain(("t",), (60,)))) == 1
