"""What is public about a fitted model's privacy, in one place: `model.privacy_`."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from sidelight.guarantees import Claims, Neighbours, short_text
from sidelight.regression.plan import LinearPlan


@dataclass(frozen=True, kw_only=True)
class FittedPrivacy:
    """The promise of one fit and the constants that it follows from. Nothing here depends on the data.

    Args:
        epsilon: The promise; with `delta` for `neighbours`.
        delta: The promise.
        delta_removed: The delta proved at `epsilon` for a row removed.
        delta_added: The same for a row added.
        neighbours: What two data sets differ by.
        unit: What is added or removed.
        noise_scale: σ, of each entry of the linear term.
        regularisation: λ, beside the sum of the losses.
        tolerance: τ, the certified bound of the gradient.
        output_noise_scale: σ_out, added to every coefficient.
        row_norm: R, the bound of a row with its constant column.
        loss: The loss and its parameters.
        bound: The theorem.
        fits: How many such fits the model is made of: the classes, with one against the rest, else 1.
    """

    epsilon: Fraction
    delta: Fraction
    delta_removed: Fraction
    delta_added: Fraction
    neighbours: Neighbours
    unit: Any
    noise_scale: Fraction
    regularisation: Fraction
    tolerance: Fraction
    output_noise_scale: Fraction
    row_norm: Fraction
    loss: dict[str, str]
    bound: str
    fits: int
    claims: Claims = field(repr=False)
    plan: LinearPlan = field(repr=False)

    @classmethod
    def of(cls, plan: LinearPlan, claims: Claims, *, fits: int) -> FittedPrivacy:
        """Read them off a plan. With several fits, the deltas are the composed one."""
        m = plan.mechanism
        removed, added = m.deltas(plan.epsilon) if fits == 1 else (plan.delta, plan.delta)
        return cls(
            epsilon=plan.epsilon,
            delta=plan.delta,
            delta_removed=removed,
            delta_added=added,
            neighbours=Neighbours.ADD_REMOVE,
            unit=plan.unit,
            noise_scale=m.noise_scale,
            regularisation=m.regularisation,
            tolerance=m.tolerance,
            output_noise_scale=m.output_noise_scale,
            row_norm=plan.row_norm,
            loss=plan.loss.to_json(),
            bound=m.bound,
            fits=fits,
            claims=claims,
            plan=plan,
        )

    def pld(self, *, step: float = 1e-4) -> Any:
        """Return dp_accounting's privacy loss distribution of the whole model, pessimistic, to compose with others."""
        one = self.plan.mechanism.loss_distribution(step=step)
        return one if self.fits == 1 else one.self_compose(self.fits)

    def __str__(self) -> str:
        return (
            f"({short_text(self.epsilon)}, {short_text(self.delta)})-DP, {self.neighbours} {self.unit}; "
            f"{self.loss['loss']} loss, noise {short_text(self.noise_scale)}, "
            f"regularisation {short_text(self.regularisation)}"
        )
