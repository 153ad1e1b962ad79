"""The default engine: whole marginals, selected where the fit is worst, measured, refitted from the prior."""

from __future__ import annotations

from sidelight.noise import Source
from sidelight.synthesis.fitted import Fitted
from sidelight.synthesis.measurement import measure, measured_rows
from sidelight.synthesis.plan import MarginalPlan
from sidelight.synthesis.prior import Prior, Setting, UniformPrior, current_weights
from sidelight.synthesis.private_marginals import PrivateMarginals
from sidelight.synthesis.refit import Refit
from sidelight.synthesis.rounds_shown import rounds_shown
from sidelight.synthesis.selection import open_candidates, select_marginal
from sidelight.synthesis.spaces import DenseSpace, Space

#: Sweeps of a refit between rounds, on few points and on many, and of the last one.
BETWEEN_ROUNDS, BETWEEN_LONG_ROUNDS, AT_THE_END = 3, 1, 60
MANY_POINTS = 200_000


def release_distribution(
    counts: PrivateMarginals,
    plan: MarginalPlan,
    *,
    prior: Prior | None = None,
    space: Space | None = None,
    source: Source,
) -> Fitted:
    """Release a distribution that answers the plan's workload.

    Guarantee: `plan.claims`, exact on the machine. The prior and the space (all cells, or a support) are public.
    """
    where = DenseSpace(plan.domain) if space is None else space
    rows = float(plan.rows) if plan.rows is not None else measured_rows(counts, price=plan.size_price, source=source)
    setting = Setting(mean_cells=plan.mean_cells, deviation=plan.deviation, rows=rows)
    start = (prior or UniformPrior()).start(where, setting)
    weights = current_weights(start, setting)
    model = Refit(where, weights, rows=rows, prior_weight=plan.prior_weight)
    counts.prepare(each.columns for each in (*plan.one_way, *plan.candidates))
    between = BETWEEN_ROUNDS if where.points <= MANY_POINTS else BETWEEN_LONG_ROUNDS
    for each in plan.one_way:
        model.add(measure(counts, each, price=plan.one_way_price, source=source))
    model.fit(sweeps=between)
    penalties = [plan.mean_error * each.cells(plan.domain) for each in plan.candidates]
    with rounds_shown(plan.total_rounds) as shown:
        for _ in shown:
            expected = [rows * mass for mass in where.marginals(model.weights, plan.candidates)]
            places = open_candidates(plan.candidates, expected, model.measurements)
            chosen = select_marginal(
                counts,
                [plan.candidates[place] for place in places],
                [expected[place] for place in places],
                [penalties[place] for place in places],
                price=plan.selection_price,
                source=source,
            )
            picked = plan.candidates[places[chosen]]
            model.add(measure(counts, picked, price=plan.measurement_price, source=source))
            if start.most_raw:
                old, weights = weights, current_weights(start, setting, model.measurements)
                model.change_prior(old, weights)
            model.fit(sweeps=between)
    model.fit(sweeps=AT_THE_END)
    return Fitted(domain=plan.domain, rows=rows, space=where, weights=model.weights, measurements=model.measurements)
