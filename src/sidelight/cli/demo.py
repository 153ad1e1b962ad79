"""`sidelight demo`: the same quantiles four times, with nothing, bounds, a guess and public data known beforehand.

The people are generated here (a public model with a fixed seed), so the true quantiles and the errors may be shown; for
real people neither ever is. The noise is real: it comes from the operating system, and every run prints new numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sidelight.cli.terminal import console, plain, table, tell, today
from sidelight.predictions import Cauchy, Prior, PublicData
from sidelight.predictions.origin import guess
from sidelight.progress import progress
from sidelight.quantiles import Quantiles, fit_public, nonprivate_gap
from sidelight.records import Number, Table
from sidelight.release import Release
from sidelight.report import Comparison, Contestant, Item, Report, check_writable, write_report

LEVELS = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9")
EPSILON = "0.5"
PEOPLE = 300
UPPER_BOUND = 10_000_000


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way of asking: what is declared about the column, and what is predicted."""

    name: str
    knowledge: str
    column: Number
    prediction: Prior | Sequence[Prior] | None = None

    def ask(self, incomes: NDArray[np.float64]) -> Release:
        """Release the deciles once."""
        query = Quantiles(LEVELS, epsilon=EPSILON, column="income", prediction=self.prediction)
        outcome = query.release(Table({"income": incomes}, schema=[self.column], name="generated people"))
        assert isinstance(outcome, Release)
        return outcome


def demo(*, output: Path, draws: int) -> None:
    """Run the comparison, print it, write the report and say where it is."""
    check_writable(output)
    incomes, survey = _people(PEOPLE, seed=2026, typical=34_000), _people(5000, seed=2025, typical=33_500)
    ways = _ways(survey)
    comparison, examples = _compare(ways, incomes, draws=draws)
    last = Item(title=f"The release with {ways[-1].name.lower()}", outcome=examples[-1])
    report = Report(
        title="What side information is worth",
        introduction="Private quantiles of the same data, four times: with nothing known, with bounds, with a rough "
        "guess, and with a public survey of last year. Privacy is the same each time; accuracy is not.",
        day=today(),
        items=(last,),
        comparison=comparison,
    )
    write_report(report, output)
    _tell(comparison, output)


def _people(count: int, *, seed: int, typical: int) -> NDArray[np.float64]:
    """Generate yearly incomes: two log-normal groups, whole amounts."""
    generator = np.random.default_rng(seed)
    spread = np.where(generator.random(count) < 0.8, 0.5, 0.9)
    return np.asarray(np.rint(typical * np.exp(spread * generator.standard_normal(count))), dtype=np.float64)


def _ways(survey: NDArray[np.float64]) -> list[Way]:
    bare = Number("income", granularity=1)
    sample = PublicData(survey, "last year's published survey (generated)")
    return [
        Way(name="Nothing known", knowledge="no bounds, no prediction", column=bare),
        Way(
            name="Bounds",
            knowledge=f"between 0 and {UPPER_BOUND:,}",
            column=Number("income", lower=0, upper=UPPER_BOUND, granularity=1),
        ),
        Way(
            name="A guess",
            knowledge="around 30,000, give or take 20,000",
            column=bare,
            prediction=Cauchy(30_000, 20_000, origin=guess("a person's idea of incomes")),
        ),
        Way(
            name="Public data",
            knowledge="last year's published survey",
            column=bare,
            prediction=fit_public(sample, levels=LEVELS, size=PEOPLE, granularity=1),
        ),
    ]


def _compare(ways: Sequence[Way], incomes: NDArray[np.float64], *, draws: int) -> tuple[Comparison, list[Release]]:
    contestants, examples = [], []
    with progress(total=len(ways) * draws) as step:
        for way in ways:
            step(way.name)
            errors = np.empty(draws)
            for draw in range(draws):
                release = way.ask(incomes)
                errors[draw] = nonprivate_gap(incomes, LEVELS, release.value).mean()
                step()
            examples.append(release)
            contestants.append(
                Contestant(
                    name=way.name,
                    knowledge=way.knowledge,
                    mean_error=float(errors.mean()),
                    standard_error=float(errors.std(ddof=1) / np.sqrt(draws)),
                    example=tuple(release.value.tolist()),
                )
            )
    truth = np.quantile(incomes, [float(level) for level in LEVELS])
    comparison = Comparison(
        question=f"Nine deciles of the yearly income of {PEOPLE:,} people, with ε = {EPSILON} for the whole release.",
        data="The people are generated by a public model, so their true quantiles may be shown. For real people "
        "neither the truth nor the error is ever shown.",
        draws=draws,
        records=PEOPLE,
        levels=examples[0].labels,
        truth=tuple(truth.tolist()),
        contestants=tuple(contestants),
    )
    return comparison, examples


def _tell(comparison: Comparison, output: Path) -> None:
    tell(comparison.question)
    tell("The people are generated, so the error that was made may be shown; the noise is real.\n", style="dim")
    numbers = ("error in ranks", "± 2 s.e.", "gain", "released median")
    made = table("known beforehand", "", "", *numbers, numbers=numbers)
    worst = max(each.mean_error for each in comparison.contestants)
    for each in comparison.contestants:
        gain = f"{comparison.gain(each):.1f}×" if each is not comparison.contestants[0] else ""
        middle = each.example[len(each.example) // 2]
        errors = (f"{each.mean_error:.1f}", f"{2 * each.standard_error:.1f}")
        bar = "█" * max(1, round(18 * each.mean_error / worst))
        made.add_row(*map(plain, (each.name, each.knowledge, bar, *errors, gain, f"{middle:,.0f}")))
    console().print(made)
    truth = comparison.truth[len(comparison.truth) // 2]
    tell(
        f"\nMean over {comparison.draws} draws of the noise and nine deciles. An error of 10 ranks: 10 people lie\n"
        f"between the released and the true quantile. The true median is {truth:,.0f}. The guarantee is the\n"
        f"same in every row: PureDP(ε = {EPSILON}).\n"
    )
    tell(f"Report: {output}")
