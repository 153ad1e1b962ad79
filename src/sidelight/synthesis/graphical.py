"""A graphical model in place of weights, for domains beyond dense ones without public rows: through the package mbi.

McKenna, Sheldon and Miklau (2019). Called, not rewritten: inference in junction trees is what mbi does well. Selection,
noise and price stay ours; mbi sees released numbers only. Its own random numbers draw the rows that stand for the model
in a release, which is post-processing; released numbers seed them, so that the same ones give the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from sidelight.errors import MissingPackageError, RangeError
from sidelight.noise import Source
from sidelight.synthesis.domain import Codes, Domain
from sidelight.synthesis.engine_plan import MarginalPlan
from sidelight.synthesis.marginal_engine import first_rows, run_rounds
from sidelight.synthesis.measurement import MarginalMeasurement, PrivateMarginals, RowsEstimate, released_digest
from sidelight.synthesis.prior import DistributionPrior, PublicRowsPrior, UniformPrior
from sidelight.synthesis.refit import Fitted
from sidelight.synthesis.spaces import Floats
from sidelight.synthesis.workload import Marginal

#: A junction tree has at most this many cells.
MOST_TREE_CELLS = 10_000_000
#: This many rows stand for a model, whatever the released number of rows: fewer would add noise of their own...
LEAST_DRAWN = 100_000
#: ... and more, or more cells of them, would not fit into memory.
MOST_DRAWN, MOST_DRAWN_CELLS = 10_000_000, 50_000_000
_STEPS_BETWEEN, _STEPS_AT_THE_END = 100, 1000


def load_mbi() -> Any:
    """Import mbi in double precision, or say how to install it."""
    try:
        import jax  # type: ignore[import-not-found, unused-ignore]

        jax.config.update("jax_enable_x64", True)  # noqa: FBT003  # counts above 1e5 need it
        import mbi  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise MissingPackageError(
            "engine='graphical' needs the package mbi, which is not installed: pip install 'sidelight[graphical]'"
        ) from error
    if not hasattr(mbi.estimation, "MirrorDescent"):
        raise MissingPackageError(
            "engine='graphical' needs mbi 2.0 or later, and an older one is installed: "
            "pip install --upgrade 'sidelight[graphical]'"
        )
    return mbi


def check_graphical(plan: MarginalPlan, prior: DistributionPrior | None = None) -> None:
    """Refuse before any charge what a graphical model cannot do."""
    load_mbi()
    if any(not each.fine for each in plan.candidates):
        raise RangeError("engine='graphical' measures whole columns; use marginals, or a dense engine for long ranges")
    if prior is not None and not isinstance(prior, (PublicRowsPrior, UniformPrior)):
        raise RangeError("engine='graphical' starts from public rows or from nothing; use another engine")
    smallest = min(plan.candidates, key=lambda each: each.cells(plan.domain))
    others = set(plan.domain.columns) - set(smallest.columns)
    cells = smallest.cells(plan.domain) + sum(plan.domain.shape_of(others))
    if cells > MOST_TREE_CELLS:  # one that fits by itself can be measured in every round
        raise RangeError(
            f"engine='graphical' holds at most {MOST_TREE_CELLS:.0e} cells, and the smallest marginal of the workload, "
            f"{smallest}, needs {cells:.3g}; ask for marginals of fewer columns, or coarser bins"
        )


def drawn_rows(rows: float, columns: int) -> int:
    """Return how many rows stand for a model of a table with this number of rows, public or released.

    >>> drawn_rows(1.0, 5), drawn_rows(123456.4, 5), drawn_rows(2.0**40, 5), drawn_rows(2.0**40, 100)
    (100000, 123456, 10000000, 500000)
    """
    return min(max(round(rows), LEAST_DRAWN), MOST_DRAWN, max(MOST_DRAWN_CELLS // columns, LEAST_DRAWN))


class GraphicalModel:
    """A Markov random field over the measured marginals."""

    def __init__(self, domain: Domain, rows: RowsEstimate, prior: DistributionPrior | None) -> None:
        self._mbi = load_mbi()
        self.domain = domain
        self._estimate_of_rows = rows
        self._rows = rows.rows
        self._public = prior.codes if isinstance(prior, PublicRowsPrior) else None
        self._inner = self._mbi.Domain(domain.columns, domain.sizes)
        self._held: list[MarginalMeasurement] = []
        self._model: Any = self._fitted([], steps=1)

    @property
    def measurements(self) -> tuple[MarginalMeasurement, ...]:
        """What was measured so far."""
        return tuple(self._held)

    @property
    def rows(self) -> float:
        """The number of rows: public, or by all that was released so far."""
        return self._rows

    def learn(self, measurements: Sequence[MarginalMeasurement]) -> None:
        """Take measurements in and refit."""
        self._held += measurements
        self._estimate_of_rows = self._estimate_of_rows.with_sums(measurements)
        self._rows = self._estimate_of_rows.rows
        self._model = self._fitted(self._held, steps=_STEPS_BETWEEN)

    def finish(self) -> None:
        """Refit for longer."""
        self._model = self._fitted(self._held, steps=_STEPS_AT_THE_END)

    def expected(self, wanted: Sequence[Marginal]) -> list[Floats]:
        """Return the expected counts of partitions."""
        return [self._rows * self.marginal(each.columns) for each in wanted]

    def allows(self, marginal: Marginal) -> bool:
        """Return whether the junction tree stays small enough with one more marginal."""
        cliques = [each.marginal.columns for each in self._held] + [marginal.columns]
        return self.tree_cells(cliques) <= MOST_TREE_CELLS

    def tree_cells(self, cliques: Sequence[tuple[str, ...]]) -> int:
        """Return how many cells a junction tree of these sets of columns has."""
        megabytes = self._mbi.junction_tree.hypothetical_model_size(self._inner, list(cliques))
        return int(megabytes * 2**20 / 8 + 0.5)

    def marginal(self, columns: Sequence[str]) -> Floats:
        """Return the fitted mass of each combination of columns, in the order given."""
        found = np.asarray(self._model.project(tuple(columns)).values, np.float64)
        found = np.maximum(found, 0.0)
        return np.asarray(found / found.sum())

    def draw_rows(self, count: int) -> Codes:
        """Return synthetic rows, coded; the same ones for the same measurements and count."""
        with _seeded(self._held):
            drawn = self._model.synthetic_data(rows=count)
        return np.stack([np.asarray(drawn.data[name], np.int64) for name in self.domain.columns], axis=1)

    def _fitted(self, held: Sequence[MarginalMeasurement], *, steps: int) -> Any:
        return self._estimate(
            [(each.values, each.marginal.columns, each.deviation) for each in held],
            steps=steps,
            start=None if self._public is None else self._public_model([each.marginal.columns for each in held]),
        )

    def _estimate(self, given: Sequence[tuple[Floats, tuple[str, ...], float]], *, steps: int, start: Any) -> Any:
        flat = [
            (np.full(size, self._rows / size), (name,), 1e6 * self._rows)
            for name, size in zip(self.domain.columns, self.domain.sizes, strict=True)
        ]  # so weak that they say nothing, but every column is in the model
        measured = [
            self._mbi.LinearMeasurement(np.asarray(values).reshape(-1), columns, deviation)
            for values, columns, deviation in (*given, *flat)
        ]
        estimator = self._mbi.estimation.MirrorDescent()
        return estimator.estimate(self._inner, measured, known_total=self._rows, iters=steps, warm_start=start)

    def _public_model(self, cliques: Sequence[tuple[str, ...]]) -> Any:
        """Fit the public rows' marginals of the same sets, smoothed by one row a cell."""
        assert self._public is not None
        given = []
        for columns in dict.fromkeys([*cliques, *((name,) for name in self.domain.columns)]):
            cells = self.domain.cells_of(columns)
            counts = np.bincount(self.domain.ravel(self._public, columns), minlength=cells) + 1.0 / cells
            given.append((counts * (self._rows / counts.sum()), columns, 1.0))
        return self._estimate(given, steps=_STEPS_BETWEEN, start=None)


@contextmanager
def _seeded(measurements: Sequence[MarginalMeasurement]) -> Iterator[None]:
    """Let NumPy's global generator, which mbi draws from, follow from released numbers; put it back afterwards.

    No noise of sidelight's comes from there.
    """
    kept = np.random.get_state()  # noqa: TID251  # mbi's generator; for post-processing
    np.random.seed(np.frombuffer(released_digest(measurements), "<u4"))  # noqa: TID251
    try:
        yield
    finally:
        np.random.set_state(kept)  # noqa: TID251


def release_graphical(
    counts: PrivateMarginals, plan: MarginalPlan, *, prior: DistributionPrior | None = None, source: Source
) -> Fitted:
    """Release a graphical model that answers the plan's workload.

    Guarantee: `plan.claims`, exact on the machine. Call `check_graphical` before the charge.
    """
    check_graphical(plan, prior)
    rows = first_rows(counts, plan, source=source)
    model = GraphicalModel(plan.domain, rows, prior)
    rounds = run_rounds(counts, plan, model, source=source)
    model.finish()
    return Fitted(
        domain=plan.domain,
        rows=model.rows,
        first_rows=rows.noisy,
        space=None,
        weights=None,
        measurements=model.measurements,
        rounds=rounds,
        graphical=model,
    )
