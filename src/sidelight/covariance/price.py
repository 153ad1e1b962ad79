"""The budget of a covariance release: one total, divided among its parts by public shares, and added up again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sidelight.errors import RangeError
from sidelight.guarantees import GDP, ZCDP, Amount, Claims, PureDP, exact, positive
from sidelight.guarantees.conversions import gdp_within


@dataclass(frozen=True)
class Price:
    """A total: `rho` for Gaussian noise, or `epsilon` for pure differential privacy."""

    rho: Fraction | None
    epsilon: Fraction | None

    @classmethod
    def of(cls, *, rho: Amount | None, epsilon: Amount | None, delta: Amount | None) -> Price:
        """Read a user's price: rho, epsilon alone (pure), or epsilon with delta (Gaussian noise)."""
        if (rho is None) == (epsilon is None):
            raise RangeError(
                "the price is exactly one of rho (zCDP, Gaussian noise), epsilon (pure), or epsilon with delta"
            )
        if rho is not None:
            if delta is not None:
                raise RangeError("delta belongs to epsilon; rho has none")
            return cls(positive(rho, name="rho"), None)
        assert epsilon is not None
        if delta is None:
            return cls(None, positive(epsilon, name="epsilon"))
        mu = gdp_within(positive(epsilon, name="epsilon"), positive(delta, name="delta"))
        return cls(mu**2 / 2, None)

    def part(self, share: Fraction) -> Mapping[str, Fraction]:
        """Return a share as the keyword argument of a mechanism."""
        if self.rho is not None:
            return {"rho": self.rho * share}
        assert self.epsilon is not None
        return {"epsilon": self.epsilon * share}


def share_of(value: Amount, *, name: str) -> Fraction:
    """Read a share of the budget."""
    share = exact(value, name=name)
    if not 0 < share < 1:
        raise RangeError(f"{name} must lie strictly between 0 and 1, got {value}; it is a share of the budget")
    return share


def together(parts: Sequence[Claims]) -> Claims:
    """Return what several releases of the same rows cost together, in the strongest common kind."""
    if len(parts) == 1:
        return parts[0]
    idealized = any(part.numerics == "idealized" for part in parts)
    context = parts[0].context | {"numerics": "idealized" if idealized else "exact"}
    mus = [claim.mu for part in parts for claim in part if isinstance(claim, GDP)]
    if len(mus) == len(parts):
        return Claims.of(GDP.from_squares(sum((mu**2 for mu in mus), Fraction(0)), **context))
    pures = [pure.epsilon for part in parts if (pure := part.pure()) is not None]
    if len(pures) == len(parts):
        return Claims.of(PureDP(sum(pures, Fraction(0)), **context))
    rhos = [zcdp.rho for part in parts if (zcdp := part.zcdp()) is not None]
    assert len(rhos) == len(parts)  # every part here has a zCDP claim
    return Claims.of(ZCDP(sum(rhos, Fraction(0)), **context))
