"""Principal components through a privately tested eigengap: little noise on the projector where the gap is wide.

The projector on the top components moves little when one record changes, if the eigenvalues on both sides of the cut
lie far apart; how far is released first, and the noise follows from that (stability proof page, Theorem 13). `sl.PCA`
adds noise to the matrix of second moments itself and needs no gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.moments import clipped_moments
from sidelight.errors import RangeError
from sidelight.guarantees import GDP, Amount, Claims, exact, positive
from sidelight.guarantees.amounts import whole
from sidelight.guarantees.conversions import gdp_within
from sidelight.mechanisms.additive import priced_normals
from sidelight.mechanisms.price import DrawPrice
from sidelight.mechanisms.tests_and_bounds import private_lower_bound
from sidelight.noise import Source, public_grid, to_grid
from sidelight.records import Schema, Table
from sidelight.session import Answer
from sidelight.stability.propose_test_release import (
    EIGENVALUE_TOLERANCE,
    PreparedProposal,
    ProposingQuery,
    amounts,
    check_rows_at_most,
    row_budget,
)

Floats = NDArray[np.float64]

LEVELS = 1 << 14
#: Of delta, what the private bound of the gap may fail with.
_FAILURE = Fraction(1, 6)


def projector_move(gap: float) -> float:
    """Return how far one record moves the projector (Frobenius), rows of length 1: 1/(√2 (gap - 1)).

    Infinite for a gap of at most 1, or a NaN.

    >>> round(projector_move(51), 10)
    0.0141421356
    """
    return 1 / (math.sqrt(2) * (gap - 1)) if gap > 1 else math.inf


@dataclass(frozen=True, kw_only=True)
class StablePCA(ProposingQuery):
    """Release the leading principal components, by noise on their projector, if a private bound of the eigengap allows
    it.

    Guarantee: ApproxDP(epsilon, delta) for adding or removing one of the schema's units, numerics "idealized"
    (stability proof page, Theorems 2 and 13).

    Accuracy: noise of 1/(2 gap μ) on each entry of the projector, where noise on the second moments (`sl.PCA`) ends up
    with about √2 of that at the same μ; but a part of the budget and of the gap goes to the test. Refuses where the
    noise would drown it.

    Args:
        columns: Names of `Number` columns.
        components: How many, less than the number of columns.
        radius: The public Euclidean length, about 0, that rows are shortened to.
        epsilon, delta: The price.
        gap_share: The share of the budget for the gap's bound.
        rows_at_most: Only guards the rounding of eigenvalues.

    >>> import numpy as np
    >>> from sidelight.records import Number
    >>> x = np.linspace(-0.7, 0.7, 5000)
    >>> rows = Table({"a": x, "b": x**2 / 9, "c": x}, schema=[Number("a"), Number("b"), Number("c")])
    >>> query = StablePCA(columns=["a", "b", "c"], components=1, radius=1, epsilon=2, delta="1e-6")
    >>> np.abs(query.release(rows).value).round(1).tolist()
    [[0.7, 0.0, 0.7]]
    """

    columns: Sequence[str]
    components: int
    radius: Amount
    epsilon: Amount
    delta: Amount
    gap_share: Amount = "0.2"
    rows_at_most: int = 10**7
    _wanted = "principal components want sl.Table(data, schema=[...])"

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        check_rows_at_most(self)
        most, advice = len(self.columns) - 1, "there must be fewer of them than columns"
        object.__setattr__(self, "components", whole(self.components, name="components", most=most, advice=advice))
        if not 0 < exact(self.gap_share, name="gap_share") < 1:
            raise RangeError(f"gap_share must lie strictly between 0 and 1, got {self.gap_share}")

    def prepare(self, schema: Schema) -> PreparedEigengap:
        """Check the query against the schema and price it. Opens no data."""
        radius = positive(self.radius, name="radius")
        # what the rows become, so that a radius beyond its limits is refused before the charge
        ClippedVector(
            columns=tuple(schema.number(name) for name in self.columns),
            radius=radius,
            levels=LEVELS,
            centres=(Fraction(0),) * len(self.columns),
        )
        row = row_budget(self.epsilon, self.delta, unit=schema.unit)
        share = exact(self.gap_share, name="gap_share")
        whole = gdp_within(row.epsilon, row.delta * (1 - _FAILURE))
        mu = float(whole) * (1 - 1e-12)
        return PreparedEigengap(
            claims=row.idealized,
            within=Claims.of(GDP(whole, numerics="idealized")),
            request={
                "kind": "stable_principal_components",
                "columns": list(self.columns),
                "components": str(self.components),
                **amounts(self, "radius", "epsilon", "delta", "gap_share"),
                "rows_at_most": str(self.rows_at_most),
            },
            refusal="the eigengap after these components is too small for the promise",
            columns=tuple(self.columns),
            components=self.components,
            radius=radius,
            gap_mu=mu * math.sqrt(share),
            projector_mu=mu * math.sqrt(1 - share) * (1 - 1e-12),
            failure=float(row.delta * _FAILURE),
            rows_at_most=self.rows_at_most,
        )


@dataclass(frozen=True, repr=False)
class _Spectrum:
    """The gap, and the projector on what lies above it. Secret."""

    gap: float = field(repr=False)
    projector: Floats = field(repr=False)


class ProjectorNoise(NamedTuple):
    """How far one row moves the projector, by what was released, and the deviation of the noise on it."""

    move: float
    deviation: float


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedEigengap(PreparedProposal[_Spectrum, float, ProjectorNoise]):
    """A `StablePCA` fitted to a schema."""

    columns: tuple[str, ...]
    components: int
    radius: Fraction
    gap_mu: float
    projector_mu: float
    failure: float
    rows_at_most: int

    def look(self, table: Table, source: Source) -> _Spectrum:
        """Cut the spectrum; both eigenvalues may be off by the public tolerance."""
        moments = clipped_moments(table, self.columns, radius=self.radius, levels=LEVELS)
        values, vectors = np.linalg.eigh(np.asarray(moments.second.value, np.float64) / LEVELS**2)
        cut = len(values) - self.components
        gap = float(values[cut] - values[cut - 1]) - 2 * EIGENVALUE_TOLERANCE * self.rows_at_most
        top = vectors[:, cut:]
        return _Spectrum(gap, top @ top.T)

    def certify(self, secret: _Spectrum, source: Source) -> float:
        """Bound the gap from below."""
        return private_lower_bound(secret.gap, sensitivity=1.0, mu=self.gap_mu, failure=self.failure, source=source)

    def choose(self, certificate: float) -> ProjectorNoise | None:
        """Return the noise's deviation; None where its norm, about σ√(2d), reaches the projector's, 1."""
        move = projector_move(certificate)
        deviation = move / self.projector_mu
        return ProjectorNoise(move, deviation) if deviation * math.sqrt(2 * len(self.columns)) < 1 else None

    def answer(self, secret: _Spectrum, parameter: ProjectorNoise, source: Source) -> Answer:
        """Return the components of the noisy projector."""
        price = DrawPrice(
            law="symmetric Gaussian",
            claims=Claims.of(GDP(Fraction(parameter.move) / Fraction(parameter.deviation), numerics="idealized")),
            statistic=f"a projector of {len(self.columns)} columns that moves by {parameter.move:.6g}",
            theorem="stability proof page, section on components",
        )
        noisy = secret.projector + symmetric_noise(len(self.columns), parameter.deviation, price, source)
        exponent = public_grid(parameter.deviation / math.sqrt(2))
        codes = to_grid(noisy, exponent, limit=math.ldexp(2.0**48, exponent))
        return _answer(codes.astype(np.float64), self.components)


def symmetric_noise(size: int, deviation: float, price: DrawPrice, source: Source) -> Floats:
    """Draw σ on the diagonal and σ/√2 off it, mirrored: a symmetric change D costs |D|_F/σ, and no more."""
    upper = np.triu(priced_normals(size * size, price=price, source=source).reshape(size, size))
    scaled = upper * np.where(np.eye(size, dtype=bool), deviation, deviation / math.sqrt(2))
    return np.asarray(scaled + np.triu(scaled, 1).T)


def _answer(noisy: Floats, components: int) -> Answer:
    """Return the top eigenvectors of a noisy matrix, one to a row; the sign makes the largest entry positive."""
    _, vectors = np.linalg.eigh(noisy)
    rows = vectors[:, ::-1][:, :components].T
    largest = rows[np.arange(components), np.abs(rows).argmax(axis=1)]
    return Answer(value=np.asarray(rows * np.where(largest < 0, -1.0, 1.0)[:, None] + 0.0))
