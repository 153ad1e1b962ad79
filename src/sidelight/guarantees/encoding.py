"""Claims as JSON with strings only (a ledger hashes them), and claims as people write them in a plan."""

from __future__ import annotations

from collections.abc import Mapping
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
    Row,
    unit_from_text,
    unit_to_text,
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
from sidelight.guarantees.derived_curves import LeastCurve, MostCurve, SelectedCurve, TwoStepCurve
from sidelight.guarantees.envelope_curve import EnvelopeCurve
from sidelight.guarantees.perturbation_curves import HalfNormalCurve, HingedGaussiansCurve

_AMOUNTS: dict[str, tuple[str, ...]] = {
    "PureDP": ("epsilon",),
    "BoundedRange": ("epsilon",),
    "ZCDP": ("rho",),
    "GDP": ("mu",),
    "ApproxDP": ("epsilon", "delta"),
    "RDP": ("curve",),
    "Profile": ("remove", "add"),
}
_CONTEXT = ("neighbours", "unit", "audience", "numerics")


def claim_to_json(claim: Claim) -> dict[str, Any]:
    """Write a claim with strings only; a context that is the library's default is left out.

    >>> claim_to_json(PureDP(0.1))
    {'type': 'PureDP', 'epsilon': '0.1'}
    """
    data: dict[str, Any] = {"type": type(claim).__name__}
    for name in _AMOUNTS[data["type"]]:
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
    return data


def claim_from_json(data: Mapping[str, Any]) -> Claim:
    """Read a claim back from its JSON.

    >>> print(claim_from_json({"type": "ApproxDP", "epsilon": "3", "delta": "1e-6"}))
    ApproxDP(ε = 3, δ = 1e-6)
    """
    kind = str(data.get("type"))
    if kind not in _AMOUNTS:
        raise ClaimError(f"a claim of an unknown type {kind!r}; {nearest(kind, _AMOUNTS)}")
    names = _AMOUNTS[kind]
    unknown = set(data) - {"type", *names, *_CONTEXT}
    missing = set(names) - set(data)
    if unknown or missing:
        raise ClaimError(f"a {kind} is written with {', '.join(names)}; got {', '.join(sorted(data))}")
    context = _context(data)
    match kind:
        case "RDP":
            return RDP(RenyiOrders.of(data["curve"]), **context)
        case "Profile":
            return Profile(curve_from_json(data["remove"]), curve_from_json(data["add"]), **context)
        case "ApproxDP":
            return ApproxDP(data["epsilon"], data["delta"], **context)
        case "PureDP":
            return PureDP(data["epsilon"], **context)
        case "BoundedRange":
            return BoundedRange(data["epsilon"], **context)
        case "ZCDP":
            return ZCDP(data["rho"], **context)
        case _:
            return GDP(data["mu"], **context)


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
    match sorted(amounts):
        case ["epsilon"]:
            return PureDP(amounts["epsilon"], **context)
        case ["delta", "epsilon"]:
            return ApproxDP(amounts["epsilon"], amounts["delta"], **context)
        case ["rho"]:
            return ZCDP(amounts["rho"], **context)
        case ["mu"]:
            return GDP(amounts["mu"], **context)
        case other:
            raise ClaimError(
                "a guarantee is written as epsilon, as epsilon and delta, as rho, or as mu; "
                f"got {', '.join(other) or 'nothing'}"
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
    if "audience" in data:
        context["audience"] = data["audience"]
    if "numerics" in data:
        context["numerics"] = data["numerics"]
    return context
