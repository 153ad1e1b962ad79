"""A descent before any data: its public parameters and its price.

The parts are a choice, a noisy Gram matrix, a noisy count, perhaps a second look at narrow columns (counts of
distances, then a second matrix), the steps, and a last sum of classes. The squares of what they cost add up to mu² at
most on every branch: what the second look costs is taken from the steps, and the steps together cost the same for every
number of steps and every clip, which follow from what was released before them (descent proof page, Theorem D).

`PricedFit` is what every fit by noisy gradient sums shares: its price as parts of mu², the noise of each part, claims.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError, nearest
from sidelight.guarantees import (
    GDP,
    Amount,
    Claims,
    Neighbours,
    Row,
    Unit,
    decimal_text,
    exact,
    native_claims,
    positive,
    unit_to_text,
)
from sidelight.guarantees.amounts import whole
from sidelight.guarantees.conversions import gdp_within
from sidelight.guarantees.units import rows_of_unit
from sidelight.mechanisms.additive import Noise
from sidelight.mechanisms.budget import Budget, price_cautions
from sidelight.regression.descent.geometry import PublicMoments
from sidelight.regression.descent.integer_rows import GRAM_SENSITIVITY, Integers, offset_sensitivity
from sidelight.regression.descent.rules import FitShares, GeometryKind, SecondLook, Shares, most_mapped, odds_of, shares
from sidelight.regression.descent.shrinkage import Shrinkage
from sidelight.regression.descent.starts import StartChoice
from sidelight.regression.descent.targets import Targets
from sidelight.regression.model_predictions import declared_rows
from sidelight.regression.rows import OnViolation, RowPolicy


@dataclass(frozen=True, kw_only=True, eq=False)
class PricedFit:
    """The public parameters that price a fit; what is learned of which rows is for those that inherit.

    Args:
        targets: What is learned.
        candidates: Predictions to start from.
        odds: Prior odds of each of them against none.
        rows: A public number of rows.
        epsilon, delta: The target.
        mu: The Gaussian differential privacy that keeps to it.
        unit: The protected unit.
    """

    targets: Targets
    candidates: tuple[Any, ...]
    odds: Fraction
    rows: int | None
    epsilon: Fraction
    delta: Fraction
    mu: Fraction
    unit: Unit

    @property
    def shares(self) -> FitShares:
        """How mu² is divided."""
        raise NotImplementedError

    @property
    def squares(self) -> Mapping[str, Fraction]:
        """The square of what each part costs."""
        raise NotImplementedError

    @property
    def rows_per_unit(self) -> int:
        """How many rows a protected unit may have."""
        return rows_of_unit(self.unit)

    @cached_property
    def budget(self) -> Budget:
        """The whole price."""
        return Budget("mu", self.mu**2)

    def count_noise(self, value: int) -> Noise:
        """Return the noise of the number of rows."""
        return self.budget.part(self.shares.count).on(self.bounded(value, 1))

    def step_noise(self, value: Integers, *, clip: int, passes: int) -> Noise:
        """Return the noise of one of `passes` gradients, which a row moves by at most the clip."""
        return self.budget.part(self.shares.steps / passes).on(self.bounded(value, clip))

    @cached_property
    def choice(self) -> StartChoice | None:
        """The choice between the predictions and none, if there are any."""
        if not self.candidates:
            return None
        return StartChoice(
            candidates=len(self.candidates),
            budget=self.budget.part(self.shares.choice),
            odds=self.odds,
            unit=self.unit,
            rows_per_unit=self.rows_per_unit,
            votes=self.targets.kind == "squared",
        )

    @cached_property
    def claims(self) -> Claims:
        """What the release proves: GDP(mu), exact on the machine."""
        if sum(self.squares.values()) > self.mu**2:
            raise RangeError("the parts of this fit cost more than the whole; this is a defect, please report it")
        return native_claims(GDP(self.mu, unit=self.unit), mechanism="rounded_gaussian")

    def cautions(self) -> tuple[str, ...]:
        """Return public warnings about the parameters, for people."""
        return price_cautions(self.epsilon, self.delta)

    def bounded(self, value: Integers | int, sensitivity: int | Fraction) -> Bounded:
        """Return a sum with what one unit may move it by, if a row moves it by at most `sensitivity`."""
        return Bounded(
            value,
            sensitivity=Fraction(self.rows_per_unit * sensitivity),
            norm="l2",
            neighbours=Neighbours.ADD_REMOVE,
            unit=self.unit,
        )


def square_of(claims: Claims) -> Fraction:
    """Return mu² of a part: every part is Gaussian, or a selection of bounded range."""
    found = claims.gdp()
    assert found is not None
    return found.mu**2


#: What a user may ask for; "auto" is public where public rows are enough, none for wide rows.
GeometryChoice = Literal["auto", "public", "private", "none"]
#: Columns for which predictors stay below 2⁵³, with a map and without.
_MOST_COLUMNS, _MOST_PLAIN_COLUMNS = 8000, 1 << 20
_MOST_PASSES = 1000
_SMALLEST_NORM = Fraction(1, 10**40)
#: Of a coefficient and of an intercept.
_LARGEST_UNIT = Fraction(1e300)


@dataclass(frozen=True, kw_only=True, eq=False)
class DescentPlan(PricedFit):
    """Everything public about one descent; `claims` is its price, known before any data is opened.

    Args:
        features, data_norm, intercept, on_violation, shrinkage, passes: As in `plan_descent`.
        geometry: The coordinates: "private", "public" or "none".
        public: Moments of public rows, for a public geometry.
        public_candidate: The place of the prediction that `public` came from; its geometry is used if it is chosen.
            None: used in any case.
        second_look: What else is released of the columns; the steps pay for it. It follows from what was released
            before (`with_look`).
    """

    features: int
    data_norm: Fraction
    intercept: bool
    on_violation: OnViolation
    geometry: GeometryKind
    public: PublicMoments | None
    shrinkage: Shrinkage
    passes: int | None
    public_candidate: int | None = None
    second_look: SecondLook = "none"

    def after_choice(self, chosen: int | None) -> DescentPlan:
        """Return the plan of what is left: public rows that were not chosen say nothing about the geometry."""
        if self.public_candidate is None or chosen == self.public_candidate:
            return self
        return replace(self, geometry="private", public=None, public_candidate=None)

    def settled(self, value: Mapping[str, Any]) -> DescentPlan:
        """Return the plan as it was carried out, by what was released."""
        chosen = int(value["chosen"])
        look = get_args(SecondLook)[int(value.get("second_look", 0))]
        return self.after_choice(None if chosen < 0 else chosen).with_look(look)

    def with_look(self, look: SecondLook) -> DescentPlan:
        """Return the plan of what is left to pay after a release that asked for a second look."""
        return self if look == self.second_look else replace(self, second_look=look)

    @cached_property
    def shares(self) -> Shares:
        """How mu² is divided."""
        found = shares(
            self.targets.kind,
            self.geometry,
            candidates=bool(self.candidates),
            rows_declared=self.rows is not None,
            intercept=self.intercept,
        )
        return found.with_look(self.second_look)

    @property
    def mu_steps(self) -> float:
        """What all steps together cost."""
        return float(self.mu) * math.sqrt(self.shares.steps)

    def gram_noise(self, value: Integers) -> Noise:
        """Return the noise of the Gram matrix of codes: a row moves it by 2²⁸ + 2²⁶ in Frobenius norm."""
        return self.budget.part(self.shares.gram).on(self.bounded(value, GRAM_SENSITIVITY), "goe")

    def scales_noise(self, value: Integers) -> Noise:
        """Return the noise of counts of distances: a row moves one count of each column by 1."""
        root = Fraction(math.isqrt(self.features * 4**20 - 1) + 1, 2**20)  # at least √features
        return self.budget.part(self.shares.scales).on(self.bounded(value, root))

    def second_gram_noise(self, value: Integers) -> Noise:
        """Return the noise of the matrix of shortened rows, which a row moves as far as the first."""
        return self.budget.part(self.shares.second_gram).on(self.bounded(value, GRAM_SENSITIVITY), "goe")

    def offset_noise(self, value: Integers) -> Noise:
        """Return the noise of the sum of (probability - label): a row moves it by at most `offset_sensitivity`."""
        return self.budget.part(self.shares.offset).on(self.bounded(value, offset_sensitivity(len(value))))

    @cached_property
    def squares(self) -> dict[str, Fraction]:
        """The square of what each part costs: of the noise scales that are used, the steps at their share."""
        found, one = {"steps": self.mu**2 * self.shares.steps}, np.zeros((1, 1), np.int64)  # all entries cost together
        if self.shares.gram:
            found["gram"] = square_of(self.gram_noise(one).claims)
        if self.shares.count:
            found["count"] = square_of(self.count_noise(0).claims)
        if self.shares.scales:
            found["scales"] = square_of(self.scales_noise(one).claims)
        if self.shares.second_gram:
            found["second_gram"] = square_of(self.second_gram_noise(one).claims)
        if self.choice is not None:
            found["choice"] = square_of(self.choice.claims)
        if self.shares.offset:
            found["offset"] = square_of(self.offset_noise(np.zeros(self.targets.outputs, np.int64)).claims)
        return found

    @property
    def policy(self) -> RowPolicy:
        """How a raw record becomes a bounded one."""
        return RowPolicy(
            loss=self.targets,
            features=self.features,
            data_norm=self.data_norm,
            intercept=None,
            on_violation=self.on_violation,
            tight_norms=False,
        )

    def request(self) -> dict[str, str]:
        """Describe the fit for a ledger, with strings only."""
        return {
            "kind": "linear_model",
            "solver": "descent",
            "features": str(self.features),
            "epsilon": decimal_text(self.epsilon),
            "delta": decimal_text(self.delta),
            "mu": decimal_text(self.mu),
            "data_norm": decimal_text(self.data_norm),
            "intercept": "yes" if self.intercept else "none",
            "on_violation": self.on_violation,
            "geometry": self.geometry,
            **({} if self.public_candidate is None else {"geometry_of": str(self.public_candidate)}),
            "predictions": str(len(self.candidates)),
            "odds": decimal_text(self.odds),
            "rows": "none" if self.rows is None else str(self.rows),
            "shrinkage": self.shrinkage,
            "passes": "none" if self.passes is None else str(self.passes),
            "unit": unit_to_text(self.unit),
            **self.targets.to_json(),
        }


def plan_descent(
    *,
    targets: Targets,
    features: int,
    epsilon: Amount,
    delta: Amount,
    data_norm: Amount,
    intercept: bool = True,
    on_violation: OnViolation = "clip",
    geometry: GeometryChoice = "auto",
    sparse: bool = False,
    public: PublicMoments | None = None,
    public_candidate: int | None = None,
    candidates: tuple[Any, ...] = (),
    odds: Amount = 9,
    rows: int | None = None,
    shrinkage: Shrinkage = "evidence",
    passes: int | None = None,
    unit: Unit = Row(),  # noqa: B008  # frozen
) -> DescentPlan:
    """Plan a private linear model by descent: check and price it. Reads no private data.

    Args:
        targets: What is learned.
        features: The number of feature columns, public.
        epsilon: The target; there is no default.
        delta: The target; there is no default.
        data_norm: The public bound of a row's Euclidean norm; longer rows are clipped.
        intercept: Whether there is a constant column. It is not penalised.
        on_violation: "clip" shortens long rows, "normalize" gives every row the full length.
        geometry: "auto", "public", "private" or "none".
        sparse: Whether the rows come as a sparse matrix; public.
        public: Moments of public rows.
        public_candidate: The place of the candidate that they are moments of. With geometry="auto" they are used if it
            is chosen; geometry="public" uses them in any case, and so do public rows without targets.
        candidates: Predictions to start from.
        odds: Prior odds of each of them against none.
        rows: A public number of rows; a wrong one costs accuracy only.
        shrinkage: "evidence", "stein" or "none".
        passes: A number of steps instead of 8 or 16.
        unit: The protected unit; a person may have several rows.

    Raises:
        RangeError: a parameter makes no sense.
    """
    if features < 1:
        raise RangeError(f"a linear model needs at least one feature, got {features}")
    for name, given, known in (
        ("on_violation", on_violation, get_args(OnViolation)),
        ("geometry", geometry, get_args(GeometryChoice)),
        ("shrinkage", shrinkage, get_args(Shrinkage)),
    ):
        if given not in known:
            raise RangeError(f"{name} {given!r} is not known; {nearest(str(given), known)}")
    passes = None if passes is None else whole(passes, name="passes", most=_MOST_PASSES)
    norm = positive(data_norm, name="data_norm")
    if not _SMALLEST_NORM <= norm <= 1 / _SMALLEST_NORM:
        raise RangeError(f"data_norm must lie within 1e-40 and 1e40, got {float(norm):.3g}; count in other units")
    # coefficients are numbers of half ranges, and of half ranges a row length: these must not overflow after the charge
    for one in (Fraction(targets.half), Fraction(targets.half) / norm):
        if not 1 / _LARGEST_UNIT <= one <= _LARGEST_UNIT:
            raise RangeError(
                f"half of target_range ({targets.half:.3g}), and that over data_norm ({float(norm):.3g}), must lie "
                "within 1e-300 and 1e300; count in other units"
            )
    kind = _geometry(geometry, features=features, sparse=sparse, public=public)
    most = _MOST_PLAIN_COLUMNS if kind == "none" else _MOST_COLUMNS
    if features > most:
        raise RangeError(f"a descent with geometry={kind!r} has up to {most} features, got {features}")
    at, chance = positive(epsilon, name="epsilon"), positive(delta, name="delta")
    plan = DescentPlan(
        targets=targets.as_softmax if kind == "none" else targets,
        features=features,
        data_norm=norm,
        intercept=intercept,
        on_violation=on_violation,
        geometry=kind,
        public=public if kind == "public" else None,
        candidates=candidates,
        odds=odds_of(odds),
        rows=declared_rows(rows),
        shrinkage=shrinkage,
        passes=passes,
        epsilon=exact(at, name="epsilon"),
        delta=exact(chance, name="delta"),
        mu=gdp_within(at, chance),
        unit=unit,
        public_candidate=public_candidate if kind == "public" and geometry == "auto" else None,
    )
    for each in dict.fromkeys((plan, plan.after_choice(None))):  # whatever cannot be priced is found now
        for look in get_args(SecondLook) if each.geometry == "private" else ("none",):
            _ = each.with_look(look).claims
    return plan


def _geometry(given: str, *, features: int, sparse: bool, public: PublicMoments | None) -> GeometryKind:
    if given == "public":
        if public is None or not public.enough:
            raise RangeError(
                f"geometry='public' needs at least {4 * features} public rows of {features} features as prediction, "
                f"got {0 if public is None else public.count}; leave it to 'auto'"
            )
        return "public"
    if given == "private":
        return "private"
    if given == "none" or features > most_mapped(sparse=sparse):
        return "none"
    return "public" if public is not None and public.enough else "private"
