"""Rows, predictors, errors and gradients as integers, row by row: why the noise of a descent meets exact sums.

Everything that is added up is an integer vector that depends on one row and on public integers, and on nothing else:
not on other rows, the size of a block, the number of threads, or the order. Products of floats that hold
integers below 2⁵³ are exact in any order, so BLAS may compute them; functions are tables.

The lemma. For every row, ‖z·e'‖ <= clip exactly. With one output |e'| <= ⌊clip/r⌋ and r >= ‖z‖. With several,
|e'_k| <= |e_k|·clip/(r·r_e), rounded towards 0, with r >= ‖z‖ and r_e >= ‖e‖. Hand-made because the guarantee rests on
it (descent proof page).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.regression.descent.geometry import Floats, Geometry
from sidelight.regression.rows import is_sparse

Integers = NDArray[np.int64]

#: A row of the full norm has codes of this length.
CODE_BITS = 14
ROW_LENGTH = 1 << CODE_BITS
#: The constant column ½ of a row of codes.
HALF = ROW_LENGTH // 2
#: Bits of the fractions of mapped rows, of coefficients, of predictors, and of errors.
Z_BITS, _THETA_BITS, _U_BITS, ERROR_BITS = 12, 16, 28, 14
_LARGEST_Z = 1 << 20
_LARGEST_FACTOR = 1 << 24
_MOST_SHIFT = 40
_LARGEST_ERROR = 1 << 17
#: Tables go over predictors from -16 to 16 in steps of 1/256.
_STEP_BITS = 8
_ENDS = 16 << _STEP_BITS
_EXP_BITS = 20
#: Losses of the choice are 0..LOSS_LEVELS.
LOSS_LEVELS = 1024
#: Entries of z that are computed at once.
_CELLS = 1 << 17
#: Rows that are added up in floats before integers take over.
MOST_ROWS_AT_ONCE = 1 << 18


def row_codes(features: Any, data_norm: float) -> Any:
    """Return rows of norm at most `data_norm` as whole numbers (floats, dense or CSR) of length at most `ROW_LENGTH`.

    Entry by entry, truncated, so that a row's codes depend on no other row. The factor is rounded once and each product
    once: Σ code² <= 2²⁸·(1 + 2⁻⁵⁰), an integer, so at most 2²⁸. A row for which that failed would count as zeros.
    """
    factor = ROW_LENGTH / data_norm
    if is_sparse(features):
        codes = features.copy()
        codes.data = np.trunc(codes.data * factor)
        squares = np.asarray(codes.multiply(codes).sum(axis=1)).reshape(-1)
        if (squares > ROW_LENGTH**2).any():
            codes.data[np.repeat(squares > ROW_LENGTH**2, np.diff(codes.indptr))] = 0.0
        return codes
    codes = features * factor
    np.trunc(codes, out=codes)
    long = np.einsum("ij,ij->i", codes, codes) > ROW_LENGTH**2
    if long.any():
        codes[long] = 0.0
    return codes


def gram_of(codes: Floats) -> Integers:
    """Return Σ (a, 2¹³)(a, 2¹³)ᵀ over rows of codes: a row adds a matrix of Frobenius norm at most 2²⁸ + 2²⁶."""
    d = codes.shape[1]
    total = np.zeros((d + 1, d + 1), np.int64)
    for start in range(0, len(codes), MOST_ROWS_AT_ONCE):
        part = codes[start : start + MOST_ROWS_AT_ONCE]
        total[:d, :d] += (part.T @ part).astype(np.int64)
        side = (HALF * part.sum(axis=0)).astype(np.int64)
        total[d, :d] += side
        total[:d, d] += side
        total[d, d] += HALF * HALF * len(part)
    return total


#: How far a row moves `gram_of`, in Frobenius norm: ‖a‖² + (2¹³)².
GRAM_SENSITIVITY = ROW_LENGTH**2 + HALF**2


@dataclass(frozen=True, kw_only=True, eq=False)
class GeometryMap:
    """A geometry as public integers: codes a become z = (a·factors - offsets)/2^shift, rounded, and a constant."""

    geometry: Geometry

    @cached_property
    def shift(self) -> int:
        """The largest shift for which the factors fit."""
        assert self.geometry.map is not None
        largest = float(np.abs(self.geometry.map).max(initial=0.0))
        shift = _MOST_SHIFT
        while shift > 0 and largest * 2.0 ** (Z_BITS + shift - CODE_BITS) > _LARGEST_FACTOR - 1:
            shift -= 1
        return shift

    @cached_property
    def factors(self) -> Floats:
        """The map in whole numbers."""
        assert self.geometry.map is not None
        scaled = np.rint(self.geometry.map * 2.0 ** (Z_BITS + self.shift - CODE_BITS))
        return np.clip(scaled, -_LARGEST_FACTOR, _LARGEST_FACTOR)

    @cached_property
    def offsets(self) -> Floats:
        """The mapped centre in whole numbers."""
        assert self.geometry.map is not None
        largest = 2.0 ** (CODE_BITS + 24) * math.sqrt(self.geometry.features)
        moved = self.geometry.centre @ self.geometry.map * 2.0 ** (Z_BITS + self.shift)
        return np.clip(np.rint(moved), -largest, largest)

    def mapped(self, codes: Any) -> Any:
        """Return z: whole numbers of 2⁻¹², or, without a map, the codes themselves (the constant is `last`)."""
        if self.geometry.map is None:
            return codes
        d = self.geometry.features
        out = np.empty((self.geometry.columns, len(codes)))  # a column after the other: products take half the time
        step = max(64, _CELLS // d)
        moved = (self.offsets - 2.0 ** (self.shift - 1))[:, None]  # with the half that rounds: still exact below 2⁵³
        for start in range(0, len(codes), step):  # pieces that stay in the cache; the integers are the same
            inside = self.factors.T @ codes[start : start + step].T
            inside -= moved
            inside *= 2.0**-self.shift
            np.floor(inside, out=inside)
            out[:d, start : start + step] = _limited(inside, _LARGEST_Z)
        if self.geometry.intercept:
            out[-1] = 1 << Z_BITS
        return out.T

    @property
    def last(self) -> int:
        """The constant column that z does not hold itself: ½ for codes, 0 where there is none or z has it."""
        return HALF if self.geometry.map is None and self.geometry.intercept else 0

    @property
    def gradient_bits(self) -> int:
        """The bits of the fractions of gradients."""
        return ERROR_BITS + (CODE_BITS if self.geometry.map is None else Z_BITS)

    def theta_codes(self, theta: Floats) -> Floats:
        """Return coefficients in whole numbers, so small that a predictor stays below 2⁵³."""
        if self.geometry.map is None:
            return _limited(np.rint(theta * 2.0 ** (_U_BITS - CODE_BITS)), 2.0**28)
        limit = 2.0 ** (32 - math.ceil(math.log2(self.geometry.features + 2)))
        return _limited(np.rint(theta * 2.0**_THETA_BITS), limit)

    def seen(self, theta: Floats) -> Floats:
        """Return coefficients as the rows meet them: rounded to their whole numbers, in their own unit."""
        bits = _U_BITS - CODE_BITS if self.geometry.map is None else _THETA_BITS
        return np.asarray(self.theta_codes(theta) * 2.0**-bits)


def _limited(values: Floats, limit: float) -> Floats:
    """Limit entries in place; `np.minimum` and `np.maximum` of a number take five times as long."""
    return np.clip(values, -limit, limit, out=values)


def shortened(z: Integers) -> Floats:
    """Return mapped rows, those longer than `ROW_LENGTH` shortened to it: z·2¹⁴/⌈‖z‖⌉, rounded towards 0."""
    norms, whole = whole_norms(z), z.astype(np.int64)
    long = np.flatnonzero(norms > ROW_LENGTH)
    whole[long] = np.sign(whole[long]) * (np.abs(whole[long]) * ROW_LENGTH // norms[long, None])
    return whole.astype(np.float64)


def whole_norms(z: Any, last: int = 0) -> Integers:
    """Return ⌈‖(z, last)‖⌉ for every row, at least 1."""
    if is_sparse(z):
        squares = np.asarray(z.multiply(z).sum(axis=1), np.float64).reshape(-1)
    else:
        values = z.astype(np.float64, copy=False)
        squares = np.einsum("ij,ij->i", values, values)
    return np.maximum(root_up(squares + float(last) ** 2), 1)


def root_up(squares: Floats) -> Integers:
    """Return the least integers whose squares are at least these whole numbers below 2⁵³."""
    root = np.floor(np.sqrt(squares))
    root -= root * root > squares
    root += root * root < squares
    return root.astype(np.int64)


def predictors(z: Any, theta: Floats, last: int = 0) -> Floats:
    """Return u = z·theta in whole numbers of 2⁻²⁸."""
    found = z @ theta if last == 0 else z @ theta[:-1]
    return np.asarray(found + last * theta[-1] if last else found)


def gradient_sum(z: Any, errors: Floats, last: int = 0) -> Integers:
    """Return Σ z·e' over rows, (columns, outputs), exactly."""
    columns = z.shape[1] + bool(last)
    total = np.zeros((columns, errors.shape[1]), np.int64)
    for start in range(0, z.shape[0], MOST_ROWS_AT_ONCE):
        part, some = z[start : start + MOST_ROWS_AT_ONCE], errors[start : start + MOST_ROWS_AT_ONCE]
        inside = np.asarray(part.T @ some)
        total[: z.shape[1]] += inside.astype(np.int64)
        if last:
            total[-1] += (last * some.sum(axis=0)).astype(np.int64)
    return total


# --- errors: the derivative of the loss in the predictor, in units of 2⁻¹⁴ -------------------------------------------


def squared_errors(u: Floats, targets: Floats) -> Floats:
    """Return prediction minus target; both (rows, 1)."""
    found = u * 2.0 ** (ERROR_BITS - _U_BITS)
    np.floor(found, out=found)
    found -= targets
    return _limited(found, _LARGEST_ERROR)


def logistic_errors(u: Floats, signs: Floats, weights: tuple[float, float] = (1.0, 1.0)) -> Floats:
    """Return -y/(1 + exp(y·u)) for signs y of -1 and 1, times the weight of the class."""
    places = logistic_places(u, signs)
    if weights == (1.0, 1.0):
        found: Floats = logistic_table().take(places)
        found *= signs
        return np.negative(found, out=found)
    tables = np.stack([np.rint(logistic_table() * weight) for weight in weights])
    return np.asarray(-signs * tables[(signs > 0).astype(np.intp), places])


def logistic_places(u: Floats, signs: Floats) -> NDArray[np.intp]:
    """Return the place of y·u in the tables."""
    steps = signs * u
    steps *= 2.0 ** (_STEP_BITS - _U_BITS)
    steps += _ENDS  # a product of fractions of 28 bits is a fraction of 20 bits: the sum is exact, or far beyond
    np.floor(steps, out=steps)
    np.clip(steps, 0, 2 * _ENDS - 1, out=steps)
    return steps.astype(np.intp)


def softmax_parts(u: Floats) -> Floats:
    """Return ⌊2¹⁴·p⌋ for the probabilities of the classes, (rows, classes)."""
    steps = np.floor(u * 2.0 ** (_STEP_BITS - _U_BITS))
    steps -= steps.max(axis=1, keepdims=True)
    parts = exponential_table()[(np.maximum(steps, -_ENDS) + _ENDS).astype(np.intp)]
    total = np.zeros(len(parts))
    for column in parts.T:  # whole numbers: exact in any order
        total += column
    # quotients of whole numbers below 2³⁵ by ones below 2³⁶ are not near a whole number unless they are one
    return np.floor(parts * 2.0**ERROR_BITS / total[:, None])


def softmax_errors(u: Floats, classes: NDArray[np.intp], weights: tuple[float, ...] = ()) -> Floats:
    """Return p minus the indicator of the row's class, times the weight of the class."""
    errors = softmax_parts(u)
    errors[np.arange(len(errors)), classes] -= 2.0**ERROR_BITS
    return np.rint(errors * np.asarray(weights)[classes][:, None]) if weights else errors


def clipped_errors(errors: Floats, norms: Integers | Floats, clip: int) -> Floats:
    """Return e' with ‖z·e'‖ <= clip for rows z whose norms are at most these whole numbers.

    One output: |e'| <= ⌊clip/r⌋. Several: e is shortened in its own direction, each entry rounded towards 0; a
    signed division would round away from 0, and break the lemma.
    """
    if errors.shape[1] == 1:
        # exact: below 2⁵³, a quotient is farther from the next whole number than a rounding, unless it is one
        limit = (np.floor(clip / norms) if clip < 1 << 53 else clip // norms.astype(np.int64))[:, None]
        found = np.maximum(errors, -limit)
        return np.asarray(np.minimum(found, limit, out=found))
    lengths = root_up(np.einsum("ij,ij->i", errors, errors))
    long = np.flatnonzero(norms * lengths > clip)
    if len(long):
        errors = errors.copy()
        some = errors[long].astype(np.int64)
        shorter = np.abs(some) * clip // (norms[long].astype(np.int64) * lengths[long])[:, None]
        errors[long] = np.sign(some) * shorter
    return errors


def offset_sensitivity(outputs: int) -> int:
    """Return the longest (probability - label) of a row, whole, in units of 2⁻¹⁴: of one output 1, of several √2.

    Of several, the entries of the other classes add up to at most 1 and the own one is at most 1; entries are rounded
    down, and weights are at most 1.
    """
    whole = 1 << ERROR_BITS
    return whole if outputs == 1 else math.isqrt(2 * whole**2) + 1


# --- what a row says in the choice: a vote of -1, 0 or 1, or a loss of 0..1024 ---------------------------------------


def squared_votes(u: Floats, other: Floats, targets: Floats) -> Integers:
    """Return 1 for every row to whose target the first prediction is nearer, -1 where the other is, 0 for a tie.

    A vote is the same whatever the target's range: a distance in half ranges is a small number wherever the range is
    wide, and a choice that may count a row once would hardly hear it.
    """
    scale = 2.0 ** (ERROR_BITS - _U_BITS)
    near, far = np.abs(np.floor(u * scale) - targets), np.abs(np.floor(other * scale) - targets)
    return np.asarray(np.sign(far - near)[:, 0], np.int64)


def logistic_losses(u: Floats, signs: Floats) -> Integers:
    """Return half the negative log likelihood, capped at 1."""
    return logistic_loss_table()[logistic_places(u, signs)][:, 0]


def softmax_losses(u: Floats, classes: NDArray[np.intp]) -> Integers:
    """Return the negative log likelihood over twice that of equal classes, capped at 1."""
    parts = softmax_parts(u)[np.arange(len(u)), classes].astype(np.intp)
    return softmax_loss_table(u.shape[1])[parts]


# --- tables ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def logistic_table() -> Floats:
    """Return rint(2¹⁴/(1 + exp(x))) in the middle of each step of 1/256 from -16 to 16."""
    return _frozen([float(round(2**ERROR_BITS / (1 + math.exp(x)))) for x in _middles()])


@lru_cache(maxsize=1)
def exponential_table() -> Floats:
    """Return rint(2²⁰·exp(j/256)) for j from -4096 to 0."""
    return _frozen([float(round(2**_EXP_BITS * math.exp(j / 256))) for j in range(-_ENDS, 1)])


@lru_cache(maxsize=1)
def logistic_loss_table() -> Integers:
    """Return ⌊1024·min(½·ln(1 + exp(-x)), 1)⌋ in the middle of each step."""
    found = [math.floor(LOSS_LEVELS * min(0.5 * math.log1p(math.exp(-x)), 1.0)) for x in _middles()]
    return _frozen(found).astype(np.int64)


@lru_cache(maxsize=16)
def softmax_loss_table(classes: int) -> Integers:
    """Return ⌊1024·min(-ln(max(p, ½)/2¹⁴)/(2·ln max(K, e)), 1)⌋ for p from 0 to 2¹⁴."""
    twice = 2 * math.log(max(float(classes), math.e))
    whole = 2**ERROR_BITS
    # Values at powers of two are whole: lifted by more than the last bit of a logarithm, so that all machines agree.
    lift = 2.0**-30
    found = [
        math.floor(LOSS_LEVELS * min(-math.log(max(p, 0.5) / whole) / twice, 1.0) + lift) for p in range(whole + 1)
    ]
    return _frozen(found).astype(np.int64)


def _middles() -> list[float]:
    return [(i + 0.5) / 256 for i in range(-_ENDS, _ENDS)]


def _frozen(values: Any) -> Floats:
    table = np.array(values, np.float64)
    table.flags.writeable = False
    return table
