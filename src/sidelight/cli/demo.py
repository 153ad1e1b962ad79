"""`sidelight demo`: quantiles with four amounts of side information, and counts and means by group with two.

The people are generated here (a public model with a fixed seed), so the true quantiles and the errors may be shown; for
real people neither ever is. The noise is real: it comes from the operating system, and every run prints new numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sidelight.cli.answers import note
from sidelight.cli.terminal import console, plain, table, tell, today
from sidelight.predictions import Cauchy, Prior, PublicData
from sidelight.predictions.origin import guess
from sidelight.progress import progress
from sidelight.quantiles import Quantiles, fit_public, nonprivate_gap
from sidelight.records import Category, Number, Table
from sidelight.release import Release
from sidelight.report import Comparison, Contestant, Item, Report, check_writable, write_report
from sidelight.summaries.count import Count
from sidelight.summaries.mean import Mean
from sidelight.summaries.predicted import Predicted

LEVELS = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9")
EPSILON = "0.5"
PEOPLE = 300
UPPER_BOUND = 10_000_000
#: The towns of the second comparison; most have few people.
TOWNS, TOWN_PEOPLE, TOWN_EPSILON = 60, 3000, "0.5"


@dataclass(frozen=True, kw_only=True)
class Way:
    """One case of the comparison: the declared column, and the prediction."""

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
    """Run the comparison, print it and write the report."""
    check_writable(output)
    incomes, survey = _people(PEOPLE, seed=2026, typical=34_000), _people(5000, seed=2025, typical=33_500)
    ways = _ways(survey)
    comparison, examples = _compare(ways, incomes, draws=draws)
    last = Item(title=f"The release with {ways[-1].name.lower()}", outcome=examples[-1])
    towns = _towns(draws=max(2, draws // 4))
    report = Report(
        title="What side information is worth",
        introduction="Private quantiles of the same data, four times: with nothing known, with bounds, with a rough "
        "guess, and with a public survey of last year. Privacy is the same each time; accuracy is not.",
        day=today(),
        items=(last, *(Item(title=each.title, outcome=each.example) for each in towns)),
        comparison=comparison,
    )
    write_report(report, output)
    _tell(comparison)
    _tell_towns(towns)
    note(
        ways=[
            {"name": each.name, "mean_error": each.mean_error, "standard_error": each.standard_error}
            for each in comparison.contestants
        ],
        by_town=[
            {"title": each.title, "error_alone": each.alone, "error_with_table": each.predicted} for each in towns
        ],
        output=str(output),
    )
    tell(f"Report: {output}")


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """A statistic by town with and without last year's table: the error of each, and a release with it."""

    title: str
    alone: float
    predicted: float
    example: Release


def _towns(*, draws: int) -> list[Statistic]:
    """Count people and average incomes by town, with and without last year's published table."""
    generator = np.random.default_rng(2024)
    names = [f"town {number:02d}" for number in range(1, TOWNS + 1)]
    shares = 1 / np.arange(1.0, TOWNS + 1)
    shares /= shares.sum()
    typical = 30_000 * np.exp(0.2 * generator.standard_normal(TOWNS))
    town = generator.choice(TOWNS, TOWN_PEOPLE, p=shares)
    income = np.rint(np.clip(generator.gamma(6, typical[town] / 6), 0, 150_000))
    people = Table(
        {"town": np.array(names)[town], "income": income},
        schema=[Category("town", names, other=None), Number("income", lower=0, upper=150_000, granularity=1)],
        name="generated people",
    )
    sizes = np.bincount(town, minlength=TOWNS)
    means = np.bincount(town, weights=income, minlength=TOWNS) / np.maximum(sizes, 1)
    last_year = {
        "count": np.rint(sizes * np.exp(0.1 * generator.standard_normal(TOWNS))),
        "mean": means * np.exp(0.05 * generator.standard_normal(TOWNS)),
    }
    asked = {"count": Count(by="town", epsilon="0.1"), "mean": Mean("income", by="town", epsilon=TOWN_EPSILON)}
    found = []
    for name, truth in (("count", sizes), ("mean", means)):
        known = Predicted(
            dict(zip(names, last_year[name].tolist(), strict=True)),
            doubt=0.1,
            origin="last year's published table (generated)",
        )
        # without a table a mean is shrunk to the overall mean; `unbiased` and `mean_plain` are not shrunk
        plain_column = "unbiased" if name == "count" else "mean_plain"
        query = replace(asked[name], prediction=known)
        alone, predicted = np.empty(draws), np.empty(draws)
        for draw in range(draws):
            release = query.release(people)
            alone[draw] = np.sqrt(np.mean((release.value[plain_column] - truth)[sizes > 0] ** 2))
            predicted[draw] = np.sqrt(np.mean((release.value[name] - truth)[sizes > 0] ** 2))
        title = "People in each town" if name == "count" else "Mean income in each town"
        found.append(
            Statistic(title=title, alone=float(alone.mean()), predicted=float(predicted.mean()), example=release)
        )
    return found


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


def _tell(comparison: Comparison) -> None:
    tell(comparison.question)
    tell("The people are generated, so the actual error may be shown; the noise is real.\n", style="dim")
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


def _tell_towns(statistics: Sequence[Statistic]) -> None:
    tell(f"By town: {TOWN_PEOPLE:,} generated people in {TOWNS} towns, most of them small. Root mean square error:\n")
    numbers = ("noise alone", "with last year's table", "gain")
    made = table("released", "", *numbers, numbers=numbers)
    for each in statistics:
        cells = (f"{each.alone:,.1f}", f"{each.predicted:,.1f}", f"{each.alone / each.predicted:.1f}×")
        made.add_row(*map(plain, (each.title, each.example.guarantee.strongest, *cells)))
    console().print(made)
    tell(
        "\nLast year's counts are off by 10 %, its means by 5 %. The guarantee does not depend on the table;\n"
        "one that is wrong as a whole is hardly used.\n"
    )
