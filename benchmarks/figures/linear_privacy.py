"""Figure 4.1 of the thesis: what five theorems prove for the same objective perturbation, delta against epsilon.

Must show: our bound lies between the thesis's and the Gaussian mechanism, which no bound for this noise can beat; all
are far below the theorem of 2012; and at delta 1e-5 the epsilons are the known ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from benchmarks.baselines.objective_perturbation import gaussian_epsilon, kifer_epsilon
from benchmarks.figures.command import Figure, Size
from benchmarks.figures.panel import Curve, Panel, Trend
from benchmarks.measuring import sized
from sidelight.guarantees import Claims
from sidelight.guarantees.conversions import gdp_delta, renyi_delta
from sidelight.mechanisms.objective_perturbation import Bound, LossShape, ObjectivePerturbation

KIFER, RENYI, THESIS = "Kifer et al. 2012", "thesis, Rényi", "thesis, hockey stick"
OURS, GAUSSIAN = "our bound", "Gaussian mechanism (floor)"
DELTA = "1e-5"
#: Enough orders for a smooth Rényi curve.
ORDERS = tuple(Fraction(a) for a in (1.5, 2, 3, 4, 6, 8, 11, 16, 22, 32, 45, 64, 90, 128, 256))


@dataclass(frozen=True)
class Setting:
    """Noise, curvature and regularisation; the gradient is at most 1. `known` are the epsilons at delta 1e-5."""

    noise_scale: int
    curvature: int
    regularisation: int
    known: tuple[float, float, float, float]  # Kifer, thesis, ours, Gaussian

    def mechanism(self, bound: Bound) -> ObjectivePerturbation:
        """Return the mechanism for a loss whose slope keeps its sign, as all of a classifier's do."""
        return ObjectivePerturbation(
            shape=LossShape(gradient=Fraction(1), curvature=Fraction(self.curvature), sign_definite=True),
            noise_scale=Fraction(self.noise_scale),
            regularisation=Fraction(self.regularisation),
            bound=bound,
        )

    def kifer(self, epsilon: float) -> float:
        """Return delta of the theorem of 2012, which says nothing while λ < 2β/ε."""
        if self.regularisation * epsilon < 2 * self.curvature:
            return 1.0
        return min(1.0, 2 * math.exp(-((self.noise_scale * epsilon) ** 2 - 4 * epsilon) / 8))

    def epsilons(self) -> tuple[float, float, float, float]:
        """Return the four epsilons at delta 1e-5."""
        proved = [
            float(Claims.of(self.mechanism(bound).profile()).approx_at(DELTA).epsilon) for bound in ("thesis", "tight")
        ]
        older = kifer_epsilon(
            noise_scale=self.noise_scale,
            regularisation=self.regularisation,
            delta=float(DELTA),
            gradient=1.0,
            curvature=self.curvature,
        )
        floor = float(gaussian_epsilon(noise_scale=self.noise_scale, delta=DELTA))
        return older, proved[0], proved[1], floor


SETTINGS = (
    Setting(5, 1, 20, (2.057964, 0.810872, 0.774312, 0.725522)),
    Setting(10, 1, 5, (1.008375, 0.581480, 0.522991, 0.340669)),
)


def measure(size: Size) -> list[Panel]:
    """Return one panel a setting."""
    places = 61 if size.full else sized(31, 7)
    return [_panel(setting, places) for setting in SETTINGS]


def _panel(setting: Setting, places: int) -> Panel:
    epsilons = np.linspace(0, 1.5, places)
    exact = [Fraction(round(epsilon, 6)).limit_denominator(10**6) for epsilon in epsilons]
    thesis, ours = setting.mechanism("thesis"), setting.mechanism("tight")
    orders = thesis.renyi(ORDERS).curve.points
    mu = Fraction(1, setting.noise_scale)
    curves = {
        KIFER: [setting.kifer(epsilon) for epsilon in epsilons],
        RENYI: [min([1.0, *(float(renyi_delta(r, a - 1, at)) for a, r in orders)]) for at in exact],
        THESIS: [float(max(thesis.deltas(at))) for at in exact],
        OURS: [float(max(ours.deltas(at))) for at in exact],
        GAUSSIAN: [float(gdp_delta(mu, at)) for at in exact],
    }
    return Panel(
        f"σ = {setting.noise_scale}, β = {setting.curvature}, λ = {setting.regularisation}",
        "computed, L = 1; drawn from 1e-12 up",
        "ε",
        epsilons,
        {name: Curve(_drawn(values)) for name, values in curves.items()},
        y_label="δ",
        rows=range(0, places, (places - 1) // 6),
    )


def _drawn(deltas: list[float]) -> np.ndarray:
    values = np.array(deltas)
    return np.where(values >= 1e-12, values, np.nan)


def trends(panels: list[Panel], size: Size) -> list[Trend]:
    """State what must show."""
    found = []
    for panel, setting in zip(panels, SETTINGS, strict=True):
        kifer, thesis, ours, floor = setting.epsilons()
        found.append(
            Trend(
                f"{panel.title}: at δ = {DELTA} ours is between the thesis's bound and the floor",
                f"ε = {kifer:.6f} (2012), {thesis:.6f} (thesis), {ours:.6f} (ours), {floor:.6f} (Gaussian)",
                floor < ours < thesis < kifer,
            )
        )
        gap = max(
            abs(value / known - 1) for value, known in zip((kifer, thesis, ours, floor), setting.known, strict=True)
        )
        found.append(Trend(f"{panel.title}: these are the known numbers", f"within {gap:.1e}", gap < 2e-6))
        edge, middle, above = (np.nan_to_num(panel.curves[name].mean) for name in (GAUSSIAN, OURS, THESIS))
        below = bool(np.all(edge <= middle * (1 + 1e-9)) and np.all(middle <= above * (1 + 1e-9)))
        found.append(Trend(f"{panel.title}: in this order everywhere", "floor ≤ ours ≤ thesis", below))
    return found


FIGURE = Figure(
    number="4.1",
    title="Objective perturbation: what five bounds prove for the same noise",
    note="The lower, the better. Nothing can lie below the dashed line. Thesis: Theorems 4.3.1 (corrected) and 4.3.2.",
    remark="Rows added or removed. Theorem 4.3.1 has the sign of its proof here; as printed it would claim too much.",
    measure=measure,
    trends=trends,
    quick=Size(trials=1),
    paper=Size(trials=1, full=True),
    name="linear_privacy",
)

if __name__ == "__main__":
    FIGURE.main()
