"""From the public constants of a fit to its published report. No row, no gradient and no noise passes through here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.privacy_page.losses import Loss, lipschitz_bounds
from sidelight.privacy_page.published import (
    SCHEMA,
    DataDependent,
    Feature,
    Guarantee,
    LabelEncoding,
    PublishedReport,
    RowEncoding,
    Scope,
)

#: A product and a sum of floats are each off by half of it, and a sum of two coefficients and its quotient.
_FLOAT = 2.0**-52
#: Quantiles are rounded up by more than the error of their computation.
_UP = 1 + 1e-13


@dataclass(frozen=True, kw_only=True)
class FitConstants:
    """The public numbers of a fit: λ, σ, τ, σ_out, the step to which the released coefficients were rounded, and the
    pure epsilon of what was released before it."""

    epsilon: float
    delta: float
    regularisation: float
    sigma: float
    tolerance: float
    sigma_out: float
    rounding_step: float = 0.0
    beforehand: float = 0.0

    @property
    def mu_out(self) -> float:
        """The Gaussian mechanism of the output step, 2τ/(λσ_out)."""
        return 2 * self.tolerance / (self.regularisation * self.sigma_out) if self.sigma_out else 0.0

    def slack(self, reached: float, columns: int, *, longest: float = 0.0) -> float:
        """Bound |xᵀ(θ_rel - θᴾ)|/‖x‖: the solver's tolerance, the output noise, and the rounding of what is shown.

        `longest` is the length of the published coefficients, with whose size the floats of xᵀθ are rounded: a middle
        that is far larger than the range makes it larger than all else.
        """
        rounding = self.rounding_step / 2 * math.sqrt(columns) + (columns + 4) * _FLOAT * longest
        return self.tolerance / self.regularisation + self.sigma_out * reached + rounding


def build_report(
    *,
    loss: Loss,
    encoding: RowEncoding,
    theta: Sequence[Any],
    constants: FitConstants,
    rho: float = 1e-6,
    scope: Scope = "one-person",
    n_public: int | None = None,
    data_dependent: DataDependent | None = None,
) -> PublishedReport:
    """Write the report of a fit.

    Guarantee: post-processing of what is public and released already: free, unless `data_dependent` was paid for.

    Raises:
        RangeError: rho, scope or n_public make no sense.
        SchemaError: the encoding does not fit the coefficients.
    """
    classes = len(encoding.label.classes) if encoding.label.classes is not None else 1
    paid = data_dependent is not None
    reached = report_quantiles(
        rho, scope=scope, columns=encoding.columns, classes=classes, n_public=n_public, paid=paid
    )
    written = {
        "schema": SCHEMA,
        "mechanism": "objective-perturbation",
        "neighbours": "add-or-remove-one-row",
        "guarantee": Guarantee(epsilon=constants.epsilon, delta=constants.delta),
        "loss": loss,
        "encoding": encoding,
        "theta": list(theta),
        "regularisation": constants.regularisation,
        "sigma": constants.sigma,
        "mu_out": constants.mu_out,
        "beforehand": constants.beforehand or None,
        "slack": constants.slack(reached.slack, encoding.columns, longest=_longest(theta)),
        "rho": rho,
        "q": reached.along,
        "q_axis": reached.axis,
        "q_out": reached.output if scope == "everyone" or classes > 1 else None,
        "scope": scope,
        "n_public": n_public,
        "maximum": largest_bound(
            loss, encoding=encoding, constants=constants, reached=reached, classes=classes, paid=data_dependent
        ),
        "data_dependent": data_dependent,
    }
    try:
        return PublishedReport(**written)  # type: ignore[arg-type]
    except ValueError as error:  # the fields contradict one another
        raise SchemaError(str(error)) from None


def largest_bound(
    loss: Loss,
    *,
    encoding: RowEncoding,
    constants: FitConstants,
    reached: NoiseQuantiles,
    classes: int = 1,
    paid: DataDependent | None = None,
) -> float:
    """Return the number that no row's bound exceeds (per-instance proof page, Theorem 3)."""
    norm = math.hypot(encoding.data_norm, encoding.intercept_value or 0.0)
    steep, bent = lipschitz_bounds(loss, norm, largest=encoding.label.hi or 0.0)
    lam, sigma = constants.regularisation, constants.sigma
    spread = max(classes - 1, 1)  # a softmax spreads the trace 1 - 1/K over K - 1 eigenvalues
    curvature = spread * math.log1p((2 * bent / classes if classes > 1 else bent) / lam)
    along, extra = steep * reached.along / sigma, 0.0
    if paid is not None:
        share = sigma**2 / (sigma**2 + paid.sigma2**2)
        shown = math.sqrt(sum(entry * entry for entry in paid.gradient))
        along = steep * (share * shown / sigma**2 + paid.sigma2 * paid.q / (sigma * math.hypot(sigma, paid.sigma2)))
        own = math.hypot(steep / paid.sigma2, bent / (math.sqrt(2) * paid.sigma3) if paid.sigma3 else 0.0)
        extra = own**2 / 2 + own * paid.q
    output = constants.mu_out**2 / 2 + constants.mu_out * reached.output
    own_fit = curvature + steep**2 / (2 * sigma**2) + along + output + extra
    return (own_fit + constants.beforehand) * (1 + 1e-12)


def features_of(declared: Sequence[Feature | dict[str, Any]]) -> list[Feature]:
    """Read a declaration of features.

    Raises:
        SchemaError: a field is missing, unknown or impossible; the message names it.
    """
    return [each if isinstance(each, Feature) else _feature(each, place) for place, each in enumerate(declared)]


def label_of(*, names: Sequence[Any] | None = None, bounds: tuple[float, float] | None = None) -> LabelEncoding:
    """Declare a label: its classes (two or more, in the model's order), or the range of a number."""
    if bounds is not None:
        return LabelEncoding(lo=bounds[0], hi=bounds[1])
    if names is None or len(names) < 2:
        raise RangeError("a label has at least two classes, or a range")
    texts = [str(name) for name in names]
    if len(set(texts)) != len(texts):
        raise RangeError("two classes are spelled alike in a report; use classes whose texts differ")
    return LabelEncoding(negative=texts[0], positive=texts[1]) if len(texts) == 2 else LabelEncoding(classes=texts)


@dataclass(frozen=True, kw_only=True)
class NoiseQuantiles:
    """How far the noise reaches: along a row, in one entry, in the output step, and in the slack of a predictor."""

    along: float
    axis: float | None
    output: float
    slack: float


def report_quantiles(
    rho: float, *, scope: Scope, columns: int, classes: int = 1, n_public: int | None = None, paid: bool = False
) -> NoiseQuantiles:
    """Return how far the noise of a release reaches, except with a stated probability.

    Three events share the failure probability ρ of a free report, six that of a paid one; each is two-sided.

    Guarantee: all events of the report fail together with probability at most rho: for one person fixed beforehand, for
    n_public such persons at once, or for everyone (per-instance proof page, Theorems 3 to 5).

    Args:
        rho: The failure probability of the report.
        scope: For whom it holds.
        columns: The number of coefficients of one predictor.
        classes: The number of predictors: the classes of a softmax, else 1.
        n_public: The public number of persons of scope "all-n".
        paid: Whether six events share rho, not three.
    """
    if not 0 < rho < 1:
        raise RangeError(f"rho is a probability above 0 and below 1, got {rho:g}; 1e-6 is usual")
    if scope not in ("one-person", "all-n", "everyone"):
        raise RangeError(f"scope is 'one-person', 'all-n' or 'everyone', got {scope!r}")
    if (scope == "all-n") != (n_public is not None):
        raise RangeError("n_public, a public number of people, belongs to scope='all-n' and to no other")
    if n_public is not None and n_public < 1:
        raise RangeError(f"n_public must be at least 1, got {n_public}")
    others = max(classes - 1, 1)
    if scope == "everyone":
        size = columns * classes
        return NoiseQuantiles(
            along=chi_upper(size, rho / 6),
            axis=normal_upper(rho / (12 * columns * _pairs(classes))),
            output=chi_upper(size, rho / 3),
            slack=chi_upper(size, rho / 3),
        )
    share = rho / ((12 if paid else 6) * (n_public or 1))
    return NoiseQuantiles(
        along=normal_upper(share / others),
        axis=None,
        output=normal_upper(share),
        slack=normal_upper(share / classes),
    )


def normal_upper(tail: float) -> float:
    """Return Φ⁻¹(1 - tail), computed from the small side.

    >>> round(normal_upper(1e-6 / 6), 10)
    5.1035540029
    """
    from scipy.special import ndtri

    return float(-ndtri(tail)) * _UP


def chi_upper(dimension: int, tail: float) -> float:
    """Return the length that a standard normal vector exceeds with probability `tail`."""
    from scipy.special import chdtri

    return math.sqrt(float(chdtri(dimension, tail))) * _UP


def _longest(theta: Sequence[Any]) -> float:
    """Return the length of the coefficients; of several predictors the largest."""
    return max(math.hypot(*each) for each in theta) if isinstance(theta[0], Sequence) else math.hypot(*theta)


def _pairs(classes: int) -> int:
    """Count the differences of two columns of noise that a softmax may need; one column needs none."""
    return 1 if classes == 1 else classes * (classes - 1) // 2


def _feature(declared: Any, place: int) -> Feature:
    """Read one feature, and say what was wanted where it is none."""
    known = Feature.__struct_fields__
    wanted = f"a feature has a name and, if wanted, {', '.join(known[1:-1])} or {known[-1]}"
    if not isinstance(declared, dict):
        raise SchemaError(
            f"features: number {place} must be a Feature or a dict, got {type(declared).__name__}; {wanted}"
        )
    strange = next((key for key in declared if key not in known), None)
    if strange is not None:
        raise SchemaError(
            f"features: number {place} has an unknown field {strange!r}; {nearest(str(strange), known)}; {wanted}"
        )
    try:
        return msgspec.convert(declared, Feature)
    except msgspec.ValidationError as error:
        raise SchemaError(f"features: number {place}: {error}; {wanted}") from None
