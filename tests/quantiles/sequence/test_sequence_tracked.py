"""Days counted in predicted cells: what they cost, that only released numbers are learned from, and how well."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from daily_fixtures import *  # noqa: F403 - fixtures
from daily_fixtures import Make, day, minutes, today

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.guarantees import Row
from sidelight.ledger import Ledger
from sidelight.quantiles import nonprivate_gap
from sidelight.quantiles.sequence import tracked as module
from sidelight.quantiles.sequence.curve import CountedCells, CurveState, knots_of
from sidelight.quantiles.sequence.plan import SequencePlan
from sidelight.quantiles.sequence.tracked import PubTrack
from sidelight.report import Item, Report, write_report
from sidelight.testing import SeededSequence

LEVELS = [0.25, 0.5, 0.75]


def run(sequence: Any, days: range, **rest: Any) -> list[Any]:
    return [sequence.release(today(t), day=day(t), **rest) for t in days]


def planned(levels: Any = LEVELS, *, schema: Any = None, **rest: Any) -> SequencePlan:
    declared = sl.Schema(schema or [sl.Number("minutes", lower=0, granularity="0.1")])
    query = sl.Quantiles(levels, column="minutes", **({"epsilon": "0.5"} | rest))
    return SequencePlan(query=query, schema=declared, learner=PubTrack(), days_per_person=None)


def test_from_the_second_day_on_rows_are_counted_for_the_same_price(make: Make, ledger: Ledger) -> None:
    sequence = make(PubTrack())
    first, second, third = run(sequence, range(3))
    assert [each.guarantee.pure().epsilon for each in (first, second, third)] == [Fraction(1, 2)] * 3
    assert first.details is None
    assert second.details["form"] == third.details["form"] == "counted"
    entries = list(ledger.entries())
    assert [entry.request["kind"] for entry in entries] == ["quantiles", "counted_quantiles", "counted_quantiles"]
    assert entries[1].request["edges"] == [repr(float.fromhex(each)) for each in second.details["edges"]]
    assert second.prediction["origin"]["kind"] == "released"
    assert second.value.shape == (3,)
    assert (np.diff(second.value) >= 0).all()
    assert float(sequence.spent.basic.total) == pytest.approx(1.5, rel=1e-9)  # type: ignore[union-attr]


def test_a_person_with_several_rows_divides_the_price() -> None:
    schema = [sl.Number("minutes", lower=0, granularity="0.1"), sl.PersonId("id", max_rows=4)]
    one, four = planned().tracking, planned(schema=schema).tracking
    assert one is not None
    assert four is not None
    assert four.claims.pure().epsilon == one.claims.pure().epsilon == Fraction(1, 2)  # type: ignore[union-attr]
    assert math.sqrt(four.variance / one.variance) == pytest.approx(4, rel=0.02)
    rho = planned(schema=schema, epsilon=None, rho="0.02").tracking
    assert rho is not None
    assert rho.claims.zcdp().rho <= Fraction("0.02")  # type: ignore[union-attr]
    assert rho.variance == pytest.approx(16 / 0.04, rel=0.02)


class Few:
    """Ranks of a few records on a small grid."""

    def __init__(self, codes: list[int]) -> None:
        self.codes, self.size = codes, len(codes)

    def below(self, index: int) -> int:
        return sum(code < index for code in self.codes)


def counts_by(plan: Any, codes: list[int], points: tuple[int, ...], monkeypatch: Any) -> np.ndarray:
    """The counts before the noise, as the mechanism makes them."""
    seen: list[np.ndarray] = []

    class Silent:
        claims, deviation = plan.claims, 1.0

        def __init__(self, counts: Any) -> None:
            seen.append(np.asarray(counts))

        def release(self, source: Any) -> Any:
            return seen[-1]

    monkeypatch.setattr(module.TrackPlan, "_noise", lambda self, counts: Silent(counts))
    plan.count(Few(codes), points, None)
    return seen[-1]


def neighbours(first: int, last: int) -> Iterator[tuple[list[int], int]]:
    rng = np.random.default_rng(3)
    for size in range(5):
        codes = sorted(rng.integers(first, last + 1, size).tolist())
        yield from ((codes, added) for added in (first, first + 1, (first + last) // 2, last - 1, last))


@pytest.mark.planted("a row in two cells of a counted day", of=("PubTrack",))
@pytest.mark.parametrize("planted", [None, "closed cells", "a cell counted twice"])
def test_one_row_moves_one_count_by_one_and_planted_bugs_do_not(monkeypatch: Any, planted: str | None) -> None:
    """The sensitivity of the counts, over small data sets, at edges, between them and at the ends of the grid."""
    plan = planned(schema=[sl.Number("minutes", lower=0, upper=1, granularity=1)]).tracking
    assert plan is not None
    first, last = plan.grid.fine_first, plan.grid.fine_last
    points = (first + 1, (first + last) // 2, last - 1)
    if planted == "closed cells":  # a record at an edge is in both of its cells
        real = module.counts_of

        def closed(ranks: Any, cells: Any) -> Any:
            counted = real(ranks, cells)
            extra = [ranks.below(cell.end + 1) - ranks.below(cell.end) for cell in cells[:-1]]
            return sl.aggregates.bounded.Bounded(
                np.asarray(counted.value) + np.array([*extra, 0]),
                counted.sensitivity,
                counted.norm,
                counted.neighbours,
                Row(),
            )

        monkeypatch.setattr(module, "counts_of", closed)
    if planted == "a cell counted twice":
        cells_between = module.cells_between
        monkeypatch.setattr(
            module, "cells_between", lambda grid, at: [*cells_between(grid, at), cells_between(grid, at)[-1]]
        )
    moved = []
    for codes, added in neighbours(first, last):
        one, other = (counts_by(plan, each, points, monkeypatch) for each in (codes, sorted([*codes, added])))
        moved.append(int(np.abs(one - other).sum()))
        if planted is None:
            assert one.sum() == len(codes)
    assert (max(moved) == 1) == (planted is None)


@pytest.mark.planted("half the noise of a counted day", of=("PubTrack",))
def test_the_noise_of_counts_has_its_scale() -> None:
    """Discrete Laplace noise of scale 1/epsilon, and an audit that one of half the size fails."""
    plan = planned().tracking
    assert plan is not None
    from sidelight.noise import Source
    from sidelight.testing import SeededEntropy

    points = tuple(plan.grid.fine_first + 5 + place for place in range(9))
    empty: Any = Few([])
    with Source(SeededEntropy("counts of days")) as source:
        noise = np.concatenate([plan.count(empty, points, source) for _ in range(600)])
    assert np.abs(noise).mean() == pytest.approx(1 / math.sinh(0.5), rel=0.12)  # E|X| of scale 2
    assert noise.var() == pytest.approx(plan.variance, rel=0.25)


def test_nothing_but_released_numbers_enters(make: Make) -> None:
    """Another process learns the same from the ledger alone; a state file may be lost."""
    sequence = make(PubTrack(features=1))
    for t in range(5):
        sequence.release(today(t), day=day(t), features=[0.5])
    before = Path(sequence.state_file).read_bytes()  # type: ignore[arg-type]
    Path(sequence.state_file).unlink()  # type: ignore[arg-type]
    again = make(PubTrack(features=1))
    assert again.days == 5
    assert again.predict([0.5]) == sequence.predict([0.5])
    again.rebuild()
    assert Path(again.state_file).read_bytes() == before  # type: ignore[arg-type]
    restored = again.plan.read(again._state.learned.to_json())
    assert restored.to_json() == again._state.learned.to_json()


def test_a_state_that_does_not_fit_is_refused() -> None:
    plan = planned()
    written = plan.begin().to_json()
    with pytest.raises(RangeError, match="moves"):
        plan.read({**written, "moves": written["moves"][:1]})


def test_it_is_far_better_than_days_on_their_own(make: Make) -> None:
    sequence = make(PubTrack(), epsilon="0.1")
    tracked, alone = [], []
    query = sl.Quantiles(LEVELS, column="minutes", epsilon="0.1")
    for t in range(40):
        values = minutes(t, 600)
        release = sequence.release({"minutes": values}, day=day(t))
        tracked.append(nonprivate_gap(values, LEVELS, release.value).mean())
        other = sl.testing.seeded_release(query, sl.Table({"minutes": values}, schema=sequence.plan.schema), seed=t)
        alone.append(nonprivate_gap(values, LEVELS, other.value).mean())
    assert np.mean(tracked[5:]) < 0.75 * np.mean(alone[5:])


def test_the_bound_of_a_counted_day_holds(make: Make) -> None:
    """At 90 %, on days that the curve expects and on days that it does not; rejected at one in a million."""
    sequence = make(PubTrack(), epsilon="0.2", budget=sl.PureDP(100))
    exceeded = []
    for t in range(60):
        values = minutes(t, 300) * (4 if t % 10 == 0 else 1)
        release = sequence.release({"minutes": values}, day=day(t))
        if release.details is not None:
            gaps = nonprivate_gap(values, LEVELS, release.value)
            exceeded.append(bool((gaps > release.error_bound(0.9)).any()))
    assert len(exceeded) > 40
    assert sum(exceeded) <= 18  # of 59 with a chance of one in ten: P(more) < 1e-6


def test_weekdays_are_expected(make: Make) -> None:
    sequence = make(PubTrack(), epsilon="0.5", budget=sl.PureDP(100))
    for t in range(56):
        sequence.release({"minutes": minutes(t, 800)}, day=day(t))
    places = {t % 7: sequence.predict(day=day(t)) for t in range(56, 63)}
    middle = {key: prior[1].priors[0].location for key, prior in places.items()}  # type: ignore[index, union-attr]
    assert min(middle[5], middle[6]) > max(middle[each] for each in range(5)) + 1


def test_a_jump_is_found_again(make: Make) -> None:
    sequence = make(PubTrack(), epsilon="0.5", budget=sl.PureDP(100))
    gaps = []
    for t in range(20):
        values = minutes(t % 5, 400) * (100 if t >= 10 else 1)
        release = sequence.release({"minutes": values}, day=day(t))
        gaps.append(nonprivate_gap(values, LEVELS, release.value).mean() / 400)
    assert max(gaps[4:10]) < 0.05
    assert np.median(gaps[13:]) < 0.05


@pytest.mark.parametrize(
    ("number", "values"),
    [
        (sl.Number("minutes"), np.zeros(50)),
        (sl.Number("minutes"), np.full(50, 1e300)),
        (sl.Number("minutes"), np.array([-1e308, 1e308] * 20)),
        (sl.Number("minutes"), np.array([5e-324, 0.0, -5e-324] * 9)),
        (sl.Number("minutes", lower=0, upper=1, granularity=1), np.array([0, 1] * 30)),
        (sl.Number("minutes", lower=0), np.array([])),
        (sl.Number("minutes", granularity="1e-9"), np.array([1e6] * 30)),
    ],
    ids=["zeros", "huge", "both ends", "tiny", "two values", "no rows", "fine step"],
)
@pytest.mark.parametrize("epsilon", ["1e-6", "2", "5000"])
def test_days_of_any_size_are_released(ledger: Ledger, number: Any, values: np.ndarray, epsilon: str) -> None:
    sequence = sl.testing.SeededSequence(
        sl.Quantiles([0.1, 0.5], column="minutes", epsilon=epsilon),
        PubTrack(),
        schema=[number],
        budget=sl.PureDP(100_000),
        ledger=ledger,
        scope="odd",
        seed=1,
    )
    for t in range(6):
        release = sequence.release({"minutes": values}, day=day(t))
        assert np.isfinite(release.value).all()
        assert number.lower is None or release.value.min() >= number.lower
        assert number.upper is None or release.value.max() <= number.upper


def test_features_of_any_allowed_size_are_taken(make: Make) -> None:
    sequence = make(PubTrack(features=1))
    for t, size in enumerate([1e6, -1e6, 5e-324, 1.0, 1.0]):
        release = sequence.release(today(t), day=day(t), features=[size])
        assert np.isfinite(release.value).all()


def test_many_levels_and_one_share_a_curve_of_a_few_knots() -> None:
    assert len(knots_of([Fraction(i, 100) for i in range(1, 100)])) == 19
    for levels in ([0.5], [0.01], [0.9, 0.99], [i / 200 for i in range(1, 200)]):
        plan = planned(levels)
        assert plan.tracking is not None
        ends = [Fraction(0), *plan.tracking.knots, Fraction(1)]
        assert max(b - a for a, b in itertools.pairwise(ends)) <= Fraction(3, 10)


def test_large_days_are_selected_around_the_expectation() -> None:
    plan = planned([0.5], epsilon=10)
    assert plan.tracking is not None
    state = plan.tracking.learn(
        plan.begin(), np.zeros(7), np.array([8.0]), {"curve": [x.hex() for x in (6.0, 8.0, 11.0)]}
    )
    assert plan.tracking.points(state, np.zeros(7)) is not None
    cells = CountedCells(
        edges=np.array([6.0, 8, 11]), below=0, counts=np.full(4, 2e5), variance=plan.tracking.variance, ends=(0, np.inf)
    )
    large = state.after_counts(np.zeros(7), cells, apart=1e-3)
    assert isinstance(large, CurveState)
    assert plan.tracking.points(large, np.zeros(7)) is None
    (prior,) = plan.priors(large, np.zeros(7), sl.predictions.guess("test"))  # type: ignore[misc]
    assert prior.priors[0].location == pytest.approx(8, abs=0.5)


def test_learn_names_a_learner(make: Make, ledger: Ledger) -> None:
    rest: dict[str, Any] = {"schema": [sl.Number("minutes", lower=0, upper=120, granularity="0.1")], "ledger": ledger}
    query = sl.Quantiles(LEVELS, column="minutes", epsilon="0.5")
    for scope, given, name in (("a", {}, "PubTrack"), ("b", {"learn": "released"}, "PubTrack")):
        sequence = sl.testing.SeededSequence(query, budget=sl.PureDP(9), scope=scope, seed=1, **given, **rest)
        assert type(sequence.plan.learner).__name__ == name
    private = sl.testing.SeededSequence(
        query, learn="private", budget=sl.ApproxDP(9, "1e-6"), scope="c", seed=1, **rest
    )
    learner = private.plan.learner
    assert (learner.lower, learner.upper) == (0, 120)
    price = private.plan.bare.claims.zcdp().rho  # type: ignore[union-attr]
    assert learner.rho == price / 9
    release = private.release({"minutes": minutes(0)}, day=day(0))
    assert release.value["gradient"].shape == (3, 24)
    assert private.plan.claims.zcdp().rho == pytest.approx(float(price) * 10 / 9)  # type: ignore[union-attr]
    with pytest.raises(RangeError, match="not both"):
        sl.testing.SeededSequence(query, PubTrack(), learn="private", budget=sl.PureDP(9), scope="d", seed=1, **rest)
    with pytest.raises(RangeError, match="declare lower and upper"):
        sl.testing.SeededSequence(
            query,
            learn="private",
            budget=sl.PureDP(9),
            scope="d",
            seed=1,
            ledger=ledger,
            schema=[sl.Number("minutes", lower=0)],
        )


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"features": -1}, "features"),
        ({"features": True}, "features"),
        ({"weekdays": 1}, "weekdays"),
        ({"memory": 1}, "memory"),
        ({"hedge_weight": 0}, "hedge_weight"),
    ],
)
def test_wrong_parameters_are_named(wrong: dict[str, Any], match: str) -> None:
    with pytest.raises(RangeError, match=match):
        PubTrack(**wrong)


def test_the_page_of_a_counted_day_shows_its_quantiles(make: Make, tmp_path: Path) -> None:
    *_, release = run(make(PubTrack()), range(3))
    report = Report(title="Trips", day="2025-11-03", items=(Item(title="Trips", outcome=release),))
    write_report(report, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "cut where earlier days expect the quantiles" in page
    assert f"{release.value[1]:g}" in page


@pytest.mark.parametrize("levels", [[0.9], [0.5], [0.2, 0.7]])
def test_a_day_that_asks_for_the_whole_curve_has_the_bound_of_its_own_levels(levels: list[float], make: Make) -> None:
    plan = planned(levels)
    whole = plan.of_curve(None).prepare(plan.schema)
    assert plan.tracking is not None
    wanted = [whole.error.at(0.95)[plan.tracking.knots.index(level)] for level in plan.tracking.levels]
    (first,) = run(make(PubTrack(), levels=levels), range(1))
    assert first.value.shape == (len(levels),)
    assert first.error.at(0.95).tolist() == pytest.approx(wanted)


def test_after_a_busy_day_days_are_counted_again() -> None:
    plan = planned(epsilon=1).tracking
    assert plan is not None
    none = np.zeros(0)
    levels = np.array([0.25, 0.5, 0.75])
    state = plan.begin().after_values(none, levels, np.array([4.0, 8.0, 12.0]), memory=60.0)
    busy = CurveState(**{**vars_of(state), "rows": 50_000.0})
    days = 0
    while plan.points(busy, none) is None:
        busy, days = busy.after_values(none, levels, np.array([4.0, 8.0, 12.0]), memory=60.0), days + 1
        assert days < 60
    assert days > 10


def vars_of(state: CurveState) -> dict[str, Any]:
    return {name: getattr(state, name) for name in state.__dataclass_fields__}


@pytest.mark.parametrize(
    ("prediction", "words"),
    [
        ((sl.priors.Cauchy(5, 1),) * 2, "2 priors for 3 levels"),
        ([5, 6, 7], "must be a prior"),
        ((), "must be a prior"),
        ("Cauchy", "must be a prior"),
    ],
)
def test_predictions_that_do_not_fit_are_refused_at_once(prediction: Any, words: str) -> None:
    with pytest.raises(RangeError, match=words):
        SequencePlan(
            query=sl.Quantiles(LEVELS, column="minutes", epsilon=1),
            schema=sl.Schema([sl.Number("minutes", lower=0, granularity="0.1")]),
            learner=PubTrack(prediction=prediction),
            days_per_person=None,
        )


def test_dates_stay_dates_on_counted_days(ledger: Ledger) -> None:
    schema = [sl.Date("came", start="2020-01-01", end="2020-12-31")]
    sequence = SeededSequence(
        sl.Quantiles([0.25, 0.5, 0.75], column="came", epsilon=1),
        schema=schema,
        budget=sl.PureDP(9),
        ledger=ledger,
        scope="dates",
        seed=1,
    )
    first = datetime.datetime(2020, 3, 1)
    came = {"came": np.array([first + datetime.timedelta(days=place % 40) for place in range(400)])}
    shown = [str(sequence.release(came, day=day(t))) for t in range(3)]
    assert "counted_quantiles" in shown[1]
    assert all("2020-03" in each for each in shown), shown


@pytest.mark.parametrize(
    ("more", "words"), [({"by": "site"}, "all rows of a day"), ({"form": "select", "delta": "1e-6"}, "rho")]
)
def test_private_learning_says_what_it_needs(more: dict[str, Any], words: str, ledger: Ledger) -> None:
    schema = [sl.Number("minutes", lower=0, upper=50), sl.Category("site", ["a", "b"])]
    with pytest.raises(RangeError, match=words):
        sl.Sequence(
            sl.Quantiles(LEVELS, column="minutes", epsilon=1, **more),
            learn="private",
            schema=schema,
            budget=sl.PureDP(9),
            ledger=ledger,
            scope="private",
        )


@pytest.mark.parametrize(
    ("levels", "rows", "counted"),
    [([0.5], 10, True), ([0.5], 100, False), ([0.9], 100, True), (LEVELS, 200, True), (LEVELS, 400, False)],
)
def test_few_levels_are_counted_where_signals_are_weak_only(levels: list[float], rows: float, counted: bool) -> None:
    """One level is selected without dividing the budget: its counts would be several times as far off."""
    plan = planned(levels).tracking
    assert plan is not None
    none = np.zeros(0)
    state = plan.begin().after_values(none, np.array([0.25, 0.5, 0.75]), np.array([4.0, 8.0, 12.0]), memory=60.0)
    known = CurveState(**{**vars_of(state), "rows": float(rows)})
    assert (plan.points(known, none) is not None) == counted


def test_the_bound_of_selected_days_of_a_growing_series_holds(make: Make) -> None:
    """Of 20 days at 95 % more than eight miss less than once in a million; the likely error of more is exceeded."""
    sequence, missed, selected = make(PubTrack(), epsilon=1, budget=sl.PureDP(100)), 0, 0
    for t in range(20):
        values = 10 * np.round(minutes(t, 2000) * 1.2**t / 10)
        release = sequence.release({"minutes": values}, day=day(t))
        selected += release.details is None
        missed += bool((nonprivate_gap(values, LEVELS, release.value) > release.error_bound(0.95)).any())
    assert selected > 10
    assert missed <= 8
