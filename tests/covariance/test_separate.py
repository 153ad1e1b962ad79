"""SeparateCov with a prediction: reference numbers, invariance, the error bound, the law of the eigenvalues, traps."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from mapped_moments import mapped_moments
from sidelight.aggregates import Bounded
from sidelight.errors import RangeError, StrictError
from sidelight.guarantees.claims import Neighbours
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.noisy_moments import matrix_noise
from sidelight.noise import Source
from sidelight.published import eigenvector_covariance as module
from sidelight.published.eigenvector_covariance import eigenvalue_noise, on_integers, paired, separate, separate_claims
from sidelight.testing import SeededEntropy

PURE, CONCENTRATED = Budget.of(epsilon=1), Budget.of(rho=1)
ADD, SWAP = Neighbours.ADD_REMOVE, Neighbours.REPLACE
C = np.array([[0.5, 0.2], [0.2, 0.3]])
W = 0.4 * np.eye(2)
Z = np.array([[0.03, -0.01], [-0.01, 0.02]])
EIGENVALUE_NOISE = np.array([-0.02, 0.01])


def moments_of(matrix, rows, neighbours=SWAP):
    """Moments whose second moment is rows · matrix, to the last integer."""
    public = mapped_moments(np.zeros((0, len(matrix))), radius=1, neighbours=neighbours)
    whole = np.rint(matrix * rows * public.levels**2).astype(np.int64)
    second = Bounded(whole, public.second.sensitivity, "l2", neighbours, public.second.unit)
    return replace(public, second=second)


def inject(monkeypatch, noise, shift, rows=1000):
    """Replace both draws by given noise, in units of one row's matrix."""

    def values(moments, budget, private):
        return SimpleNamespace(release=lambda source: private + noise * rows * moments.levels**2)

    def second(moments, budget, law):
        noisy = moments.second.value * float(moments.scale) ** 2 + shift * rows
        return SimpleNamespace(release=lambda source: noisy, deviation=1.0)

    monkeypatch.setattr(module, "eigenvalue_noise", values)
    monkeypatch.setattr(module, "matrix_noise", second)


def estimate(prediction, rows=1000, matrix=C):
    with Source(SeededEntropy(0)) as source:
        return separate(moments_of(matrix, rows), rows=rows, prediction=prediction, budget=PURE, source=source).matrix


def test_injected_noise_gives_the_reference_matrix(monkeypatch) -> None:
    inject(monkeypatch, EIGENVALUE_NOISE, Z)
    found = estimate(W)
    assert found == pytest.approx(np.array([[0.510411, 0.208839], [0.208839, 0.279589]]), abs=1e-6)
    assert np.abs(estimate(W + 0.7 * np.eye(2)) - found).max() < 1e-13
    assert found == pytest.approx(found.T)


def test_a_mismatch_of_ranks_or_noisy_eigenvalues_would_be_noticed(monkeypatch) -> None:
    """Two traps: eigenvalues paired the wrong way round, and those of the noisy matrix used instead of Λ + z."""
    inject(monkeypatch, EIGENVALUE_NOISE, Z)
    right = estimate(W)
    values, (noisy, vectors) = np.linalg.eigvalsh(C - W), np.linalg.eigh(C - W + Z)
    assert paired(values + EIGENVALUE_NOISE, vectors) + W == pytest.approx(right, abs=1e-9)
    assert np.abs(paired((values + EIGENVALUE_NOISE)[::-1], vectors) + W - right).max() > 0.1
    assert np.abs(paired(noisy, vectors) + W - right).max() > 0.01
    assert np.linalg.eigvalsh(right - W) == pytest.approx(values + EIGENVALUE_NOISE, abs=1e-9)


def test_the_error_bound_with_its_corrected_constant(monkeypatch) -> None:
    generator = np.random.default_rng(4)
    for trial in range(60):
        size = 2 + trial % 5
        root = generator.normal(size=(size, size)) / size
        truth, guess = root @ root.T, np.diag(generator.normal(size=size))
        shift = generator.normal(size=(size, size)) * 10.0 ** -(trial % 3)
        shift, noise = (shift + shift.T) / 2, generator.normal(size=size) * 10.0 ** -(trial % 4)
        inject(monkeypatch, noise, shift)
        found = estimate(guess, matrix=truth)
        centred = np.linalg.eigvalsh(truth - guess)
        distance = np.abs(centred - np.median(centred)).sum()
        bound = 5 * ((noise**2).sum() + np.abs(np.linalg.eigvalsh(shift)).max() * distance)
        assert ((found - truth) ** 2).sum() <= bound


def test_reference_noise_scales() -> None:
    """n = 1000, d = 10: swap at ε = 1 and ρ = .5, half of each; and adding or removing."""
    swap, add = (moments_of(np.zeros((10, 10)), 1000, kind) for kind in (SWAP, ADD))

    def scale(moments, **price):
        return float(eigenvalue_noise(moments, Budget.of(**price)).noise.scale * moments.scale**2)

    assert scale(swap, epsilon="0.5") / 1000 == pytest.approx(0.004, rel=1e-6)
    assert scale(swap, rho="0.25") / 1000 == pytest.approx(0.002, rel=1e-6)
    assert scale(add, epsilon="0.5") == pytest.approx(2, rel=1e-6)
    assert scale(add, rho="0.25") == pytest.approx((1 / (2 * 0.25)) ** 0.5, rel=1e-6)


@pytest.mark.parametrize("kind", [ADD, SWAP])
def test_claims_add_up_to_the_price_before_any_row(kind) -> None:
    public = mapped_moments(np.zeros((0, 3)), radius=1, neighbours=kind)
    pure = separate_claims(public, budget=Budget.of(epsilon="0.7"))
    assert (pure.pure().epsilon, pure.numerics, pure.neighbours) == (Fraction("0.7"), "idealized", kind)
    concentrated = separate_claims(public, budget=Budget.of(rho="0.3"))
    assert Fraction("0.2999999999") < concentrated.zcdp().rho <= Fraction("0.3") + Fraction(1, 10**30)
    assert concentrated.numerics == "idealized"
    assert eigenvalue_noise(public, PURE).claims.pure().epsilon == 1
    assert separate_claims(public, budget=PURE, law="laplace").numerics == "idealized"


def test_the_law_of_the_eigenvalues_and_one_thirty_percent_off() -> None:
    public = moments_of(np.diag([0.1, 0.2, 0.3]), 1000)
    unit = float(public.levels) ** 2
    private = np.array([1.0, 2.0, 3.0]) * 1000 * unit
    source = Source(SeededEntropy("values"))
    for price, law, scale in (({"epsilon": 2}, "laplace", 1.0), ({"rho": "0.5"}, "norm", 2**0.5)):
        law_of = eigenvalue_noise(public, Budget.of(**price), private)
        noise = np.array([law_of.release(source) - private for _ in range(2000)]) / unit
        assert stats.kstest(noise.ravel() / scale, law).pvalue > 1e-8
        assert stats.kstest(noise.ravel() / scale / 1.3, law).pvalue < 1e-8
        assert stats.kstest(noise.ravel() / scale * 1.3, law).pvalue < 1e-8


def test_rounding_eigenvalues_stays_within_the_stated_sensitivity() -> None:
    generator = np.random.default_rng(6)
    public = mapped_moments(np.zeros((0, 4)), radius=1, levels=5, neighbours=SWAP)
    for _ in range(300):
        base = generator.normal(size=(4, 4)) * 9
        rows = generator.normal(size=(2, 4))
        rows *= 5 / np.linalg.norm(rows, axis=1, keepdims=True)
        values = [np.linalg.eigvalsh(base + base.T + np.outer(row, row)) for row in rows]
        for pure, norm in ((True, 1), (False, 2)):
            first, second = (on_integers(public, each, pure=pure) for each in values)
            moved = np.linalg.norm((first.value - second.value).astype(float), norm)
            assert moved <= float(first.sensitivity) + 1e-9
    huge = on_integers(public, np.array([1e300, -1e300]), pure=True).value
    assert np.abs(huge.astype(float)).max() <= 2.0**62


@pytest.mark.parametrize(
    "prediction",
    [np.zeros((3, 3)), np.zeros(2), np.array([[np.nan, 0], [0, 0]]), np.array([[np.inf, 0], [0, 0]])],
)
def test_predictions_that_make_no_sense_are_refused(prediction) -> None:
    source = Source(SeededEntropy(0))
    with pytest.raises(RangeError, match="prediction"):
        separate(moments_of(C, 10), rows=10, prediction=prediction, budget=CONCENTRATED, source=source)


def test_a_prediction_far_off_every_scale_is_cut_and_raises_nothing() -> None:
    source = Source(SeededEntropy(0))
    found = separate(moments_of(C, 10), rows=1e12, prediction=1e200 * np.eye(2), budget=CONCENTRATED, source=source)
    assert np.isfinite(found.matrix).all()


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("price", [{"budget": CONCENTRATED}, {"budget": PURE}, {"budget": PURE, "law": "laplace"}])
def test_few_or_odd_rows_never_raise(rows, price) -> None:
    data = np.full((rows, 3), np.nan if rows == 1 else 1e300)
    for noisy_rows in (-3.0, 0.0, float(rows)):
        source = Source(SeededEntropy(1))
        found = separate(mapped_moments(data, radius=1), rows=noisy_rows, prediction=np.eye(3), **price, source=source)
        assert np.isfinite(found.matrix).all()
    with pytest.raises(StrictError):
        separate(
            mapped_moments(data, radius=1), rows=1, prediction=np.eye(3), **price,
            source=Source(SeededEntropy(1), declared="exact"),
        )  # fmt: skip


def spectrum_rows(count, size, seed):
    generator = np.random.default_rng(seed)
    values = 1 / np.arange(1, size + 1)
    turn = np.linalg.qr(generator.normal(size=(size, size)))[0]
    rows = generator.normal(size=(count, size)) * np.sqrt(values / values.sum()) @ turn.T * 0.8
    return rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))


def test_shaped_noise_against_the_printed_one() -> None:
    """d = 50: GOE noise against the same deviation on every entry, and Wishart against Laplace noise as printed."""
    size, source, generator = 50, Source(SeededEntropy("shape")), np.random.default_rng(7)
    rows = spectrum_rows(2000, size, seed=8)
    moments, truth = mapped_moments(rows, radius=1, neighbours=SWAP), rows.T @ rows / 2000
    upper = np.triu_indices(size)

    def mirrored(entries):
        matrix = np.zeros((size, size))
        matrix[upper] = entries
        return matrix + np.triu(matrix, 1).T

    def error(matrix):
        return np.linalg.norm(matrix - truth)

    ratios = []
    for _ in range(15):
        shaped = error(matrix_noise(moments, Budget.of(rho="0.5")).release(source) / 2000)
        ratios.append(shaped / np.linalg.norm(mirrored(generator.normal(size=len(upper[0])) / (2000 * 0.5**0.5))))
    assert 0.68 < np.median(ratios) < 0.78

    rows = spectrum_rows(20_000, size, seed=9)
    moments, truth = mapped_moments(rows, radius=1, neighbours=SWAP), rows.T @ rows / 20_000
    plain, full, ours, printed = [], [], [], []
    nothing = np.zeros((size, size))
    for _ in range(9):
        plain.append(error(matrix_noise(moments, PURE).release(source) / 20_000))
        laplace = generator.laplace(size=len(upper[0])) * size * 2**0.5 / 20_000
        full.append(np.linalg.norm(mirrored(laplace)))
        ours.append(error(separate(moments, rows=20_000, prediction=nothing, budget=PURE, source=source).matrix))
        vectors = np.linalg.eigh(truth + mirrored(2 * laplace))[1]
        printed.append(error(paired(np.linalg.eigvalsh(truth) + generator.laplace(size=size) * 4 / 20_000, vectors)))
    assert np.median(plain) / np.median(full) <= 0.17
    assert np.median(ours) / np.median(printed) <= 0.35
