"""What one draw costs: computed from the law, the scale and the sensitivity with which it is drawn.

A price is made where the noise is drawn, from the numbers that the sampler gets, never from the budget that the noise
was planned with: so a scale that does not fit its budget is seen by the meter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal, Unpack

from sidelight.aggregates.bounded import Bounded, Norm, TraceNorm
from sidelight.guarantees import GDP, BoundedRange, Claims, Context, PureDP, decimal_text, native_claims

#: The kinds of amounts that are additive over adaptive draws: epsilon, rho, and the square of mu.
Amounts = Literal["epsilon", "rho", "mu_squared"]


@dataclass(frozen=True, kw_only=True)
class DrawPrice:
    """The price of one draw, or of several that one theorem prices together.

    Args:
        law: What is drawn: "discrete Laplace", "rounded Gaussian", "exponential choice", or the name of a mechanism.
        claims: What it proves by itself.
        samples: The laws and scales that may be drawn at this price; None where a theorem covers all that is drawn.
        statistic: What it is about, in words.
        theorem: Which theorem prices several draws together, and where it stands.
        covers: A sub-budget that the theorem includes: what later draws of the release may cost at no further charge.
        each: What a draw may cost that is made inside of this price and has one of its own; None for any.
        beyond: What an earlier look at the same noise proved, which is counted already: this one adds to the sums of
            the release what `claims` cost more (quantiles proof page, Theorem 7). It is not an independent draw.
    """

    law: str
    claims: Claims
    samples: tuple[tuple[str, Fraction], ...] | None = None
    statistic: str = ""
    theorem: str = ""
    covers: Claims | None = None
    each: Claims | None = None
    beyond: Claims | None = None

    @cached_property
    def cost(self) -> str:
        """The strongest claim, in words."""
        return str(self.claims.strongest)

    @cached_property
    def amounts(self) -> dict[Amounts, Fraction | None]:
        """What the claims cost in each kind, for their own neighbours and unit, as far as anybody asked."""
        return {}

    def amount(self, kind: Amounts) -> Fraction | None:
        """Return what the claims cost in a kind, None where they prove nothing in it."""
        if kind not in self.amounts:
            self.amounts[kind] = amount_of(self.claims, kind)
        return self.amounts[kind]

    def allows(self, law: str, scales: Sequence[Fraction]) -> bool:
        """Return whether noise of this law and these scales is what was priced."""
        return self.samples is None or all((law, scale) in self.samples for scale in scales)

    def includes(self, price: object) -> bool:
        """Return whether a draw at another price is one of those that this price pays for."""
        if not isinstance(price, DrawPrice):
            return False
        if self.samples is not None and not set(price.samples or ()) <= set(self.samples):
            return False
        return self.each is None or all(price.claims.implies(claim) for claim in self.each)


def amount_of(claims: Claims, kind: Amounts) -> Fraction | None:
    """Return what claims cost in a kind, None where they prove nothing in it."""
    if kind == "epsilon":
        pure = claims.pure()
        return None if pure is None else pure.epsilon
    if kind == "rho":
        zcdp = claims.zcdp()
        return None if zcdp is None else zcdp.rho
    gdp = claims.gdp()
    return None if gdp is None else gdp.mu**2


def laplace_price(bounded: Bounded, scale: Fraction) -> DrawPrice:
    """Return the price of discrete Laplace noise of a scale b on a statistic: epsilon = Δ₁/b."""
    context: Context = {"neighbours": bounded.neighbours, "unit": bounded.unit}
    return _laplace_price(bounded.sensitivity, scale, bounded.shape, bounded.norm, **context)


@lru_cache(maxsize=256)  # of public numbers: the next release of a query has the same price
def _laplace_price(
    sensitivity: Fraction, scale: Fraction, shape: tuple[int, ...], norm: Norm | TraceNorm, **context: Unpack[Context]
) -> DrawPrice:
    return DrawPrice(
        law="discrete Laplace",
        claims=native_claims(PureDP(sensitivity / scale, **context), mechanism="discrete_laplace"),
        samples=(("discrete_laplace", scale),),
        statistic=_numbers(shape, norm, sensitivity, scale),
    )


def gaussian_price(bounded: Bounded, scale: Fraction, *, off_diagonal: Fraction | None = None) -> DrawPrice:
    """Return the price of rounded Gaussian noise of a scale σ on a statistic: mu = Δ₂/σ.

    Args:
        bounded: The statistic, with its sensitivity in l2 or l1.
        scale: The standard deviation of the noise.
        off_diagonal: That of the entries off the diagonal of a symmetric matrix, each drawn once: σ/√2 or more.
    """
    context: Context = {"neighbours": bounded.neighbours, "unit": bounded.unit}
    return _gaussian_price(bounded.shape, bounded.norm, bounded.sensitivity, scale, off_diagonal, **context)


@lru_cache(maxsize=256)  # of public numbers: every step of a descent has the same price
def _gaussian_price(
    shape: tuple[int, ...],
    norm: Norm | TraceNorm,
    sensitivity: Fraction,
    scale: Fraction,
    off_diagonal: Fraction | None,
    **context: Unpack[Context],
) -> DrawPrice:
    mu = sensitivity / scale
    claim = GDP(mu, **context)
    if off_diagonal is not None:  # a change of Frobenius norm Δ costs at most Δ²/min(σ², 2σ_off²)
        square = sensitivity**2 / (2 * off_diagonal**2)
        claim = GDP.from_squares(square, **context) if square > mu**2 else claim
    return DrawPrice(
        law="rounded Gaussian",
        claims=native_claims(claim, mechanism="rounded_gaussian"),
        samples=tuple(("rounded_gaussian", each) for each in (scale, off_diagonal) if each is not None),
        statistic=_numbers(shape, norm, sensitivity, scale),
    )


@lru_cache(maxsize=256)  # of public numbers: every node of a tree has the same few prices
def selection_price(epsilon: Fraction, statistic: str, **context: Unpack[Context]) -> DrawPrice:
    """Return the price of an exponential mechanism whose log-probabilities move apart by at most epsilon."""
    claims = native_claims(BoundedRange(epsilon, **context), mechanism="exponential")
    return DrawPrice(law="exponential choice", claims=claims, statistic=statistic)


def _numbers(shape: tuple[int, ...], norm: Norm | TraceNorm, sensitivity: Fraction, scale: Fraction) -> str:
    entries = f"{math.prod(shape)} numbers" if shape else "one number"
    return f"{entries} of {norm} sensitivity {decimal_text(sensitivity)}, scale {float(scale):.6g}"
