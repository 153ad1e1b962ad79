"""Private linear models by objective perturbation: losses, bounded rows, solvers, certificates, and one pure fit."""

from sidelight.regression.fit_core import FittedLinear, certified_minimum, fit_linear, fit_plan
from sidelight.regression.losses import (
    ClippedSquaredLoss,
    HuberLoss,
    LogCoshLoss,
    LogisticLoss,
    Loss,
    OneVsRestLoss,
    PoissonLoss,
    SmoothedHingeLoss,
    SoftmaxLoss,
)
from sidelight.regression.objective import GradientCertificate, Objective, certify, error_bound
from sidelight.regression.plan import LinearPlan, plan_linear
from sidelight.regression.rows import (
    Block,
    BoundedArrays,
    BoundedRows,
    OnViolation,
    RowPolicy,
    StreamedRows,
    bounded_rows,
)
from sidelight.regression.solver import Solver, accelerated, minimise, newton

__all__ = [
    "Block",
    "BoundedArrays",
    "BoundedRows",
    "ClippedSquaredLoss",
    "FittedLinear",
    "GradientCertificate",
    "HuberLoss",
    "LinearPlan",
    "LogCoshLoss",
    "LogisticLoss",
    "Loss",
    "Objective",
    "OnViolation",
    "OneVsRestLoss",
    "PoissonLoss",
    "RowPolicy",
    "SmoothedHingeLoss",
    "SoftmaxLoss",
    "Solver",
    "StreamedRows",
    "accelerated",
    "bounded_rows",
    "certified_minimum",
    "certify",
    "error_bound",
    "fit_linear",
    "fit_plan",
    "minimise",
    "newton",
    "plan_linear",
]
