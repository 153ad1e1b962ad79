"""The published example, and the tiny reports that the reference numbers belong to."""

from __future__ import annotations

from typing import Any

from sidelight.privacy_page.build import FitConstants

#: What a fit of Adult at (1, 1e-5) has: the published example's numbers follow from it.
ADULT = FitConstants(
    epsilon=1, delta=1e-5, regularisation=1.98843840, sigma=5.27728290, tolerance=2**0.5 * 1e-6, sigma_out=2.653984e-4
)


def published() -> dict[str, Any]:
    """The example of the documentation: two features, one of them a category."""
    return {
        "schema": "privacy-report/1",
        "mechanism": "objective-perturbation",
        "neighbours": "add-or-remove-one-row",
        "guarantee": {"epsilon": 1.0, "delta": 1e-5},
        "loss": {"name": "logistic", "weights": {"-1": 1.0, "1": 1.0}},
        "encoding": {
            "features": [{"name": "age", "lo": 0.0, "hi": 100.0}, {"name": "sex", "levels": ["F", "M"]}],
            "row_policy": "clip",
            "data_norm": 1.0,
            "intercept_value": 1.0,
            "label": {"negative": "<=50K", "positive": ">50K"},
        },
        "theta": [0.12, -0.4, 0.9, -1.1],
        "lambda": 1.98843840,
        "sigma": 5.27728290,
        "mu_out": 0.00535963,
        "slack": 0.00135519,
        "rho": 1e-6,
        "q": 5.1035540029,
        "scope": "one-person",
        "maximum": 1.655238,
        "data_dependent": None,
    }


def tiny(**changes: Any) -> dict[str, Any]:
    """Two numbers as they are, no constant column, λ = 1, σ = 2, θ = (0.3, -0.2), an exact minimum."""
    report = published() | {
        "encoding": {
            "features": [{"name": "first"}, {"name": "second"}],
            "row_policy": "clip",
            "data_norm": 1.0,
            "intercept_value": None,
            "label": {"negative": "-1", "positive": "1"},
        },
        "theta": [0.3, -0.2],
        "lambda": 1.0,
        "sigma": 2.0,
        "mu_out": 0.0,
        "slack": 0.0,
        "rho": 3e-6,
        "q": 4.8916384757,
        "maximum": 2.7939627892,
    }
    if changes.get("loss", report["loss"])["name"] not in ("logistic", "smoothed-hinge"):
        report["encoding"] = report["encoding"] | {"label": {"lo": -5.0, "hi": 5.0}}
    return report | changes
