"""`Selection` through the release pipeline: charges, releases and refusals."""

from __future__ import annotations

import functools
import logging
import math
import sys
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
from scipy import stats
from selection_laws import Pgf, selected

import sidelight as sl
from plain_statistics import row_count
from probes import PreparedProbe
from sidelight.errors import BudgetError, ClaimError, NoiseError, RangeError, SchemaError
from sidelight.guarantees import Claims, PureDP
from sidelight.mechanisms.additive import LaplaceNoise
from sidelight.noise import OSEntropy, Source, bernoulli
from sidelight.records import Number, Schema, Table
from sidelight.release import NO_ASSUMPTION, Refused, Release, TailBound, outcome_from_json
from sidelight.session import Answer, Refusal, Session
from sidelight.session.query import Prepared
from sidelight.testing import SeededEntropy, SeededSession, seeded_release
from sidelight.tuning import (
    Poisson,
    PrivateScore,
    PublicScore,
    Selection,
    best_of,
    geometric,
    select,
    selection_claims,
)

SCHEMA = Schema([Number("age", lower=0, upper=120, granularity=1)])
PEOPLE = Table({"age": [31.0, 47.0, 29.0, 60.0] * 25}, schema=SCHEMA, name="people")


@dataclass(frozen=True, kw_only=True)
class Count:
    """A noisy number of rows plus a public offset: the smallest query there is."""

    epsilon: str = "0.5"
    offset: int = 0
    refuses: bool = False
    fails: bool = False
    numerics: Literal["exact", "idealized"] = "exact"

    def prepare(self, schema: Schema) -> Prepared:
        return PreparedProbe(claims=self.claims, request=self.request, function=self.run)

    @property
    def claims(self) -> Claims:
        return Claims.of(PureDP(self.epsilon, numerics=self.numerics))

    @property
    def request(self) -> dict[str, str]:
        return {"kind": "count", "epsilon": self.epsilon, "offset": str(self.offset)}

    def run(self, table: Table, source: Source) -> Answer | Refusal:
        if self.fails:
            raise ValueError("row 3 holds 47")
        noise = LaplaceNoise(row_count(table), epsilon=self.epsilon)
        assert noise.claims
        noisy = int(noise.release(source))  # type: ignore[arg-type]
        return Refusal(reason="no") if self.refuses else Answer(value=noisy + self.offset)


HIGHEST = PublicScore(lambda answer: float(answer.value), "the released number itself")


def search(**changes: Any) -> Selection:
    return replace(
        Selection(candidates=[Count(offset=k) for k in range(3)], score=HIGHEST, runs=geometric(5)), **changes
    )


# --- what it charges ------------------------------------------------------------------------------------------------


def test_the_whole_search_is_charged_once_and_nothing_else_leaves() -> None:
    session = SeededSession(PEOPLE, budget=sl.PureDP(3), seed=1)
    release = session.release(search())
    price = selection_claims(Claims.of(PureDP("0.5")), geometric(5))
    assert isinstance(release, Release)
    assert release.guarantee == price
    assert set(release.value) == {"candidate", "value"}
    assert session.spent.surely == price.pure()
    assert outcome_from_json(release.to_json()).to_json() == release.to_json()
    text = release.to_json()
    assert "geometric" not in str(release.value)
    assert '"runs":{"eta":"1"' in text


def test_a_search_that_does_not_fit_is_refused_before_anything_runs() -> None:
    session = Session(PEOPLE, budget=sl.PureDP("0.6"))  # one run would fit
    with pytest.raises(BudgetError):
        session.release(search())
    assert session.release(Count()) is not None


def test_a_private_score_is_paid_for_in_every_run() -> None:
    score = PrivateScore(
        ask=lambda answer: Count(epsilon="0.1", offset=int(answer.value)),
        read=lambda measured: -abs(float(measured.value)),
        like=Count(epsilon="0.1"),
        description="noisy distance",
    )
    prepared = search(score=score).prepare(SCHEMA)
    both = Claims.of(PureDP("0.6"))
    assert prepared.claims.pure().epsilon >= selection_claims(both, geometric(5)).pure().epsilon * Fraction(99, 100)  # type: ignore[union-attr]
    assert isinstance(seeded_release(search(score=score), PEOPLE, seed=3), Release)


def test_a_score_query_with_another_price_than_the_charged_one_gives_no_score() -> None:
    score = PrivateScore(
        ask=lambda answer: Count(epsilon="7"), read=lambda m: 1.0, like=Count(epsilon="0.1"), description="cheat"
    )
    outcome = seeded_release(search(score=score), PEOPLE, seed=3)
    assert isinstance(outcome, Refused)


def test_a_score_query_that_brings_private_data_along_gives_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `like` was priced for is this table: on a view the cap of its rows says nothing about other rows."""
    brought = Count(epsilon="0.1", offset=7)
    monkeypatch.setattr(PreparedProbe, "brings_private_data", property(lambda own: own.request["offset"] == "7"))
    for asked, kind in ((brought, Refused), (Count(epsilon="0.1"), Release)):
        score = PrivateScore(
            ask=lambda answer, asked=asked: asked,
            read=lambda m: 1.0,
            like=Count(epsilon="0.1"),
            description="other rows",
        )
        assert isinstance(seeded_release(search(score=score), PEOPLE, seed=3), kind)


def test_idealized_candidates_make_an_idealized_selection() -> None:
    prepared = search(candidates=[Count(numerics="idealized")]).prepare(SCHEMA)
    assert prepared.numerics == "idealized"
    assert prepared.claims.numerics == "idealized"


# --- what it releases -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Coin(Count):
    """Answers 1 with probability 3/4: a mechanism whose selection has a known law."""

    def run(self, table: Table, source: Source) -> Answer | Refusal:
        return Answer(value=int(bernoulli(3, 4, source)))


@pytest.mark.parametrize(
    ("runs", "pgf"),
    [(geometric(3), Pgf("", eta=1, gamma=1 / 3)), (Poisson(2), Pgf("", mean=2))],
    ids=["geometric", "poisson"],
)
def test_the_released_law_is_that_of_the_theorem(runs: Any, pgf: Pgf) -> None:
    low = PublicScore(lambda answer: -answer.value, "the smaller the better")
    prepared = Selection(candidates=[Coin()], score=low, runs=runs).prepare(SCHEMA)
    source = Source(SeededEntropy("law"))
    n = 4000
    found: Counter[Any] = Counter()
    for _ in range(n):
        answer = prepared.run(PEOPLE, source)
        found[None if isinstance(answer, Refusal) else answer.value["value"]] += 1
    none, one, zero = (float(mass) for mass in selected([0.75, 0.25], pgf))  # in the order of the scores
    for value, mass in [(None, none), (1, one), (0, zero)]:
        if mass > 0:
            assert stats.binomtest(found[value], n, mass).pvalue > 1e-8
            assert stats.binomtest(found[value], n, mass / 1.3).pvalue < 1e-6
        else:
            assert found[value] == 0


def test_candidates_are_picked_alike() -> None:
    same = PublicScore(lambda answer: 0.0, "no preference")
    prepared = search(score=same, runs=geometric(3)).prepare(SCHEMA)
    source = Source(SeededEntropy("uniform"))
    places = Counter(prepared.run(PEOPLE, source).value["candidate"] for _ in range(600))  # type: ignore[union-attr]
    assert stats.chisquare([places[k] for k in range(3)]).pvalue > 1e-7


def test_the_better_candidate_wins_most_of_the_time() -> None:
    prepared = search(candidates=[Count(offset=0), Count(offset=100)], runs=geometric(15)).prepare(SCHEMA)
    source = Source(SeededEntropy("win"))
    wins = sum(prepared.run(PEOPLE, source).value["candidate"] for _ in range(120))  # type: ignore[union-attr]
    assert wins > 90  # a candidate is tried with probability 15/16


def test_an_error_bound_is_widened_by_the_number_of_runs() -> None:
    queries = [sl.Quantiles([0.5], epsilon=0.5, bounds=(0, 120), granularity=1, form=f) for f in ("auto", "tree")]
    score = PublicScore(lambda answer: -abs(answer.value[0] - 40), "published median")
    release = seeded_release(Selection(candidates=queries, score=score), np.arange(100.0), seed=2)
    single = seeded_release(queries[0], np.arange(100.0), seed=2)
    assert isinstance(release, Release)
    assert isinstance(single, Release)
    # E[K] = 15: a failure probability of 0.15 for the winner is one of 0.01 for each run
    assert release.error_bound(0.85) == pytest.approx(single.error_bound(0.99))


def test_the_bound_of_a_number_of_runs_that_may_be_zero_is_that_of_an_outcome() -> None:
    """Given an outcome, one run of a Poisson number of mean 1 misses 1.58 times as often as each: 1/(1 - 1/e)."""
    table = sl.Table({"x": np.arange(100.0)}, schema=[sl.Number("x", lower=0, upper=100)])
    score = PublicScore(lambda answer: abs(float(answer.value["count"][0]) - 100), "far from a public guess")
    query = Selection(candidates=[sl.Count(epsilon=0.5)], score=score, runs=Poisson(1))
    ended = (seeded_release(query, table, seed=seed) for seed in range(20))
    release = next(each for each in ended if isinstance(each, Release))
    single = seeded_release(sl.Count(epsilon=0.5), table, seed=2)
    assert isinstance(single, Release)
    chance = 1 / (1 - math.exp(-1))
    assert release.error_bound(1 - 0.01 * chance) == pytest.approx(single.error_bound(0.99))
    # which is met: a score that likes what is far off picks a miss whenever there is one
    rng = np.random.default_rng(14)
    runs = rng.poisson(1, 200_000)
    missed = rng.random(200_000) < 1 - (1 - 0.01) ** runs
    assert missed[runs > 0].mean() > 0.0145


def test_a_widened_bound_stays_an_estimate_and_keeps_the_likely_error() -> None:
    prepared: Any = search(candidates=[Count(), Count()], runs=geometric(20)).prepare(SCHEMA)
    likely = TailBound(unit="ranks", assumption="a", fixed=(1.0,), per_log=(2.0,))
    told = TailBound(unit="ranks", assumption=NO_ASSUMPTION, fixed=(4.0,), per_log=(2.0,), proved=False, likely=likely)
    widened = prepared._error(told)
    assert not widened.proved
    assert widened.likely.fixed[0] - 1 == pytest.approx(widened.fixed[0] - 4)
    assert widened.fixed[0] > 4


# --- failures -------------------------------------------------------------------------------------------------------


def test_runs_that_refuse_never_win_and_all_refusals_are_one_refusal() -> None:
    mixed = search(candidates=[Count(refuses=True), Count()], runs=geometric(20))
    outcomes = [seeded_release(mixed, PEOPLE, seed=seed) for seed in range(10)]
    assert all(o.value["candidate"] == 1 for o in outcomes if isinstance(o, Release))
    assert any(isinstance(o, Release) for o in outcomes)
    refused = seeded_release(search(candidates=[Count(refuses=True)]), PEOPLE, seed=1)
    assert isinstance(refused, Refused)
    assert refused.guarantee == search().claims(SCHEMA)


@pytest.mark.parametrize("broken", [Count(fails=True), Count()])
def test_a_run_or_score_that_raises_is_a_run_without_a_result(broken: Count) -> None:
    """With real noise: an exception would tell of every run, not of the best."""

    def score(answer: Answer) -> float:
        raise ValueError(f"saw {answer.value}")

    judge = HIGHEST if broken.fails else PublicScore(score, "raises")
    outcome = Selection(candidates=[broken], score=judge).release(PEOPLE)
    assert isinstance(outcome, Refused)
    assert "47" not in outcome.reason
    with pytest.raises(ValueError, match=r"row 3|saw"):  # seeded noise is not private: the cause is shown
        seeded_release(Selection(candidates=[broken], score=judge), PEOPLE, seed=1)


@pytest.mark.parametrize("ends", [False, True])
def test_nothing_that_a_score_says_counts_the_runs(capsys: pytest.CaptureFixture[str], ends: bool) -> None:
    """Nor does it end the program: that would be an outcome of its own, after the charge."""

    def score(answer: Answer) -> float:
        print("a run")
        print("a run", file=sys.stderr)
        warnings.warn("a run", stacklevel=1)
        logging.getLogger("score").warning("a run")
        return sys.exit("a run") if ends else 1.0

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        outcome = Selection(candidates=[Count()], score=PublicScore(score, "talks"), runs=geometric(9)).release(PEOPLE)
    assert isinstance(outcome, Refused) is ends
    assert "a run" not in "".join(capsys.readouterr())
    assert not said


def test_a_score_may_use_all_of_the_standard_output() -> None:
    """Ordinary code does; its search was charged, and had no result."""

    def score(answer: Answer) -> float:
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        sys.stdout.buffer.write("a run".encode(sys.stdout.encoding))
        return float(sys.stdout.fileno() >= 0)

    outcome = Selection(candidates=[Count()], score=PublicScore(score, "writes")).release(PEOPLE)
    assert isinstance(outcome, Release)


@pytest.mark.parametrize("number", [math.nan, -math.inf])
def test_a_nan_score_never_wins(number: float) -> None:
    outcome = seeded_release(search(score=PublicScore(lambda answer: number, "none")), PEOPLE, seed=1)
    assert isinstance(outcome, Refused)


def test_a_source_that_is_closed_is_not_a_lost_run() -> None:
    source = Source(OSEntropy())
    source.close()
    with pytest.raises(NoiseError, match="closed"):
        best_of(lambda s: (1, 1.0), geometric(5), source=source)


# --- refusals -------------------------------------------------------------------------------------------------------


def test_candidates_with_different_prices_are_refused() -> None:
    with pytest.raises(ClaimError, match="same claims"):
        search(candidates=[Count(), Count(epsilon="0.6")]).prepare(SCHEMA)


def test_a_fixed_number_of_runs_and_a_bare_function_are_refused() -> None:
    with pytest.raises(RangeError, match="fixed number"):
        search(runs=15)
    with pytest.raises(RangeError, match="PublicScore"):
        search(score=lambda answer: 1.0)
    with pytest.raises(RangeError, match="at least one"):
        search(candidates=[])
    with pytest.raises(RangeError, match="at least one"):
        select([], score=float, runs=geometric(5), source=Source(SeededEntropy(0)))


class Judge:
    def __init__(self, table: Any) -> None:
        self.table = table

    def score(self, answer: Answer) -> float:
        return 0.0


def _private_scores() -> list[Any]:
    table = PEOPLE
    nested = {"validation": [table]}
    session = Session(PEOPLE, budget=sl.PureDP(1))
    return [
        lambda answer: float(len(str(table))),
        lambda answer, rows=table: 0.0,
        functools.partial(lambda rows, answer: 0.0, table),
        Judge(table).score,
        lambda answer: float(len(nested)),
        lambda answer: float(len(str(session))),
        lambda answer: float(len(str(PEOPLE))),
    ]


@pytest.mark.parametrize("place", range(7))
def test_a_score_that_holds_private_rows_is_refused(place: int) -> None:
    with pytest.raises(RangeError, match="Table or a Session"):
        PublicScore(_private_scores()[place], "validation rows")


def test_public_things_in_a_score_are_fine() -> None:
    rows, known = np.arange(5.0), {"median": 40}
    PublicScore(lambda answer: float(rows.sum() + known["median"]), "published rows")
    PublicScore(Judge(rows).score, "published rows")
    with pytest.raises(RangeError, match="say what"):
        PublicScore(lambda answer: 0.0, "")
    with pytest.raises(RangeError, match="function"):
        PublicScore(3, "three")  # type: ignore[arg-type]


def test_candidates_that_describe_an_array_differently_need_a_table() -> None:
    queries = [sl.Quantiles([0.5], epsilon=1, bounds=(None, top)) for top in (10, 20)]
    with pytest.raises(SchemaError, match="differently"):
        Selection(candidates=queries, score=HIGHEST).release([1.0])


# --- a base that composes with a pure score at a delta only ----------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Approximate(Count):
    """A query whose only claim is an (ε, δ)."""

    @property
    def claims(self) -> Claims:
        return Claims.of(sl.ApproxDP("0.5", "1e-10"))


def test_a_score_that_shares_no_sum_with_its_candidate_is_composed_at_a_delta() -> None:
    score = PrivateScore(
        ask=lambda answer: Count(epsilon="0.1"), read=lambda m: 1.0, like=Count(epsilon="0.1"), description="noisy"
    )
    claims = search(candidates=[Approximate()], score=score, delta="1e-6").prepare(SCHEMA).claims
    alone = selection_claims(Claims.of(sl.ApproxDP("0.5", "1e-10")), geometric(5), delta="1e-6")
    assert claims.approx_at("1e-6").epsilon > alone.approx_at("1e-6").epsilon  # type: ignore[union-attr]
    assert claims.approx_at("1e-6").epsilon < Fraction(18, 10)  # type: ignore[union-attr]
