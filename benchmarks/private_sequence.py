"""What does the private learner of a sequence gain? Days of one population, every method at the same cost a day.

`PubTrack` and `PubProx` learn from the releases at no cost, so all of the budget goes to the quantiles;
`PrivateHistograms` gives a tenth of it (as rho) to its gradients. Mean error in ranks over the second half of the days,
three seeds, on generated data (NOT PRIVATE: seeded noise). Run: `python -m benchmarks.private_sequence [days]`.
"""

from __future__ import annotations

import datetime
import sys
from fractions import Fraction
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import sized
from sidelight.aggregates import collect_ranks
from sidelight.noise import Source
from sidelight.predictions import guess
from sidelight.published.private_histograms import DayStep, LearnedHistograms
from sidelight.quantiles import nonprivate_gap
from sidelight.quantiles.sequence.day import query_of_day
from sidelight.quantiles.sequence.plan import SequencePlan
from sidelight.testing import SeededEntropy, seeded_release

LEVELS = (0.25, 0.5, 0.75)
SCHEMA = sl.Schema([sl.Number("minutes", lower=0, granularity="0.1")])
SEEDS = sized((1, 2, 3), (1,))
FIRST = datetime.date(2021, 1, 1)
#: What a day may cost in all, as the epsilon of its quantiles alone.
WHOLE = Fraction(1, 10)


def days_of(count: int, size: int, seed: int) -> list[np.ndarray]:
    """Return days of trip lengths with two kinds of trips; the same population every day."""
    rng = np.random.default_rng(seed)
    days = []
    for _ in range(count):
        long = rng.random(size) < 0.4
        values = np.where(long, rng.normal(38, 3, size), rng.gamma(9, 1, size))
        days.append(np.rint(10 * np.clip(values, 0, 200)) / 10)
    return days


def planned(learner: Any, epsilon: Fraction) -> SequencePlan:
    """Return the plan of a sequence."""
    query = sl.Quantiles(list(LEVELS), column="minutes", epsilon=epsilon)
    return SequencePlan(query=query, schema=SCHEMA, learner=learner, days_per_person=1)


def split(share: Fraction) -> tuple[Fraction, Fraction]:
    """Return (epsilon of the quantiles, rho of the gradient) when the gradient takes this share of the whole's rho."""
    whole = planned(sl.PubPrev(10, 5), WHOLE).claims.zcdp()
    assert whole is not None
    epsilon = Fraction(str(round(float(WHOLE) * float(1 - share) ** 0.5, 6)))
    return epsilon, share * whole.rho


def mean_gap(plan: SequencePlan, days: list[np.ndarray], seed: int) -> float:
    """Release every day and learn; return the mean gap of the second half."""
    learned, run, none, gaps = plan.begin(), None, np.empty(0), []
    for t, values in enumerate(days):
        table = sl.Table({"minutes": values}, schema=SCHEMA)
        public = plan.numbers(none, FIRST + datetime.timedelta(t))
        day = query_of_day(plan, learned, public, about={}, origin=guess("generated days"))
        release = seeded_release(day, table, seed=f"{seed} {t}")
        gaps.append(float(nonprivate_gap(values, LEVELS, release.value).mean()))
        if isinstance(learned, LearnedHistograms) and plan.gradients is not None:
            if run is None or not run.goes_on:
                run = plan.gradients.sums.start()
            step = DayStep(plan=plan.gradients, masses=plan.gradients.learner.masses(learned), run=run)
            with Source(SeededEntropy("private sequence", path=[f"{seed} {t}"])) as source:
                ranks = collect_ranks(table, "minutes", plan.bare.grid, source)
                learned = learned.learn(none, step.take(ranks, source))
        else:
            learned = plan.learn(learned, public, release)
    return float(np.mean(gaps[len(gaps) // 2 :]))


def main(count: int = sized(200, 3)) -> None:
    """Print the table."""
    epsilon, rho = split(Fraction(1, 10))
    plans = {
        "PubTrack": planned(sl.PubTrack(), WHOLE),
        "PubPrev": planned(sl.PubPrev(20, 5), WHOLE),
        "PubProx": planned(sl.PubProx(20, 5, plausible=(0, 60)), WHOLE),
        "static, robust": planned(sl.PubPrev(20, 10, hedge_weight=0.99), WHOLE),
        "private, a process a day": planned(sl.PrivateHistograms(0, 60, rho=rho), epsilon),
        f"private, one run of {count} days": planned(sl.PrivateHistograms(0, 60, rho=rho, run_days=count), epsilon),
    }
    print(f"mean gap in ranks, second half of {count} days, epsilon = {float(WHOLE)} a day or its rho")
    for size in (100, 1000):
        for name, plan in plans.items():
            gaps = [mean_gap(plan, days_of(count, size, size + seed), seed) for seed in SEEDS]
            print(f"  n = {size:5d}  {name:32s} {np.mean(gaps):7.1f}", flush=True)


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:2]))
