"""The default engine: whole marginals, selected where the fit is worst, measured, refitted from the prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sidelight.noise import Source
from sidelight.progress import progress
from sidelight.synthesis.engine_plan import MarginalPlan, SizedPlan
from sidelight.synthesis.measurement import MarginalMeasurement, PrivateMarginals, RowsEstimate, measure, noisy_rows
from sidelight.synthesis.prior import DistributionPrior, FitSetting, UniformPrior, current_weights
from sidelight.synthesis.refit import Fitted, Refit
from sidelight.synthesis.selection import MarginalRound, RoundRecords, open_candidates, select_marginal
from sidelight.synthesis.spaces import DenseSpace, Floats, Space
from sidelight.synthesis.workload import Marginal

#: Sweeps of a refit between rounds and of the last one, on few points and on many.
FEW_POINTS_SWEEPS, MANY_POINTS_SWEEPS = (3, 20), (1, 10)
MANY_POINTS = 200_000


class WeightModel:
    """Weights on the points of a space, refitted from a prior that measurements may discredit.

    `rows` is what tells the number of rows; the setting's own number is public if it is left out.
    """

    def __init__(
        self,
        space: Space,
        prior: DistributionPrior,
        setting: FitSetting,
        *,
        rows: RowsEstimate | None = None,
    ) -> None:
        self.space = space
        self._rows = RowsEstimate(setting.rows) if rows is None else rows
        self._setting = setting
        self._sweeps = FEW_POINTS_SWEEPS if space.points <= MANY_POINTS else MANY_POINTS_SWEEPS
        self._start = prior.start(space, setting)
        self._prior = current_weights(self._start, setting)
        self._refit = Refit(space, self._prior, rows=setting.rows)
        self._measured: list[MarginalMeasurement] = []

    @property
    def measurements(self) -> tuple[MarginalMeasurement, ...]:
        """What was measured so far."""
        return tuple(self._measured)

    @property
    def weights(self) -> Floats:
        """The fitted weights."""
        return self._refit.weights

    @property
    def rows(self) -> float:
        """The number of rows: public, or by all that was released so far."""
        return self._setting.rows

    def learn(self, measurements: Sequence[MarginalMeasurement]) -> None:
        """Take measurements in; count the rows by them, too, and trust the prior as far as they allow.

        The next `expected` or `finish` refits.
        """
        for each in measurements:
            self._measured.append(each)
            self._refit.add(each)
        self._rows = self._rows.with_sums(measurements)
        self._setting = replace(self._setting, rows=self._rows.rows)
        self._refit.rows = self._setting.rows
        if self._start.adapts:
            old, self._prior = self._prior, current_weights(self._start, self._setting, self.measurements)
            self._refit.change_prior(old, self._prior)

    def finish(self) -> None:
        """Refit until only noise is left to fit."""
        self._refit.settle(sweeps=sum(self._sweeps))

    def expected(self, wanted: Sequence[Marginal]) -> list[Floats]:
        """Return the expected counts of partitions, after a refit to what was learned."""
        if self._measured:
            self._refit.fit(sweeps=self._sweeps[0])
        return [self.rows * mass for mass in self.space.marginals(self.weights, wanted)]


def release_distribution(
    counts: PrivateMarginals,
    plan: MarginalPlan,
    *,
    prior: DistributionPrior | None = None,
    space: Space | None = None,
    source: Source,
) -> Fitted:
    """Release a distribution that answers the plan's workload.

    Guarantee: `plan.claims`, exact on the machine. The prior and the space (all cells, or a support) are public.
    """
    where = DenseSpace(plan.domain) if space is None else space
    rows = first_rows(counts, plan, source=source)
    setting = FitSetting(mean_cells=plan.mean_cells, deviation=plan.deviation, rows=rows.rows)
    model = WeightModel(where, prior or UniformPrior(), setting, rows=rows)
    rounds = run_rounds(counts, plan, model, source=source)
    model.finish()
    return Fitted(
        domain=plan.domain,
        rows=model.rows,
        space=where,
        weights=model.weights,
        measurements=model.measurements,
        first_rows=rows.noisy,
        rounds=rounds,
    )


def first_rows(counts: PrivateMarginals, plan: MarginalPlan, *, source: Source) -> RowsEstimate:
    """Return what tells the number of rows before the first measurement; releases it where the plan has none.

    Guarantee: `plan.size_price` where the plan has no number; else nothing is asked.
    """
    if isinstance(plan, SizedPlan):
        return RowsEstimate(plan.first_rows)
    if plan.rows is not None:
        return RowsEstimate(float(plan.rows))
    return RowsEstimate(noisy_rows(counts, price=plan.size_price, source=source))


def run_rounds(
    counts: PrivateMarginals, plan: MarginalPlan, model: WeightModel, *, source: Source
) -> Sequence[MarginalRound]:
    """Select, measure and refit, round by round.

    Returns what the rounds saw and released, for error bounds.

    Guarantee: `plan.claims` less the number of rows. Which candidates a round chooses from depends on released numbers
    and public sizes.
    """
    counts.prepare(each.columns for each in plan.candidates)
    records: RoundRecords[MarginalRound] = RoundRecords()
    steepness = float(plan.selection_price.spread / (2 * counts.protection.sensitivity("l1")))
    with progress("measuring marginals", total=plan.total_rounds) as step:
        for _ in range(plan.total_rounds):
            expected = model.expected(plan.candidates)
            places = open_candidates(plan.candidates, expected, model.measurements)
            open_ones = tuple(plan.candidates[place] for place in places)
            expected_ones = tuple(expected[place] for place in places)
            penalties = tuple(plan.mean_error * each.cells(plan.domain) for each in open_ones)
            chosen = select_marginal(
                counts, open_ones, expected_ones, penalties, price=plan.selection_price, source=source
            )
            measured = measure(counts, open_ones[chosen], price=plan.measurement_price, source=source)
            records.add(
                MarginalRound(
                    candidates=open_ones,
                    expected=expected_ones,
                    penalties=penalties,
                    steepness=steepness,
                    chosen=chosen,
                    measured=measured,
                )
            )
            model.learn([measured])
            step()
    return records.kept
