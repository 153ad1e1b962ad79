"""Between two noisy gradients: the curvature between columns, the posterior of the coefficients, and the next point.

Free given what was released. There is no test of convergence and nothing to fail: where a number is not finite, the
point stays where it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sidelight.regression.additive.basis import MOST_COMPONENTS, Coordinates
from sidelight.regression.descent.integer_rows import Z_BITS
from sidelight.regression.descent.rules import Kind
from sidelight.regression.losses import Floats
from sidelight.regression.losses.loss import Mask

#: The clip of a residual of classes; that of several is √2 times as long.
_CLASS_CLIPS: dict[Kind, float] = {"logistic": 0.75, "softmax": 0.75 * math.sqrt(2)}
#: Noise of the Gram matrix relative to the correlations that are looked for, up to which it has components.
_MOST_EDGE = 0.3
_ROOM = 1.5
_LEAST_EIGENVALUE = 0.1
_LARGEST_CORRELATION = 0.98
_EM_ROUNDS = 4
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(21)


@dataclass(frozen=True, kw_only=True)
class Scales:
    """Public and released numbers that all rules share.

    Args:
        kind: The loss.
        columns: d.
        rows: n̂, the released number of rows.
        base: The released mean in half ranges, or log odds.
        variance: The target's, or p(1 - p).
        mu_steps: What all steps together cost.
        mu_gram: What the Gram matrix costs.
        rows_per_unit: k.
        classes: How many classes a softmax has; of one of them `base` is the log odds against the rest, and `variance`
            the share, by which its second derivative is bounded.
    """

    kind: Kind
    columns: int
    rows: float
    base: float
    variance: float
    mu_steps: float
    mu_gram: float
    rows_per_unit: int
    classes: int = 2

    @property
    def signal(self) -> float:
        """V₀, the variance that curves are thought to have together."""
        if self.kind == "softmax":  # the difference of two classes varies as log odds of two do
            return 1.5 * (self.classes - 1) / (2 * self.classes)
        return self.variance / 2 if self.kind == "squared" else 1.5

    @property
    def prior(self) -> float:
        """κ₀, of one column."""
        return float(self.signal / self.columns**0.75)

    @property
    def noise(self) -> float:
        """a², the variance of a coefficient's noise for rows of length 1."""
        clip, curvature = 1.5 * math.sqrt(self.variance / 2), 1.0
        if self.kind != "squared":
            clip, curvature = _CLASS_CLIPS[self.kind], 0.7 * self.variance
        return float(self.rows_per_unit * clip / (self.mu_steps * self.rows * curvature)) ** 2

    @property
    def unsure_intercept(self) -> float:
        """The prior variance of the intercept's correction."""
        return self.variance if self.kind == "squared" else 1.0

    def edge(self, components: int) -> float:
        """Return the noise of the Gram matrix of a number of components, in correlations."""
        return float(math.sqrt(2) * self.rows_per_unit * _ROOM * components**1.5 / (self.mu_gram * self.rows))

    def of_class(self, share: float) -> Scales:
        """Return the scales of one class of several."""
        return replace(self, base=math.log(share / (1 - share)), variance=share)

    def passes(self, place: Coordinates) -> tuple[int, float]:
        """Return T and x, the noise-to-signal ratio."""
        x = math.sqrt(self.noise * place.trace * place.dimension / self.signal)
        return (6 if x > 0.25 else 10), x


def leading(scales: Scales, place: Coordinates) -> int:
    """Return M, how many components of a column enter the Gram matrix."""
    sizes = np.array([len(each) for each in place.weights])
    for most in range(MOST_COMPONENTS, 1, -1):
        if scales.edge(int(np.minimum(sizes, most).sum())) <= _MOST_EDGE:
            return most
    return 1


def gram_radius(components: int) -> int:
    """Return R_q, the length of a row of leading components in 2⁻¹²."""
    return math.isqrt(int(_ROOM * components * 4**Z_BITS))


def curvature(place: Coordinates, gram: Floats, *, most: int, edge: float, numbers: Mask) -> Floats:
    """Return H, how the components vary together, with a ridge that keeps steps from diverging.

    Args:
        place: The coordinates.
        gram: The noisy Gram matrix of leading components over the number of rows.
        most: M.
        edge: The noise of the matrix.
        numbers: Which columns are numbers.
    """
    owner, order = place.owner, place.order
    whole = np.eye(len(owner))
    first = order < most
    if first.any():
        same = owner[first][:, None] == owner[first][None, :]
        apart = np.where(same, 0.0, gram)
        values, vectors = np.linalg.eigh(apart)
        with np.errstate(divide="ignore", invalid="ignore"):
            kept = np.where(np.abs(values) > edge, values * (1 - (edge / values) ** 2), 0.0)
        apart = np.where(same, 0.0, (vectors * kept) @ vectors.T)
        apart = np.clip(apart, -_LARGEST_CORRELATION, _LARGEST_CORRELATION)
        whole[np.ix_(first, first)] += apart
        beyond = np.flatnonzero(~first & numbers[owner])
        at = np.flatnonzero(order == 0)[np.searchsorted(owner[order == 0], owner[beyond])]
        rho = whole[np.ix_(at, at)]
        alike = (order[beyond][:, None] == order[beyond][None, :]) & (owner[beyond][:, None] != owner[beyond][None, :])
        whole[np.ix_(beyond, beyond)] += np.where(alike, rho ** (order[beyond][:, None] + 1.0), 0.0)
    if len(owner):
        values, vectors = np.linalg.eigh(whole)
        whole = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
    ridge = 0.5 * edge + np.where(first, 0.0, 1.0)
    root = np.sqrt(place.v)
    found = np.eye(place.dimension)
    found[1:, 1:] = root[:, None] * (whole + np.diag(ridge)) * root[None, :]
    return (found + found.T) / 2


@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothingState:
    """Where the steps are: everything here was released or follows from it.

    Args:
        scales: The numbers that rules share.
        place: The coordinates.
        curvature: H.
        theta: The point, the intercept first.
        start: θ⁰, what the offset explains in these coordinates; its intercept is 0.
        mean: The prior mean of the intercept.
        spread: The prior variances of the components for κ = 1.
        intercept: That of the intercept.
        kappa: κ_j.
        drawn: κ₁, to which few components are drawn.
        noisy: x.
        seen: The points, gradients and noise variances so far.
        variances: The posterior covariance of the last point.
        stayed: How many steps had no finite point to go to.
    """

    scales: Scales
    place: Coordinates
    curvature: Floats
    theta: Floats
    start: Floats
    mean: float
    spread: Floats
    intercept: float
    kappa: Floats
    drawn: float
    noisy: float
    seen: tuple[tuple[Floats, Floats, float], ...] = ()
    variances: Floats | None = None
    stayed: int = 0

    @cached_property
    def explained(self) -> float:
        """The variance that the present point explains, without the intercept."""
        point = (self.theta + self.start)[1:]
        return float(point @ self.curvature[1:, 1:] @ point)

    @property
    def residual(self) -> float:
        """The variance of residuals of a number."""
        variance = self.scales.variance
        return max(variance - self.explained, 0.15 * variance)

    @property
    def clip(self) -> float:
        """C_t, the clip of a row's gradient."""
        share = _CLASS_CLIPS.get(self.scales.kind, 0.0)
        if self.scales.kind == "squared":
            factor = min(max(1.2 * math.sqrt(0.1 / self.noisy), 1.2), 3.0)
            share = min(2.0, factor * math.sqrt(self.residual))
        return share * math.sqrt(self.place.trace)

    @property
    def bend(self) -> float:
        """h, the mean second derivative of the loss."""
        if self.scales.kind == "squared":
            return 1.0
        odds = self.scales.base + math.sqrt(max(min(self.explained, 100.0), 0.0)) * _NODES
        p = 1 / (1 + np.exp(-np.clip(odds, -30, 30)))
        # of several classes the matrix diag(p) - pp' is at most diag(p): no step is too long, whatever the others do
        bends = p if self.scales.kind == "softmax" else p * (1 - p)
        return float(_NODE_WEIGHTS @ bends / _NODE_WEIGHTS.sum())

    @cached_property
    def _eigen(self) -> tuple[Floats, Floats]:
        values, vectors = np.linalg.eigh(self.curvature)
        return values, vectors

    def sharing(self, other: SmoothingState) -> SmoothingState:
        """Return this state, which has the curvature of another, with what that has computed of it."""
        self.__dict__["_eigen"] = other._eigen
        return self

    @property
    def covariance(self) -> Floats:
        """The posterior covariance of the point; of a state that never moved the prior's."""
        if self.variances is not None:
            return self.variances
        return np.diag(np.append(self.intercept, self.kappa[self.place.owner] * self.spread))

    def after(self, gradient: Floats, noise: float) -> SmoothingState:
        """Return the state after one more noisy gradient, whose entries have this noise variance."""
        seen = (*self.seen, (self.theta, gradient, noise))
        state = replace(self, seen=seen).sharing(self)  # H stays
        try:
            with np.errstate(all="ignore"):
                theta, kappa, covariance = state._posterior()
        except np.linalg.LinAlgError:
            return replace(state, stayed=self.stayed + 1)
        move = theta - self.theta
        length = math.sqrt(max(float(move @ self.curvature @ move), 0.0))
        most = 2.0 if self.scales.kind != "squared" else 2 * math.sqrt(self.scales.variance)
        if length > most:
            theta = self.theta + move * (most / length)
        if not (np.isfinite(theta).all() and np.isfinite(kappa).all() and np.isfinite(covariance).all()):
            return replace(state, stayed=self.stayed + 1)
        return replace(state, theta=theta, kappa=kappa, variances=covariance).sharing(self)

    def _posterior(self) -> tuple[Floats, Floats, Floats]:
        """Return the posterior mean of the coefficients, κ_j after a few rounds of EM, and the covariance."""
        used = self.seen[int(0.4 * len(self.seen)) :]
        weights = np.array([1 / noise for _, _, noise in used])
        point = weights @ np.array([theta for theta, _, _ in used]) / weights.sum()
        slope = weights @ np.array([gradient for _, gradient, _ in used]) / weights.sum()
        values, vectors = self._eigen
        unit = self.scales.rows * self.bend
        along = unit * values
        rest = self.residual if self.scales.kind == "squared" else 1.0
        inner = 1 / weights.sum() + along * rest
        informed = (vectors * (along**2 / inner)) @ vectors.T
        pulled = vectors @ (along / inner * (vectors.T @ ((vectors * along) @ (vectors.T @ point) - slope)))
        owner, kappa = self.place.owner, self.kappa
        counts = np.bincount(owner, minlength=len(kappa))
        for left in range(_EM_ROUNDS, -1, -1):
            prior = np.append(self.intercept, np.maximum(kappa[owner] * self.spread, 1e-300))
            root = np.sqrt(prior)
            # scaled by the prior, so that components of almost no prior variance do no harm
            inside = root[:, None] * informed * root[None, :] + np.eye(len(root))
            covariance = np.linalg.inv(inside) * root[:, None] * root[None, :]
            right = pulled.copy()
            right[0] += self.mean / self.intercept
            theta = covariance @ right
            if not left:
                break
            squares = (theta[1:] ** 2 + np.diag(covariance)[1:]) / self.spread
            kappa = (np.bincount(owner, weights=squares, minlength=len(kappa)) + self.drawn) / (counts + 1)
        return theta, kappa, covariance
