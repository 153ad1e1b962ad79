"""What trying several times and keeping the best costs: the profile theorem, and Rényi divergences by the same ratio.

One number carries everything: the worst ratio of the generating function's derivative on two neighbours,
f'(P)/f'(P') <= e^c (tuning proof page, Theorem 1). It gives (ε, δ) linear in δ (Theorem 2), pure guarantees, Rényi
divergences that are never larger than those of Papernot and Steinke (Theorem 3), and zCDP.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import log, log1p

from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees import (
    GDP,
    RDP,
    ZCDP,
    Amount,
    ApproxDP,
    Claim,
    Claims,
    HingedGaussianCurve,
    Profile,
    ProfileCurve,
    PureDP,
    RenyiOrders,
    SelectedCurve,
    ZCDPCurve,
    native_claims,
)
from sidelight.guarantees import conversions as convert
from sidelight.guarantees.amounts import grid_ceil, positive, smallest
from sidelight.guarantees.derived_curves import MostCurve
from sidelight.guarantees.implications import delta_of, epsilon_of
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.readable import at_least
from sidelight.tuning.runs import Poisson, Runs, TruncatedNegativeBinomial

#: Enough orders for a curve that other accountants can add up; every one of them is a valid bound.
ORDERS = tuple(
    Fraction(quarters, 4)
    for quarters in (
        *range(5, 17),
        *range(20, 36, 4),
        *range(40, 72, 8),
        *range(80, 144, 16),
        *range(160, 257, 32),
        384,
        512,
        1024,
    )
)
_DIGITS = 12
_LOWEST, _HIGHEST = Fraction(1, 10**30), Fraction(10**7)


def selection_claims(base: Claims, runs: Runs, *, delta: Amount | None = None) -> Claims:
    """Price the best of a random number of runs, each of which has the claims `base`.

    Guarantee: for runs that are independent given the data, each with the claims `base` **including its score**, and a
    number of runs with exactly this law that stays secret, the best run satisfies the returned claims (tuning proof
    page). `delta` is where the (ε, δ) claim is made; a pure base needs none.

    >>> from sidelight.guarantees import GDP
    >>> from sidelight.tuning import geometric
    >>> print(selection_claims(Claims.of(GDP("0.3")), geometric(15), delta="1e-6").approx_at("1e-6"))
    ApproxDP(ε = 2.0896, δ = 1e-6)
    """
    found: list[Claim] = []
    pure, rho = base.pure(), base.zcdp()
    tilt = ratio_bound(base, runs)
    if pure is not None:
        found.append(PureDP(_short(pure.epsilon + tilt), **base.context))
    if delta is not None:
        found.append(ApproxDP(selection_epsilon(base, runs, delta=delta), delta, **base.context))
    elif pure is None:
        raise RangeError(
            f"a selection over runs with {base} needs delta=...: its price is an (epsilon, delta); 1e-6 is usual"
        )
    if pure is None:  # a pure selection has smaller divergences than these
        found.extend(_profile(base, runs))
        if rho is not None:
            found.append(ZCDP(_zcdp(rho.rho, tilt, runs), **base.context))
        if (curve := renyi_curve(base, runs)) is not None:
            found.append(RDP(curve, **base.context))
    return native_claims(*found, mechanism="private_selection")


def selection_epsilon(base: Claims, runs: Runs, *, delta: Amount) -> Fraction:
    """Return the ε of the profile theorem at δ: the base's ε at δ/E[K], plus the tilt c (Theorem 2); or by Rényi.

    Raises:
        ClaimError: the base has a δ of its own that is too large: E[K] times it must stay below `delta`.
    """
    target = positive(delta, name="delta")
    each = target / round_up(runs.mean().upper)
    found = [epsilon + ratio_bound(base, runs) for epsilon in _each(base, lambda c: epsilon_of(c, each))]
    curve = renyi_curve(base, runs)
    if curve is not None:
        found.append(curve.epsilon(target))
    if not found:
        raise ClaimError(
            f"the runs have {base}, and E[K] = {runs.mean_text} times their delta exceeds the selection's delta "
            f"{float(target):.3g}; make each run's delta smaller than {at_least(float(each))}"
        )
    return _short(min(found))


@lru_cache(maxsize=256)
def ratio_bound(base: Claims, runs: Runs) -> Fraction:
    """Return a proven c with f'(P)/f'(P') <= e^c on all neighbours, both directions (Theorem 1).

    Negative binomial: (1+η)·x at the smallest x with e^x - 1 >= ((1-γ)/γ) δ(x), where both branches of the bound meet;
    or through one Rényi order. Poisson: E[K] times the total variation δ(0).
    """
    if isinstance(runs, Poisson):
        return _short(runs.rate * _delta(base, Fraction(0)))
    weight = Interval.of(1 / runs.gamma - 1)

    def meets(x: Fraction) -> bool:
        growth = Interval.of(x).exp() - Interval.of(1)
        return growth.lower >= (weight * Interval.of(_delta(base, x))).upper

    found = []
    if any(delta_of(claim, Fraction(1)) is not None for claim in base):
        found.append(
            smallest(meets, start=Fraction(1, 4), lower=_LOWEST, upper=_HIGHEST, name="epsilon", digits=_DIGITS)
        )
    found.extend(_renyi_ratio(base, runs))
    return _short((1 + runs.eta) * min(found))


def renyi_curve(base: Claims, runs: Runs) -> RenyiOrders | None:
    """Return D_α <= r(α) + c + log(m)/(α-1) at finitely many orders; None where the base has no Rényi divergence.

    m is E[K], and E[K] + e^-E[K] for Poisson, whose chance of no run at all is part of the sum (Theorem 3).
    """
    tilt, growth = ratio_bound(base, runs), _log_weight(runs)
    values: dict[Fraction, Fraction] = {}
    for order in _orders(base):
        divergence = renyi_of(base, order)
        if divergence is not None:
            lift = tilt if isinstance(runs, TruncatedNegativeBinomial) else min(tilt, _poisson_tilt(base, runs, order))
            more = (growth / Interval.of(order - 1)).upper
            values[order] = _short(divergence + lift + max(Fraction(0), round_up(more)))
    return RenyiOrders.of(values) if values else None


def common_price(claims: Sequence[Claims]) -> Claims:
    """Return claims that hold for every candidate; declared amounts must be the same, curves may differ.

    Two penalties of a model with the same (epsilon, delta) have different profiles. A selection is priced by what holds
    for every candidate: the larger profile at every point, and the larger divergence at every order (tuning proof page,
    Theorem 2: one run, with its choice of a candidate by chance, is a mixture, and profiles of mixtures are at most the
    largest).

    Raises:
        ClaimError: candidates with different budgets, or for different neighbours or units.
    """
    first = claims[0]
    if all(each == first for each in claims):
        return first
    for place, each in enumerate(claims):
        if each.context != first.context or _amounts(each) != _amounts(first) or _kinds(each) != _kinds(first):
            raise ClaimError(
                f"all candidates of a search have the same claims: the first has {first}, candidate {place} has "
                f"{each}; give them the same budget"
            )
    found: list[Claim] = list(_amounts(first))
    profiles = [claim for each in claims for claim in each if isinstance(claim, Profile)]
    if profiles:
        remove = MostCurve(tuple(dict.fromkeys(p.remove for p in profiles)))
        add = MostCurve(tuple(dict.fromkeys(p.add for p in profiles)))
        found.append(Profile(remove, add, **first.context))
    curves = [claim.curve for each in claims for claim in each if isinstance(claim, RDP)]
    if curves:
        orders = [order for order, _ in curves[0].points]
        values = {a: [curve.at(a) for curve in curves] for a in orders}
        known = {a: max(v for v in each if v is not None) for a, each in values.items() if None not in each}
        found += [RDP(RenyiOrders.of(dict(known)), **first.context)] if known else []
    return Claims.of(*found)


def _profile(base: Claims, runs: Runs) -> list[Claim]:
    """Return the whole profile, moved by c and multiplied by E[K] in each direction, where a run has one."""
    factor, shift = _short(round_up(runs.mean().upper)), ratio_bound(base, runs)
    for kind in (Profile, GDP, ZCDP):
        for claim in base:
            if isinstance(claim, kind):
                remove, add = _curves(claim)
                curves = SelectedCurve(remove, shift, factor), SelectedCurve(add, shift, factor)
                return [Profile(*curves, **base.context)]
    return []


def _curves(claim: Claim) -> tuple[ProfileCurve, ProfileCurve]:
    match claim:
        case Profile():
            return claim.remove, claim.add
        case GDP():
            gaussian = HingedGaussianCurve(claim.mu)
            return gaussian, gaussian
        case ZCDP():
            concentrated = ZCDPCurve(claim.rho)
            return concentrated, concentrated
        case _:
            raise ClaimError(f"{claim} has no profile of its own")


def renyi_of(base: Claims, order: Fraction) -> Fraction | None:
    """Return the smallest D_order that one of the claims proves."""
    found = [] if (rho := base.zcdp()) is None else [rho.rho * order]
    if (pure := base.pure()) is not None:
        found.append(convert.renyi_pure(pure.epsilon, order))
    found.extend(r for c in base if isinstance(c, RDP) and (r := c.curve.at(order)) is not None)
    return min(found) if found else None


def _renyi_ratio(base: Claims, runs: TruncatedNegativeBinomial) -> list[Fraction]:
    """log R <= (1 - 1/a) r(a) + log(1/γ)/a for every order a (Papernot and Steinke 2022, Theorem 2)."""
    goal = Interval.of(1 / runs.gamma).log()
    found = []
    for order in _orders(base):
        divergence = renyi_of(base, order)
        if divergence is not None:
            found.append((1 - 1 / order) * divergence + round_up((goal / Interval.of(order)).upper))
    return found


def _poisson_tilt(base: Claims, runs: Poisson, order: Fraction) -> Fraction:
    """E[K] times δ at e^x = 1 + 1/(α-1) (Papernot and Steinke 2022, Theorem 6); x is rounded down, so δ is an upper."""
    x = round_up(Interval.of(order / (order - 1)).log().lower, digits=30)
    return runs.rate * _delta(base, x * (1 - Fraction(1, 10**28)))


def _zcdp(rho: Fraction, tilt: Fraction, runs: Runs) -> Fraction:
    """sup over α of inf over l >= α of (ρl + c + B/(l-1))/α = ρ + c + 2√(Bρ), B = log m (tuning proof page)."""
    root = (_log_weight(runs) * Interval.of(rho)).sqrt()
    return _short(rho + tilt + 2 * round_up(root.upper))


def _log_weight(runs: Runs) -> Interval:
    weight = runs.mean()
    if isinstance(runs, Poisson):
        weight = weight + (-weight).exp()
    return weight.log()


def _delta(base: Claims, x: Fraction) -> Fraction:
    return min(_each(base, lambda claim: _delta_of(claim, x)), default=Fraction(1))


def _delta_of(claim: Claim, x: Fraction) -> Fraction | None:
    """Bound one claim's profile; of many Rényi orders only the best is evaluated with proof, each being valid."""
    if not isinstance(claim, RDP):
        return delta_of(claim, x)
    at = float(x)
    order, divergence = min(claim.curve.points, key=lambda point: log_delta(float(point[0]), float(point[1]), at))
    return convert.renyi_delta(divergence, order - 1, x)


def log_delta(order: float, divergence: float, x: float) -> float:
    """Return the log of exp((a-1)(r-x)) (1-1/a)^a / (a-1), in floats: a guess."""
    return (order - 1) * (divergence - x) + order * log1p(-1 / order) - log(order - 1)


def _each(base: Claims, amount: Callable[[Claim], Fraction | None]) -> list[Fraction]:
    return [value for claim in base if (value := amount(claim)) is not None]


def _orders(base: Claims) -> tuple[Fraction, ...]:
    own = {order for claim in base if isinstance(claim, RDP) for order, _ in claim.curve.points}
    return tuple(sorted(own)) if own else ORDERS


def _short(x: Fraction) -> Fraction:
    """Round up to twelve digits, the form in which a price is stored."""
    return grid_ceil(x, digits=_DIGITS) if x > 0 else x


def _amounts(claims: Claims) -> tuple[Claim, ...]:
    return tuple(claim for claim in claims if not isinstance(claim, Profile | RDP))


def _kinds(claims: Claims) -> list[str]:
    return [type(claim).__name__ for claim in claims]
