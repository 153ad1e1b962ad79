"""Rows are bounded one by one, exactly: no float row is longer than the bound, and no row depends on another."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sidelight.errors import RangeError
from sidelight.regression import rows as rows_module
from sidelight.regression.rows import bounded_rows, side_by_side


def exact_square(row):
    return sum(Fraction(x) ** 2 for x in row.tolist())


NUMBERS = st.floats(-1e308, 1e308) | st.floats(-2, 2) | st.sampled_from([0.0, 5e-324, 1e-200, 0.6, 0.8])


@settings(max_examples=150, deadline=None)
@given(
    rows=arrays(np.float64, (4, 5), elements=NUMBERS),
    bound=st.sampled_from(["1", "0.1", "3.7", "1e-3"]),
    mode=st.sampled_from(["clip", "normalize"]),
)
def test_no_row_is_longer_than_the_bound_in_exact_arithmetic(rows, bound, mode):
    limit = Fraction(bound)
    out, norms, keep = bounded_rows(rows, data_norm=limit, on_violation=mode)
    assert keep.all()
    for before, after, norm in zip(rows, out, norms.tolist(), strict=True):
        assert exact_square(after) <= limit**2
        assert exact_square(after) <= Fraction(norm) ** 2
        if mode == "clip" and exact_square(before) <= (limit * (1 - Fraction(1, 10**12))) ** 2:
            assert (after == before).all()
        if mode == "normalize" and np.abs(before).max() > 1e-290:
            assert float(exact_square(after)) == pytest.approx(float(limit) ** 2, rel=1e-12)


@pytest.mark.parametrize("bound", ["1", "0.6", "2", "3.7"])
@pytest.mark.parametrize("features", [1, 2, 5, 9, 16])
@pytest.mark.parametrize("mode", ["clip", "normalize"])
def test_rows_that_are_a_power_of_two_times_the_full_length_are_shortened(bound, features, mode):
    """A factor of 1 for the row of size 1 is no sign of a row that is short: it was 2**k times as long."""
    limit = Fraction(bound)
    slacks = [1 - ulps * 2.0**-53 for ulps in range(2 * features + 64)]  # rounding takes less room than this
    shapes = [np.eye(features)[0], np.full(features, 1 / np.sqrt(features))]
    full = np.array([shape * float(limit) * slack for shape in shapes for slack in slacks])
    for exponent in (-3, 0, 1, 2, 10, 300, 1000):
        rows = full * 2.0**exponent
        found, norms, keep = bounded_rows(rows, data_norm=limit, on_violation=mode)
        sparse, sparse_norms, _ = bounded_rows(scipy.sparse.csr_matrix(rows), data_norm=limit, on_violation=mode)
        assert keep.all()
        for each, lengths in ((found, norms), (sparse.toarray(), sparse_norms)):
            for row, norm in zip(each, lengths.tolist(), strict=True):
                assert exact_square(row) <= min(limit, Fraction(norm)) ** 2
                if exponent > 0 or mode == "normalize":
                    assert exact_square(row) >= (limit * (1 - Fraction(1, 10**12))) ** 2


@pytest.mark.planted("a factor of 1 is taken for a row that stays as it is", of=("LinearSVC", "PoissonRegressor"))
def test_a_factor_of_one_as_a_sign_is_found(monkeypatch):
    real = rows_module._factors

    def planted(*given):
        changes, factors, norms = real(*given)
        return changes & (factors != 1.0), factors, norms

    monkeypatch.setattr(rows_module, "_factors", planted)
    with pytest.raises(AssertionError):
        test_rows_that_are_a_power_of_two_times_the_full_length_are_shortened("1", 5, "clip")


@settings(max_examples=40, deadline=None)
@given(rows=arrays(np.float64, (9, 7), elements=NUMBERS), order=st.permutations(range(9)))
def test_a_row_does_not_depend_on_its_neighbours(rows, order):
    whole, _, _ = bounded_rows(rows, data_norm=Fraction(1), on_violation="clip")
    moved, _, _ = bounded_rows(np.asfortranarray(rows[order]), data_norm=Fraction(1), on_violation="clip")
    alone = np.vstack([bounded_rows(r[None], data_norm=Fraction(1), on_violation="clip")[0] for r in rows])
    assert (whole[order] == moved).all()
    assert (whole == alone).all()


def test_sparse_rows_are_bounded_without_becoming_dense():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(30, 12)) * (rng.random((30, 12)) < 0.3)
    dense[3] = 0
    for mode in ("clip", "normalize"):
        expected, norms, _ = bounded_rows(dense, data_norm=Fraction(1), on_violation=mode)
        found, sparse_norms, keep = bounded_rows(
            scipy.sparse.coo_matrix(dense), data_norm=Fraction(1), on_violation=mode
        )
        assert scipy.sparse.issparse(found)
        assert keep.all()
        assert np.allclose(found.toarray(), expected, rtol=1e-14)
        assert np.allclose(norms, sparse_norms, rtol=1e-14)
        assert all(exact_square(row) <= 1 for row in found.toarray())


def test_rows_that_are_not_finite_take_no_part_and_the_input_is_untouched():
    rows = np.array([[1.0, np.nan], [np.inf, 0.0], [3.0, 4.0]])
    copy = rows.copy()
    out, _, keep = bounded_rows(rows, data_norm=Fraction(1), on_violation="clip")
    assert keep.tolist() == [False, False, True]
    assert out[2].tolist() == pytest.approx([0.6, 0.8])
    assert np.array_equal(rows, copy, equal_nan=True)
    sparse, _, keep = bounded_rows(scipy.sparse.csr_matrix(rows), data_norm=Fraction(1), on_violation="clip")
    assert keep.tolist() == [False, False, True]
    assert np.isfinite(sparse.toarray()).all()


def test_what_is_no_table_of_numbers_is_refused_by_type():
    for wrong in (np.zeros(3), np.array([["a", "b"]]), np.array([[1j]])):
        with pytest.raises(RangeError, match="two-dimensional"):
            bounded_rows(wrong, data_norm=Fraction(1), on_violation="clip")


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_work_side_by_side_keeps_the_order_and_holds_few_items(monkeypatch, threads):
    monkeypatch.setattr("sidelight.regression.rows.cores", lambda: threads)
    taken, made = [], []
    for each in side_by_side(lambda item: item * item, (taken.append(n) or n for n in range(50))):
        made.append(each)
        assert len(taken) - len(made) <= threads + 1
    assert made == [n * n for n in range(50)]
    with pytest.raises(ZeroDivisionError):
        list(side_by_side(lambda item: 1 // item, [2, 1, 0]))


@settings(max_examples=60, deadline=None)
@given(
    arrays(
        np.float64,
        (7, 3),
        elements=st.floats(-1e300, 1e300) | st.sampled_from([0.0, np.nan, np.inf, 0.5773502691896257]),
    ),
    st.sampled_from([Fraction(1), Fraction(1, 3), Fraction(10) ** 140, Fraction(1, 10**150), Fraction(10) ** 200]),
)
def test_rows_that_are_surely_short_are_the_rows_that_are_left_as_they_are(rows, data_norm):
    """Whether norms are wanted decides about time only; the bound of the norms is one either way."""
    with np.errstate(all="ignore"):
        scaled = rows * float(data_norm)
    bounded, norms, keep = bounded_rows(scaled, data_norm=data_norm, on_violation="clip")
    same, bounds, kept = bounded_rows(scaled, data_norm=data_norm, on_violation="clip", tight_norms=False)
    np.testing.assert_array_equal(bounded, same)
    np.testing.assert_array_equal(keep, kept)
    assert (bounds >= norms).all()
