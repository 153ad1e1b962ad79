"""Claims: what a release promises, and to whom: neighbours, protected unit, audience and numerics.

A claim holds for both ordered pairs of every pair of neighbours; one step between them is a row, a person or an event.
Two claims are equal when they are written the same; `implies(a, b)` is the partial order, and there is no `<`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import Enum
from fractions import Fraction
from typing import Any, Literal, Self, TypeAlias, TypedDict, Unpack

from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees.amounts import Amount, bound_text, decimal_text, exact, positive, short_text
from sidelight.guarantees.curves import ProfileCurve, RenyiOrders
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.guarantees.units import Event, Person, PersonOf, PersonPeriod, Row, Unit

#: Who sees the output that a claim speaks of. The ledger never charges by a claim for observers only.
Audience: TypeAlias = Literal["everyone", "observers_only"]

#: Whether the claim holds for the bits that were released, or for the real-number algorithm they approximate.
Numerics: TypeAlias = Literal["exact", "idealized"]


#: What no claim holds for where totals are published exactly (hierarchies proof page, Theorem 8 (b)).
NOT_PROTECTED = (
    "Whether a row was counted, and in which of the exact totals, is not protected; nor is what follows from them."
)


class Neighbours(Enum):
    """Name which pairs of data sets a claim makes hard to tell apart.

    `ADD_REMOVE` is the default of the library. `REPLACE` is for a public number of units. `KEPT` replaces a unit by one
    with which all totals stay that were published exactly; a claim's `kept` names them. The local relations speak of
    one report: `LOCAL` any two inputs, `LOCAL_PRESENCE` a person present or not, `LOCAL_MOVE` also where.

    >>> print(Neighbours.ADD_REMOVE)
    add or remove one
    """

    ADD_REMOVE = "add_remove"
    REPLACE = "replace"
    KEPT = "kept"
    LOCAL = "local"
    LOCAL_PRESENCE = "local_presence"
    LOCAL_MOVE = "local_move"

    @property
    def family(self) -> Literal["add_remove", "replace", "local"]:
        """The relation without its local kind, or what it keeps: what a ledger's scope is keyed by."""
        if self is Neighbours.ADD_REMOVE:
            return "add_remove"
        return "replace" if self in (Neighbours.REPLACE, Neighbours.KEPT) else "local"

    def __str__(self) -> str:
        return {
            Neighbours.ADD_REMOVE: "add or remove one",
            Neighbours.REPLACE: "replace one",
            Neighbours.KEPT: "replace one by another with the same published totals",
            Neighbours.LOCAL: "replace the input of one report",
            Neighbours.LOCAL_PRESENCE: "one person present or not in a report",
            Neighbours.LOCAL_MOVE: "one person present or not, or elsewhere, in the reports",
        }[self]


LARGEST_EPSILON = Fraction(10**6)


#: What a statement adds if part of it is idealized.
SEEDED = "NOT PRIVATE: made with seeded noise, for tests only"
IDEALIZED = "Idealized: part of it is proved for real-number arithmetic, and not for how computers round it."


def worst_numerics(*found: Numerics) -> Numerics:
    """Return the numerics of several releases together: one that is idealized makes all so."""
    return "idealized" if "idealized" in found else "exact"


class Context(TypedDict, total=False):
    """For whom a claim holds, as keyword arguments."""

    neighbours: Neighbours
    unit: Unit
    audience: Audience
    numerics: Numerics
    kept: str


_USUAL: Context = {
    "neighbours": Neighbours.ADD_REMOVE,
    "unit": Row(),
    "audience": "everyone",
    "numerics": "exact",
    "kept": "",
}
_UNITS = (Row, Person, PersonOf, PersonPeriod, Event)


@dataclass(frozen=True, kw_only=True)
class _Promise:
    """The fields that every claim has besides its amount."""

    neighbours: Neighbours = Neighbours.ADD_REMOVE
    unit: Unit = Row()  # noqa: RUF009 - frozen, without fields
    audience: Audience = "everyone"
    numerics: Numerics = "exact"
    kept: str = ""

    def _write(self, context: Context, **amounts: object) -> None:
        values: dict[str, object] = dict(_USUAL)
        unknown = context.keys() - values.keys()
        if unknown:
            raise TypeError(
                f"a claim takes neighbours, unit, audience, numerics and kept, not {', '.join(sorted(unknown))}"
            )
        values.update(context)
        if not isinstance(values["kept"], str) or (values["kept"] and values["neighbours"] is not Neighbours.KEPT):
            raise ClaimError("kept is a text, of claims for neighbours with the same published totals only")
        if not isinstance(values["neighbours"], Neighbours) or not isinstance(values["unit"], _UNITS):
            raise ClaimError("neighbours must be a Neighbours and unit a Row, Person, PersonOf, PersonPeriod or Event")
        if values["audience"] not in ("everyone", "observers_only") or values["numerics"] not in ("exact", "idealized"):
            raise ClaimError("audience is 'everyone' or 'observers_only', numerics is 'exact' or 'idealized'")
        for name, value in (values | amounts).items():
            object.__setattr__(self, name, value)

    @property
    def context(self) -> Context:
        """For whom the claim holds: neighbours with what they keep, unit, audience and numerics."""
        return {
            "neighbours": self.neighbours,
            "unit": self.unit,
            "audience": self.audience,
            "numerics": self.numerics,
            "kept": self.kept,
        }

    def under(self, **context: Unpack[Context]) -> Self:
        """Return the same amount with another context. The caller knows that it holds there; nothing is converted."""
        return replace(self, **context)

    def _amounts(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in Context.__annotations__}

    def _qualifiers(self) -> list[str]:
        marks = []
        if self.neighbours is not Neighbours.ADD_REMOVE:
            marks.append(str(self.neighbours) + (f" ({self.kept})" if self.kept else ""))
        if self.unit != Row():
            marks.append(f"unit: {self.unit}")
        if self.audience != "everyone":
            marks.append("observers only")
        if self.numerics != "exact":
            marks.append(self.numerics)
        return marks

    def _text(self, **shown: str) -> str:
        amounts = ", ".join(f"{symbol} = {value}" for symbol, value in shown.items())
        marks = self._qualifiers()
        return f"{type(self).__name__}({amounts}{'; ' if marks else ''}{', '.join(marks)})"

    def __repr__(self) -> str:
        shown = {k: decimal_text(v) if isinstance(v, Fraction) else repr(v) for k, v in self._amounts().items()}
        marks = self._qualifiers()
        body = ", ".join(f"{k}={v}" for k, v in shown.items())
        return f"{type(self).__name__}({body}{'; ' if marks else ''}{', '.join(marks)})"


def _epsilon(value: Amount, *, zero: bool = False) -> Fraction:
    amount = exact(value, name="epsilon") if zero else positive(value, name="epsilon")
    if amount > LARGEST_EPSILON:
        raise RangeError(f"epsilon must be at most 1e6, got {short_text(amount)}; beyond that nothing is protected")
    return amount


@dataclass(frozen=True, init=False, repr=False)
class PureDP(_Promise):
    """Promise that the privacy loss of every outcome is at most epsilon.

    Args:
        epsilon: The bound, above 0: a number, or a text such as "0.1" or "1/3" that is taken exactly.
        context: For whom it holds: `neighbours`, `unit`, `audience` and `numerics`, where they are not the usual ones.

    >>> print(PureDP(0.5))
    PureDP(ε = 0.5)
    """

    epsilon: Fraction

    def __init__(self, epsilon: Amount, **context: Unpack[Context]) -> None:
        self._write(context, epsilon=_epsilon(epsilon))

    def __str__(self) -> str:
        return self._text(ε=bound_text(self.epsilon))


@dataclass(frozen=True, init=False, repr=False)
class BoundedRange(_Promise):
    """Promise a privacy loss in an interval of length epsilon, given randomness independent of rows.

    In full: what is released is a mixture, over randomness that does not depend on the rows, of mechanisms whose
    log-likelihood ratios lie in an interval of length epsilon. It is epsilon-DP, epsilon²/8-zCDP and GDP; its own
    log-likelihood ratios may lie in no interval of this length, since the place of the interval may depend on that
    randomness, as for dithered quantiles (accounting proof page, section 2). Only the exponential mechanism may.

    Args:
        epsilon: The length, above 0.
        context: For whom it holds: `neighbours`, `unit`, `audience` and `numerics`, where they are not the usual ones.

    >>> print(BoundedRange(1))
    BoundedRange(ε = 1)
    """

    epsilon: Fraction

    def __init__(self, epsilon: Amount, **context: Unpack[Context]) -> None:
        self._write(context, epsilon=_epsilon(epsilon))

    def __str__(self) -> str:
        return self._text(ε=bound_text(self.epsilon))


@dataclass(frozen=True, init=False, repr=False)
class ZCDP(_Promise):
    """Promise that the Rényi divergence of every order a > 1 is at most rho * a.

    Args:
        rho: The slope, above 0. Gaussian noise of standard deviation σ on a sum of sensitivity Δ has Δ²/(2σ²).
        context: For whom it holds: `neighbours`, `unit`, `audience` and `numerics`, where they are not the usual ones.

    >>> print(ZCDP("0.05"))
    ZCDP(ρ = 0.05)
    """

    rho: Fraction

    def __init__(self, rho: Amount, **context: Unpack[Context]) -> None:
        self._write(context, rho=positive(rho, name="rho"))

    def __str__(self) -> str:
        return self._text(ρ=bound_text(self.rho))


@dataclass(frozen=True, init=False, repr=False)
class GDP(_Promise):
    """Promise that neighbours are at most as easy to tell apart as N(0, 1) and N(mu, 1).

    Rounded Gaussian noise has it, discrete does not. `GDP.from_squares` takes mu^2 (a sum of squares, or 2 rho of
    Gaussian noise) and rounds mu up.

    Args:
        mu: The distance, above 0.
        context: For whom it holds: `neighbours`, `unit`, `audience` and `numerics`, where they are not the usual ones.

    >>> print(GDP("0.5"))
    GDP(μ = 0.5)
    """

    mu: Fraction

    def __init__(self, mu: Amount, **context: Unpack[Context]) -> None:
        self._write(context, mu=positive(mu, name="mu"))

    @classmethod
    def from_squares(cls, mu_squared: Amount, **context: Unpack[Context]) -> GDP:
        """Build the claim from mu^2; an irrational root is rounded up in the fortieth digit."""
        square = positive(mu_squared, name="mu_squared")
        return cls(round_up(Interval.of(square).sqrt().upper), **context)

    def __str__(self) -> str:
        return self._text(μ=bound_text(self.mu))


@dataclass(frozen=True, init=False, repr=False)
class ApproxDP(_Promise):
    """Promise P(S) <= e^epsilon Q(S) + delta for all events S and all neighbours.

    With delta = 0 the constructor gives a `PureDP`; there is no default delta.

    Args:
        epsilon: The bound of the loss, 0 or more.
        delta: The chance that is left, below 1; 1e-6 is usual, and far less than one over the number of people.
        context: For whom it holds: `neighbours`, `unit`, `audience` and `numerics`, where they are not the usual ones.

    >>> print(ApproxDP(3, 1e-6), ApproxDP(1, 0))
    ApproxDP(ε = 3, δ = 1e-6) PureDP(ε = 1)
    """

    epsilon: Fraction
    delta: Fraction

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        delta = kwargs.get("delta", args[1] if len(args) > 1 else 1)
        if not isinstance(delta, bool) and exact(delta, name="delta") == 0:
            rest = {k: v for k, v in kwargs.items() if k not in ("epsilon", "delta")}
            return PureDP(kwargs["epsilon"] if "epsilon" in kwargs else args[0], **rest)  # type: ignore[return-value]
        return super().__new__(cls)

    def __init__(self, epsilon: Amount, delta: Amount, **context: Unpack[Context]) -> None:
        chance = exact(delta, name="delta")
        if chance >= 1:
            raise RangeError(f"delta must be below 1, got {short_text(chance)}; 1e-6 or less is usual")
        self._write(context, epsilon=_epsilon(epsilon, zero=True), delta=chance)

    def __str__(self) -> str:
        return self._text(ε=bound_text(self.epsilon), δ=bound_text(self.delta))


@dataclass(frozen=True, init=False, repr=False)
class RDP(_Promise):
    """The Renyi divergence is bounded at stated orders."""

    curve: RenyiOrders

    def __init__(self, curve: RenyiOrders | dict[Any, Amount], **context: Unpack[Context]) -> None:
        self._write(context, curve=curve if isinstance(curve, RenyiOrders) else RenyiOrders.of(curve))

    def __str__(self) -> str:
        orders = self.curve.points
        return self._text(orders=f"{short_text(orders[0][0])}..{short_text(orders[-1][0])}")


@dataclass(frozen=True, init=False, repr=False)
class Profile(_Promise):
    """H_x is bounded for every x by one curve per direction: a record removed, and a record added."""

    remove: ProfileCurve
    add: ProfileCurve

    def __init__(self, remove: ProfileCurve, add: ProfileCurve, **context: Unpack[Context]) -> None:
        self._write(context, remove=remove, add=add)

    def delta(self, x: Fraction) -> Fraction:
        """Bound H_x over both directions, x >= 0."""
        return max(self.remove.delta(x), self.add.delta(x))

    def __str__(self) -> str:
        return self._text(remove=type(self.remove).__name__, add=type(self.add).__name__)


Claim: TypeAlias = PureDP | BoundedRange | ZCDP | GDP | ApproxDP | RDP | Profile
