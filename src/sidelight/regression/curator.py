"""What a fit really revealed about each person, exactly: for the curator's audits, and never to be published.

log p_D(θᴾ) - log p_D±z(θᴾ) depends on everyone's data; publishing a single true loss can give a count, and with it a
row, away exactly. Bounds that may be published come from `privacy_report` instead.

It needs the noise of the fit and its minimum, which are kept only where that was asked for beforehand: the noise could
be subtracted, so a fitted model never holds it. It lives in an object of its own that refuses to be copied,
pickled or printed, and dies with the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NoReturn
from weakref import WeakKeyDictionary

import numpy as np

from sidelight.errors import CuratorOnlyError, SchemaError
from sidelight.guarantees import Amount, positive
from sidelight.records.engines.arrays import as_numbers
from sidelight.records.engines.frames import column_array, matrix_of, names_of
from sidelight.regression.losses import Floats
from sidelight.regression.losses.loss import positions_of
from sidelight.regression.objective import Objective
from sidelight.regression.plan import LinearPlan
from sidelight.regression.rows import Block, bounded_rows, is_sparse

#: Outside the models: a model that is pickled, copied or cloned has nothing here. With what was released
#: then, so that a later fit does not answer for an earlier one.
_INSIDES: WeakKeyDictionary[Any, tuple[Any, PrivateFit]] = WeakKeyDictionary()
_KEEPER: ContextVar[Kept | None] = ContextVar("sidelight_kept_noise", default=None)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PrivateFit:
    """A fit with its inside. Everything but the plan and `released` is private, whatever it cost."""

    plan: LinearPlan
    objective: Objective
    point: Floats
    released: Floats

    def model(self) -> dict[str, Floats]:
        """Return what may leave: coefficients (outputs, features), and what the constant column adds to each output."""
        plan, constant = self.plan, np.zeros(self.released.shape[1])
        if plan.intercept is not None:
            constant = self.released[-1] * float(plan.intercept)
        return {"coefficients": self.released[: plan.features].T.copy(), "intercept": constant}

    def __reduce__(self) -> NoReturn:
        raise TypeError("the inside of a private fit cannot be pickled or copied: it holds the noise and the rows")

    def __repr__(self) -> str:
        return "PrivateFit(private)"


class Kept:
    """Where a fit is put that an audit asked for; `fit` is None until there is one."""

    def __init__(self) -> None:
        self.fit: PrivateFit | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("the inside of a private fit cannot be pickled or copied: it holds the noise and the rows")


@contextmanager
def keep_noise(*, i_am_the_curator: bool = False) -> Iterator[Kept]:
    """Keep the inside of the fits made within, for `exact_losses`. It must never be published, nor anything from it.

    Raises:
        CuratorOnlyError: without `i_am_the_curator=True`.
    """
    require_curator(i_am_the_curator=i_am_the_curator)
    kept = Kept()
    token = _KEEPER.set(kept)
    try:
        yield kept
    finally:
        _KEEPER.reset(token)


def remember(fit: PrivateFit) -> None:
    """Hand a fit to the code that asked for it beforehand, in this context, if any."""
    keeper = _KEEPER.get()
    if keeper is not None:
        keeper.fit = fit


def require_curator(*, i_am_the_curator: Any) -> None:
    """Refuse what only the curator may see."""
    if i_am_the_curator is not True:
        raise CuratorOnlyError(
            "true privacy losses depend on everyone's data: one of them can give a row away exactly. If you hold the "
            "data anyway and publish nothing of what you will see, pass i_am_the_curator=True; privacy_report() is the "
            "public answer"
        )


def fit_and_keep(model: Any, rows: Any, targets: Any, *, i_am_the_curator: bool = False) -> None:
    """Fit an estimator and keep the internals of the fit, in this process."""
    with keep_noise(i_am_the_curator=i_am_the_curator) as kept:
        model.fit(rows, targets)
    assert kept.fit is not None  # a fit that returned has been remembered
    _INSIDES[model] = (model.release_, kept.fit)


def kept_fit(model: Any) -> PrivateFit:
    """Return the inside of an estimator's last fit.

    Raises:
        CuratorOnlyError: it was not kept, or this is a copy.
    """
    release, fit = _INSIDES.get(model, (None, None))
    if fit is None or release is not model.release_:
        raise CuratorOnlyError(
            "the noise of this fit was not kept: fit it with fit_keeping_noise(X, y, i_am_the_curator=True) in this "
            "process. A model that was copied, saved or loaded never holds it"
        )
    return fit


def exact_losses(
    fit: PrivateFit, rows: Any, labels: Any, *, member: Literal["yes", "no"], i_am_the_curator: bool = False
) -> Floats:
    """Return log p_D(θᴾ) - log p_D±z(θᴾ) for every row z: removed from D if it is a member, else added.

    The exact loss of the minimum, without the output step, signed (per-instance proof page, Theorem 1). NaN for a row
    that could not have taken part. Not private.

    Args:
        fit: The inside of a fit, from `keep_noise`.
        rows: Raw rows, bounded here as the fit bounded its own.
        labels: Their labels.
        member: Whether these rows are in the data of the fit.
        i_am_the_curator: Must be True.

    Raises:
        CuratorOnlyError: without `i_am_the_curator=True`.
    """
    require_curator(i_am_the_curator=i_am_the_curator)
    plan = fit.plan
    _, _, finite = bounded_rows(rows, data_norm=plan.data_norm, on_violation=plan.on_violation)
    _, known = plan.loss.admit(labels)
    losses = np.full(len(finite), np.nan)
    block = plan.policy.block(rows, labels)
    sigma = float(plan.mechanism.noise_scale)
    sign: Literal[1, -1] = -1 if member == "yes" else 1
    losses[finite & known] = losses_at(fit.objective, fit.point, block, sigma=sigma, sign=sign)
    return losses


def losses_at(objective: Objective, theta: Floats, block: Block, *, sigma: float, sign: Literal[1, -1]) -> Floats:
    """Evaluate formula (1) at the minimum theta of the objective, whose linear term is the noise b = -∇J.

    -log det(I + s·H⁻¹∇²ℓ) + ‖∇ℓ‖²/(2σ²) + s·⟨∇ℓ, ∇J⟩/σ², H with the curvature of everything public in J
    """
    x = block.dense
    predictor = block.predict(theta)
    slope = objective.loss.first_derivative(predictor, block.targets, block.norms)
    bend = _bends(objective, predictor, block)
    inverse = np.linalg.inv(full_hessian(objective, theta)).reshape((theta.shape[1], x.shape[1]) * 2)
    # (I ⊗ xᵀ)·H⁻¹·(I ⊗ x), one outputs x outputs matrix a row
    leverage = np.einsum("ni,kilj,nj->nkl", x, inverse, x, optimize=True)
    _, curvature = np.linalg.slogdet(np.eye(theta.shape[1]) + sign * bend @ leverage)
    square = np.sum(slope**2, axis=1) * np.sum(x**2, axis=1)
    along = np.sum(slope * (x @ -objective.linear), axis=1)  # ⟨∇ℓ, ∇J⟩, ∇J = -b
    return np.asarray(-curvature + square / (2 * sigma**2) + sign * along / sigma**2)


def full_hessian(objective: Objective, theta: Floats) -> Floats:
    """Return the Hessian of J, coefficients of one output after those of the other."""
    by_column = objective.hessian(theta).reshape(theta.shape * 2)
    return np.asarray(by_column.transpose(1, 0, 3, 2).reshape(theta.size, theta.size))


def _bends(objective: Objective, predictor: Floats, block: Block) -> Floats:
    """Return the second derivative of the loss in its predictors, one matrix per row."""
    outputs = predictor.shape[1]
    columns = []
    for place in range(outputs):
        along = np.zeros_like(predictor)
        along[:, place] = 1.0
        columns.append(objective.loss.second_derivative(predictor, block.targets, block.norms, along))
    return np.stack(columns, axis=2)


@dataclass(frozen=True)
class NonPrivateRowCheck:
    """Exact counts of private rows: NOT PRIVATE, not to be published, not to be used to choose a parameter."""

    rows: int
    too_long: int
    not_finite: int
    unknown_label: int

    def __str__(self) -> str:
        return (
            f"NOT PRIVATE, for the data owner only: of {self.rows} rows {self.too_long} are longer than data_norm and "
            f"would be shortened, {self.not_finite} have a value that is missing or not finite, {self.unknown_label} "
            "a label that is not declared; these take no part"
        )


def nonprivate_check_rows(X: Any, data_norm: Amount, y: Any = None, *, classes: Any = None) -> NonPrivateRowCheck:  # noqa: N803
    """Count the rows that a fit would shorten or leave out. NOT PRIVATE: for the data owner, before any release.

    A `data_norm` chosen because of the answer is a parameter read off the data, which no guarantee covers. If many rows
    are too long, look for a public reason why the bound was wrong.

    Args:
        X: Rows: an array, a sparse matrix or a frame.
        data_norm: The public bound of a row's Euclidean norm.
        y: Their labels, to be compared with `classes`.
        classes: The declared labels.

    Returns:
        Exact counts of private rows, not to be published.

    >>> import numpy as np
    >>> nonprivate_check_rows(np.array([[0.5, 0.5], [3.0, 4.0], [np.nan, 0.0]]), data_norm=1)
    NonPrivateRowCheck(rows=3, too_long=1, not_finite=1, unknown_label=0)
    """
    bound = positive(data_norm, name="data_norm")
    if not is_sparse(X):
        raw = matrix_of(X) if names_of(X) is not None else np.asanyarray(X)
        if raw.ndim != 2:
            raise SchemaError(f"X must have two dimensions, rows and columns, got {raw.ndim}")
        X = as_numbers(raw.reshape(-1)).reshape(raw.shape)  # noqa: N806
    unbounded, norms, finite = bounded_rows(X, data_norm=Fraction(10) ** 300, on_violation="clip")
    known = np.ones(unbounded.shape[0], dtype=bool)
    if y is not None:
        if classes is None:
            raise SchemaError("labels can only be checked against classes=[...]")
        _, known = positions_of(column_array(y).reshape(-1), tuple(classes))
    long = finite & known & (norms > float(bound) * (1 + 1e-9))
    return NonPrivateRowCheck(
        rows=int(unbounded.shape[0]),
        too_long=int(long.sum()),
        not_finite=int((~finite).sum()),
        unknown_label=int((~known).sum()),
    )
