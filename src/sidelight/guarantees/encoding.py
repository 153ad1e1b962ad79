"""Claims as JSON with strings only (a ledger hashes them), and claims as people write them in a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from sidelight.errors import ClaimError, nearest
from sidelight.guarantees.amounts import Amount, decimal_text, exact, positive
from sidelight.guarantees.claims import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    Claim,
    Context,
    Neighbours,
    Profile,
    PureDP,
)
from sidelight.guarantees.curves import (
    ApproxCurve,
    BoundedRangeCurve,
    DiscreteLaplaceCurve,
    HingedGaussianCurve,
    ProfileCurve,
    RenyiOrders,
    ZCDPCurve,
)
from sidelight.guarantees.derived_curves import (
    HalfNormalCurve,
    HingedGaussiansCurve,
    LeastCurve,
    MostCurve,
    SelectedCurve,
    TwoStepCurve,
)
from sidelight.guarantees.envelope_curve import EnvelopeCurve
from sidelight.guarantees.units import Row, unit_from_text, unit_to_text

#: The claims, and the amounts with which each is written, in the order of its arguments.
_CLAIMS: dict[str, tuple[Callable[..., Claim], tuple[str, ...]]] = {
    "PureDP": (PureDP, ("epsilon",)),
    "BoundedRange": (BoundedRange, ("epsilon",)),
    "ZCDP": (ZCDP, ("rho",)),
    "GDP": (GDP, ("mu",)),
    "ApproxDP": (ApproxDP, ("epsilon", "delta")),
    "RDP": (RDP, ("curve",)),
    "Profile": (Profile, ("remove", "add")),
}
_CONTEXT = ("neighbours", "unit", "audience", "numerics", "kept")


def claim_to_json(claim: Claim) -> dict[str, Any]:
    """Write a claim with strings only; a context that is the library's default is left out.

    >>> claim_to_json(PureDP(0.1))
    {'type': 'PureDP', 'epsilon': '0.1'}
    """
    data: dict[str, Any] = {"type": type(claim).__name__}
    for name in _CLAIMS[data["type"]][1]:
        value = getattr(claim, name)
        data[name] = decimal_text(value) if isinstance(value, Fraction) else value.to_json()
    if claim.neighbours is not Neighbours.ADD_REMOVE:
        data["neighbours"] = claim.neighbours.value
    if claim.unit != Row():
        data["unit"] = unit_to_text(claim.unit)
    if claim.audience != "everyone":
        data["audience"] = claim.audience
    if claim.numerics != "exact":
        data["numerics"] = claim.numerics
    if claim.kept:
        data["kept"] = claim.kept
    return data


def claim_from_json(data: Mapping[str, Any]) -> Claim:
    """Read a claim back from its JSON.

    >>> print(claim_from_json({"type": "ApproxDP", "epsilon": "3", "delta": "1e-6"}))
    ApproxDP(ε = 3, δ = 1e-6)
    """
    kind = str(data.get("type"))
    if kind not in _CLAIMS:
        raise ClaimError(f"a claim of an unknown type {kind!r}; {nearest(kind, _CLAIMS)}")
    make, names = _CLAIMS[kind]
    if set(data) - {"type", *names, *_CONTEXT} or set(names) - set(data):
        raise ClaimError(f"a {kind} is written with {', '.join(names)}; got {', '.join(sorted(data))}")
    amounts = [data[name] for name in names]
    if kind == "RDP":
        amounts = [RenyiOrders.of(data["curve"])]
    elif kind == "Profile":
        amounts = [curve_from_json(amount) for amount in amounts]
    return make(*amounts, **_context(data))


def parse_claim(written: str | Mapping[str, Amount]) -> Claim:
    """Read a budget as a plan states it: a mapping of amounts, or a text "epsilon=3, delta=1e-6".

    >>> print(parse_claim({"epsilon": "3.0", "delta": "1e-6"}), parse_claim("rho = 0.1"))
    ApproxDP(ε = 3, δ = 1e-6) ZCDP(ρ = 0.1)
    """
    if isinstance(written, str):
        parts = [part.partition("=") for part in written.split(",") if part.strip()]
        amounts: dict[str, Any] = {name.strip(): value.strip() for name, _, value in parts}
    else:
        amounts = dict(written)
    context = _context({name: amounts.pop(name) for name in _CONTEXT if name in amounts})
    for kind in ("PureDP", "ApproxDP", "ZCDP", "GDP"):
        make, names = _CLAIMS[kind]
        if amounts.keys() == set(names):
            return make(**amounts, **context)
    raise ClaimError(
        "a guarantee is written as epsilon, as epsilon and delta, as rho, or as mu; "
        f"got {', '.join(sorted(amounts)) or 'nothing'}"
    )


def curve_from_json(data: Mapping[str, Any]) -> ProfileCurve:
    """Read a profile curve back."""
    kind = data.get("type")
    if kind == "approx":
        return ApproxCurve(exact(data["epsilon"], name="epsilon"), exact(data["delta"], name="delta"))
    if kind == "bounded_range":
        return BoundedRangeCurve(positive(data["epsilon"], name="epsilon"))
    if kind == "hinged_gaussian":
        return HingedGaussianCurve(positive(data["mu"], name="mu"), exact(data["shift"], name="shift"))
    if kind == "zcdp":
        return ZCDPCurve(positive(data["rho"], name="rho"))
    if kind == "discrete_laplace":
        return DiscreteLaplaceCurve(positive(data["epsilon"], name="epsilon"), int(data["sensitivity"]))
    if kind == "hinged_gaussians":
        mu, shift, output = _perturbation(data)
        return HingedGaussiansCurve(mu, shift, int(data["count"]), output)
    if kind == "half_normal":
        return HalfNormalCurve(*_perturbation(data))
    if kind == "envelope":
        ratio, output = positive(data["ratio"], name="ratio"), exact(data["output_mu"], name="output_mu")
        return EnvelopeCurve(positive(data["mu"], name="mu"), ratio, data["shape"], output)
    if kind == "selected":
        shift, factor = exact(data["shift"], name="shift"), positive(data["factor"], name="factor")
        return SelectedCurve(curve_from_json(data["base"]), shift, factor)
    if kind == "two_step":
        return TwoStepCurve(curve_from_json(data["first"]), curve_from_json(data["second"]))
    if kind == "least":
        return LeastCurve(tuple(curve_from_json(item) for item in data["curves"]))
    if kind == "most":
        return MostCurve(tuple(curve_from_json(item) for item in data["curves"]))
    raise ClaimError(
        f"a profile curve of an unknown kind: {kind!r}; a newer version of the library may have written it"
    )


def _perturbation(data: Mapping[str, Any]) -> tuple[Fraction, Fraction, Fraction]:
    amounts = (positive(data["mu"], name="mu"), exact(data["shift"], name="shift"))
    return *amounts, exact(data["output_mu"], name="output_mu")


def _context(data: Mapping[str, Any]) -> Context:
    context: Context = {}
    if "neighbours" in data:
        names = [n.value for n in Neighbours]
        if data["neighbours"] not in names:
            raise ClaimError(f"unknown neighbours {data['neighbours']!r}; {nearest(str(data['neighbours']), names)}")
        context["neighbours"] = Neighbours(data["neighbours"])
    if "unit" in data:
        context["unit"] = unit_from_text(data["unit"])
    rest: Any = {name: data[name] for name in ("audience", "numerics", "kept") if name in data}
    return {**context, **rest}
