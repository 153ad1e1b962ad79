"""One amount of privacy that a query may spend: read from a user's price, divided by shares, applied to statistics.

    budget = Budget.of(epsilon=1, delta="1e-6")         # or rho=, mu=, or epsilon= alone (pure)
    noise = budget.part(Fraction(1, 3)).on(bounded)     # law, claims, scale, deviation: all public
    noise.release(source)                               # the one step that uses the private value
    claims = together([(1, noise.claims), (rounds, budget.part(share).selection_claims())])

Three kinds: `rho` (zCDP, Gaussian noise), `epsilon` (pure, Laplace noise) and `mu` (Gaussian differential privacy),
which is what an (epsilon, delta) becomes. Gaussian noise loses nothing there, and a selection, a tenth of the budget,
gets a range 1.25 times smaller: much less than what converting zCDP to (epsilon, delta) would lose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Unpack

from sidelight.aggregates.bounded import Bounded, Norm
from sidelight.errors import RangeError
from sidelight.guarantees import (
    GDP,
    ZCDP,
    Amount,
    BoundedRange,
    Claims,
    PureDP,
    decimal_text,
    exact,
    native_claims,
    positive,
    short_text,
)
from sidelight.guarantees.claims import Claim, Context
from sidelight.guarantees.conversions import gdp_within, pure_within_gdp
from sidelight.guarantees.intervals import root_below
from sidelight.mechanisms.additive import GaussianNoise, LaplaceNoise, Law, Noise, SymmetricGaussianNoise
from sidelight.mechanisms.idealized_noise import SphericalNoise, WishartNoise

Kind = Literal["rho", "epsilon", "mu"]
_LARGEST_PRICE = Fraction(10**18)
_PURE: Mapping[str, type[LaplaceNoise | SphericalNoise | WishartNoise]] = {
    "laplace": LaplaceNoise,
    "spherical": SphericalNoise,
    "wishart": WishartNoise,
}
_GAUSSIAN: Mapping[str, type[GaussianNoise]] = {"gaussian": GaussianNoise, "goe": SymmetricGaussianNoise}


@dataclass(frozen=True)
class Budget:
    """An amount of one kind, exact; parts of it add up to it.

    Args:
        kind: "rho", "epsilon" or "mu".
        amount: Of rho or epsilon; of mu the square is kept, which is what adds up.
    """

    kind: Kind
    amount: Fraction

    @classmethod
    def of(
        cls,
        *,
        rho: Amount | None = None,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        mu: Amount | None = None,
    ) -> Budget:
        """Return the budget that a user's price means: rho, mu, epsilon alone (pure), or epsilon with delta.

        An (epsilon, delta) becomes the largest mu whose Gaussian mechanism keeps to it.

        >>> Budget.of(epsilon=1, delta="1e-6").kind, Budget.of(rho="0.5").amount
        ('mu', Fraction(1, 2))
        """
        given = {"rho": rho, "mu": mu, "epsilon": epsilon}
        if sum(amount is not None for amount in given.values()) != 1 or (delta is not None and epsilon is None):
            came = [f"{name}={amount}" for name, amount in (given | {"delta": delta}).items() if amount is not None]
            raise RangeError(
                "the price is exactly one of rho (zCDP), mu (Gaussian differential privacy), epsilon (pure), or "
                f"epsilon with delta (Gaussian noise); got {' and '.join(came) or 'none of them'}"
            )
        if rho is not None:
            return cls("rho", _price(rho, name="rho"))
        if mu is not None:
            return cls("mu", _price(mu, name="mu") ** 2)
        assert epsilon is not None
        if delta is None:
            return cls("epsilon", _price(epsilon, name="epsilon"))
        return cls("mu", gdp_within(_price(epsilon, name="epsilon"), positive(delta, name="delta")) ** 2)

    def part(self, share: Fraction) -> Budget:
        """Return a share of it: parts whose shares add up to 1 cost the whole, however they follow one another."""
        return Budget(self.kind, self.amount * share)

    @property
    def is_pure(self) -> bool:
        """Whether it buys pure differential privacy, with Laplace-like noise."""
        return self.kind == "epsilon"

    @property
    def rho(self) -> Fraction | None:
        """The zCDP of its Gaussian noise: rho itself, or mu²/2; None for a pure budget."""
        return None if self.is_pure else self.amount if self.kind == "rho" else self.amount / 2

    @property
    def epsilon(self) -> Fraction | None:
        """The epsilon of a pure budget, else None."""
        return self.amount if self.is_pure else None

    @property
    def request(self) -> dict[str, str]:
        """What a ledger entry says of it: {"epsilon": ...}, or {"rho": ...} of its Gaussian noise."""
        name, amount = ("epsilon", self.epsilon) if self.is_pure else ("rho", self.rho)
        assert amount is not None
        return {name: decimal_text(amount)}

    @property
    def norm(self) -> Norm:
        """The norm of the sensitivity that integer noise needs: l1 for Laplace, l2 for Gaussian noise."""
        return "l1" if self.is_pure else "l2"

    def laws(self, *laws: Law) -> tuple[Law, ...]:
        """Return those of some laws that this budget can buy."""
        return tuple(law for law in laws if (law in _PURE) == self.is_pure)

    def on(self, bounded: Bounded, law: Law | None = None) -> Noise:
        """Return the noise that the whole of this budget buys for a statistic.

        Guarantee: the noise's `claims`, at most this budget, for the neighbours and the unit of the statistic. Needs
        its public parts only; `noise.release(source)` is what uses the value.

        Args:
            bounded: The statistic, with its sensitivity in the norm that the law needs (`norm` for integer noise).
            law: Integer noise if left out: "laplace" for a pure budget, else "gaussian". Of symmetric matrices also
                "goe", or "wishart" (pure, idealized, sensitivity in trace norm); of vectors "spherical" (pure,
                idealized, sensitivity in l2).

        >>> from sidelight.guarantees.claims import Neighbours
        >>> from sidelight.guarantees.units import Row
        >>> count = Bounded(41, Fraction(1), "l1", Neighbours.ADD_REMOVE, Row())
        >>> noise = Budget.of(rho="0.5").part(Fraction(1, 4)).on(count)
        >>> noise.law, round(noise.deviation, 9), str(noise.claims.zcdp())
        ('gaussian', 2.0, 'ZCDP(ρ = 0.125)')
        """
        chosen = law or ("laplace" if self.is_pure else "gaussian")
        if self.is_pure and chosen in _PURE:
            return _PURE[chosen](bounded, epsilon=self.amount)
        if not self.is_pure and chosen in _GAUSSIAN:
            return _GAUSSIAN[chosen](bounded, rho=self.rho)
        allowed = " or ".join(repr(each) for each in (_PURE if self.is_pure else _GAUSSIAN))
        raise RangeError(f"noise must be {allowed} for this price, got {chosen!r}")

    @property
    def spread(self) -> Fraction:
        """The range ε of the privacy loss of a selection of this amount: ε_s; ε²/8 = ρ; or the one inside GDP(mu)."""
        if self.kind == "epsilon":
            return self.amount
        if self.kind == "rho":
            return root_below(8 * self.amount)
        return 2 * pure_within_gdp(root_below(self.amount))

    def selection_claims(self, **context: Unpack[Context]) -> Claims:
        """Return what an exponential mechanism of this amount costs: one whose exponents move by at most `spread`."""
        return native_claims(BoundedRange(self.spread, **context), mechanism="exponential")


def _price(amount: Amount, *, name: str) -> Fraction:
    """Read a price for which noise, error bounds and conversions stay far from where floats end."""
    price = positive(amount, name=name)
    if not 1 / _LARGEST_PRICE <= price <= _LARGEST_PRICE:
        raise RangeError(
            f"{name} must lie between 1e-18 and 1e18, got {amount}; less buys nothing but noise, more gives no privacy"
        )
    return price


def share_of(value: Amount, *, name: str) -> Fraction:
    """Return a user's share of the budget, strictly between 0 and 1."""
    share = exact(value, name=name)
    if not 0 < share < 1:
        raise RangeError(f"{name} must lie strictly between 0 and 1, got {value}; it is a share of the budget")
    return share


def together(parts: Sequence[tuple[int, Claims]]) -> Claims:
    """Return what parts cost together, each with how often it runs, adaptively: what all of them prove.

    PureDP where every part is pure; else GDP and zCDP, as far as every part has them and each says more than the other.
    Idealized if one part is.

    Args:
        parts: How often each part runs, and its claims; all for the same neighbours and unit.

    >>> str(together([(2, Claims.of(PureDP("0.1"))), (1, Claims.of(PureDP("0.3")))]))
    'PureDP(ε = 0.5)'
    """
    if len(parts) == 1 and parts[0][0] == 1:
        return parts[0][1]
    context: Context = {**parts[0][1].context}
    if any(part.numerics == "idealized" for _, part in parts):
        context["numerics"] = "idealized"
    pures = [(times, pure.epsilon) for times, part in parts if (pure := part.pure()) is not None]
    if len(pures) == len(parts):
        return Claims.of(PureDP(sum((times * epsilon for times, epsilon in pures), Fraction(0)), **context))
    found: list[Claim] = []
    mus = [(times, gdp.mu) for times, part in parts if (gdp := part.gdp()) is not None]
    rhos = [(times, zcdp.rho) for times, part in parts if (zcdp := part.zcdp()) is not None]
    squares = sum((times * mu**2 for times, mu in mus), Fraction(0))
    rho = sum((times * each for times, each in rhos), Fraction(0))
    if len(mus) == len(parts):
        found.append(GDP.from_squares(squares, **context))
    if len(rhos) == len(parts) and (not found or rho < squares / 2):  # a selection's zCDP is less than its GDP proves
        found.append(ZCDP(rho, **context))
    return Claims.of(*found)


def price_cautions(epsilon: Fraction, delta: Fraction) -> tuple[str, ...]:
    """Return public warnings about a price that protects little, for people."""
    large = f"epsilon {short_text(epsilon)} is above 10: hardly any privacy"
    likely = f"delta {short_text(delta)} is 1e-3 or more: that share of people may be revealed"
    return (*([large] if epsilon > 10 else []), *([likely] if delta >= Fraction(1, 1000) else []))
