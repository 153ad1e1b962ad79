"""How one budget is shared: count against sums, finding the interval against measuring in it, statistics of a summary.

All of it is public arithmetic; the theorems are on the summaries proof page, sections 3 and 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Unpack

from sidelight.errors import RangeError
from sidelight.guarantees import GDP, Amount, Claims, Context, native_claims, positive
from sidelight.guarantees.conversions import pure_within_gdp
from sidelight.guarantees.intervals import root_down, root_up
from sidelight.noise import scale_up

Price = Literal["epsilon", "rho", "mu"]
#: A predicted mean nearer to the centre than this is not trusted to stay there.
_LEAST_DESIGN = 0.1
_SHARE_BITS = 20
#: Of the budget, for the labels of groups that nobody declared; the rest measures in the published groups.
SELECTION_SHARE = Fraction(1, 3)
#: Of the budget, for the edges of a histogram whose bins are found privately.
EDGES_SHARE = Fraction(3, 10)
#: Of the budget, for a count that says which groups' quantiles have support.
SUPPORT_SHARE = Fraction(1, 10)


# --- count and sums under Gaussian noise ------------------------------------------------------------------------------


def count_share(columns: int = 1, *, design: float | None = None) -> Fraction:
    """Return the share of μ² that the count gets beside the sums of `columns` columns; the sums share the rest equally.

    Without a design the minimax share 1/(2(√d+1)): for every mean the variance is at most (2√d+2)/(2√d+1) times that
    of the best split for it, and no fixed split does better. With a predicted |τ| of the mean on [-1, 1] it is
    τ/(√d+τ), the best split there (τ clipped to [0.1, 1]).

    >>> count_share(), count_share(9)
    (Fraction(1, 4), Fraction(1, 8))
    """
    if isinstance(columns, bool) or not isinstance(columns, int) or columns < 1:
        raise RangeError(f"columns must be a whole number of at least 1, got {columns!r}")
    root = math.isqrt(columns)
    if design is None:
        if root * root == columns:
            return Fraction(1, 2 * (root + 1))
        return _short(1 / (2 * (math.sqrt(columns) + 1)))
    if not math.isfinite(design):
        raise RangeError(f"the predicted mean must be finite, got {design}")
    tau = min(max(abs(design), _LEAST_DESIGN), 1.0)
    return _short(tau / (math.sqrt(columns) + tau))


def mean_variance(share: Fraction | float, tau: float, columns: int = 1) -> float:
    """Return the variance of one column's sum less its mean times the count, σ_s² + τ²σ_n², for μ = 1."""
    part = float(share)
    return columns / (1 - part) + tau * tau / part


def best_mean_variance(tau: float, columns: int = 1) -> float:
    """Return the least of it for known |τ|: (√d + |τ|)²; no Gaussian mechanism does better for d = 1."""
    return (math.sqrt(columns) + abs(tau)) ** 2


@dataclass(frozen=True, kw_only=True)
class CountAndSums:
    """Noise scales of the integers n, Σt·T and Σ(1 - t²)·T of values t of -1..1: a disc of T levels.

    Guarantee: GDP(mu) for all of them together: the second moment costs nothing (summaries proof page, Theorem 7).
    """

    mu: Fraction
    count_scale: Fraction
    sum_scale: Fraction

    @property
    def square_scale(self) -> Fraction:
        """That of the second moments: the same as that of the sums."""
        return self.sum_scale

    def claims(self, **context: Unpack[Context]) -> Claims:
        """Return what the noisy counts, sums and second moments of all groups prove together."""
        return native_claims(GDP(self.mu, **context), mechanism="rounded_gaussian")


def count_and_sums(
    *, mu: Amount, l2_squared: Fraction | int, levels: int, columns: int = 1, share: Fraction | None = None
) -> CountAndSums:
    """Return the noise scales for counts and centred sums by group under one GDP price.

    Args:
        mu: The price of all of them together.
        l2_squared: Of the counts by group (`ContributionBounds.l2_squared`); four times that of adding one to replace a
            unit, because centred sums have signs (`ContributionBounds.sensitivity("l2", signed=True)`).
        levels: T, the norm of one row: `Value.square_levels` of a disc, M of centred sums alone.
        columns: How many columns share the count.
        share: The count's share of μ²; `count_share(columns)` if left out.

    >>> scales = count_and_sums(mu=1, l2_squared=1, levels=1)
    >>> float(scales.count_scale), round(float(scales.sum_scale) ** 2, 9)
    (2.0, 1.333333333)
    """
    shift, part = positive(mu, name="mu"), count_share(columns) if share is None else share
    if not 0 < part < 1:
        raise RangeError(f"the count's share must lie strictly between 0 and 1, got {part}")
    # GDP(μ) iff L2² (1/σ_n² + Σ over columns of T²/σ_s²) <= μ²
    count_scale = scale_up(root_up(Fraction(l2_squared) / part) / shift)
    sum_scale = scale_up(levels * root_up(columns * Fraction(l2_squared) / (1 - part)) / shift)
    return CountAndSums(mu=shift, count_scale=count_scale, sum_scale=sum_scale)


def _short(share: float) -> Fraction:
    return Fraction(round(share * 2**_SHARE_BITS), 2**_SHARE_BITS)


# --- where to clip, and how much to spend on it -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ClipShares:
    """Shares of a price: for the centre and spread, for the radius, and for the measurement in the interval."""

    centre: Fraction
    radius: Fraction
    measure: Fraction


def clip_shares(price: Price, *, known: Literal["nothing", "values", "centre"] = "nothing") -> ClipShares:
    """Return the shares of a price when bounds are not declared.

    Args:
        price: Of ε, of ρ, or (for "mu") of μ². Selections are of bounded range, which is cheap in ρ and μ²: half the
            shares of ε do there.
        known: "nothing"; "values": a predicted centre and spread, of which only the median is measured; "centre": the
            predicted centre is taken as it is.

    >>> clip_shares("epsilon")
    ClipShares(centre=Fraction(1, 8), radius=Fraction(1, 8), measure=Fraction(3, 4))
    """
    if price not in ("epsilon", "rho", "mu"):
        raise RangeError(f"price must be 'epsilon', 'rho' or 'mu', got {price!r}")
    shares = {
        "nothing": (Fraction(1, 8), Fraction(1, 8)),
        "values": (Fraction(6, 100), Fraction(1, 10)),
        "centre": (Fraction(0), Fraction(1, 10)),
    }
    if known not in shares:
        raise RangeError(f"known must be 'nothing', 'values' or 'centre', got {known!r}")
    centre, radius = shares[known] if price == "epsilon" else (each / 2 for each in shares[known])
    return ClipShares(centre=centre, radius=radius, measure=1 - centre - radius)


def selection_epsilon(price: Price, amount: Amount, *, levels: int = 1, rows_per_unit: int = 1) -> Fraction:
    """Return the ε of each exponential mechanism of `levels` in a row that a share of a price pays, for one row.

    ε/levels; √(8ρ/levels); or the bounded range whose μ is √(μ²/levels), where `amount` is μ². All rows of a unit lie
    in one table, so each is divided by `rows_per_unit` under every price. A tree of the three quartiles has two levels.

    >>> float(selection_epsilon("rho", "0.01", levels=2))
    0.2
    """
    value = positive(amount, name=price if price != "mu" else "mu²") / levels
    if price == "epsilon":
        each = value
    elif price == "rho":
        each = root_down(8 * value)
    elif price == "mu":
        each = 2 * pure_within_gdp(root_down(value))  # BoundedRange(e) has the μ of PureDP(e/2)
    else:
        raise RangeError(f"price must be 'epsilon', 'rho' or 'mu', got {price!r}")
    return each / rows_per_unit


# --- a summary of one column ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SummaryShares:
    """Shares of a price: quartiles of all rows, quartiles of each group, the clipping radius, moments by group."""

    quartiles: Fraction
    group_quartiles: Fraction
    radius: Fraction
    moments: Fraction


def summary_shares(*, by_groups: bool, bounded: bool) -> SummaryShares:
    """Return how a summary shares its price; with both bounds declared the radius's share goes to the moments.

    >>> summary_shares(by_groups=False, bounded=True).moments
    Fraction(3, 5)
    """
    radius = Fraction(1, 10)
    if by_groups:
        total, groups, moments = Fraction(1, 10), Fraction(35, 100), Fraction(45, 100)
    else:
        total, groups, moments = Fraction(4, 10), Fraction(0), Fraction(5, 10)
    if bounded:
        radius, moments = Fraction(0), moments + radius
    return SummaryShares(quartiles=total, group_quartiles=groups, radius=radius, moments=moments)
