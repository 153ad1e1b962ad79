"""The meter: every draw is counted, sums are compared with claims, and a release that drew too much is refused."""

from __future__ import annotations

import ast
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates.bounded import Bounded
from sidelight.errors import NoiseError
from sidelight.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Claims, Neighbours, Person, PureDP, Row
from sidelight.guarantees.conversions import zcdp_within
from sidelight.mechanisms import additive, exponential, rank_selection
from sidelight.mechanisms.additive import GaussianNoise, LaplaceNoise, SymmetricGaussianNoise
from sidelight.mechanisms.exponential import choose
from sidelight.mechanisms.meter import Meter
from sidelight.mechanisms.price import DrawPrice
from sidelight.noise import Categorical, Source, discrete_laplace, rounded_gaussian
from sidelight.session.query import Answer
from sidelight.summaries.count import PreparedCounts
from sidelight.summaries.top_k import PreparedDraws
from sidelight.testing import SeededEntropy, seeded_release

PACKAGE = Path(sl.__file__).parent
ANN = Person("who", 3)


def price(*claims: Any, **more: Any) -> DrawPrice:
    return DrawPrice(law="a law", claims=Claims.of(*claims), **more)


def metered(claims: Any, *draws: Callable[[Source], Any]) -> Meter:
    """Return the settled meter of some draws, or raise."""
    meter = Meter(Claims.of(claims))
    with Source(SeededEntropy("meter"), meter=meter) as source:
        for draw in draws:
            draw(source)
    meter.settle()
    return meter


def paid(each: DrawPrice, **part: Any) -> Callable[[Source], None]:
    def draw(source: Source) -> None:
        with source.over(**part), source.paying(each):
            source.bits(3)

    return draw


def people(**more: Any) -> sl.Table:
    rng = np.random.default_rng(5)
    data = {"who": rng.integers(0, 80, 200), "age": rng.integers(0, 100, 200), "job": rng.choice(["a", "b", "c"], 200)}
    columns: list[Any] = [sl.Number("age", lower=0, upper=100, granularity=1), sl.Category("job", ["a", "b", "c"])]
    return sl.Table(data, schema=[*more.get("more", ()), *columns], name="people")


def test_one_draw_about_pairs_costs_what_replacing_one_does() -> None:
    for kind in (PureDP, GDP, ZCDP):
        metered(kind(1), paid(price(kind(1, neighbours=Neighbours.REPLACE)), pairs=True))
        with pytest.raises(NoiseError, match="drew more than it claims"):
            metered(kind(1), paid(price(kind(1)), pairs=True))


def test_a_person_who_is_replaced_may_leave_one_part_and_enter_another() -> None:
    for neighbours, times in ((Neighbours.ADD_REMOVE, 1), (Neighbours.REPLACE, 2)):
        one = price(ZCDP(1, unit=ANN, neighbours=neighbours))
        draws = [paid(one, partition=1, group=group, additive=True) for group in (0, 1)]
        metered(ZCDP(times, unit=ANN, neighbours=neighbours), *draws)
        with pytest.raises(NoiseError, match="drew more than it claims"):
            metered(ZCDP(Fraction(times) - Fraction(1, 100), unit=ANN, neighbours=neighbours), *draws)


def test_sums_are_exact_and_in_the_kind_of_the_claim() -> None:
    tenth = price(PureDP("0.1"))
    metered(PureDP("0.3"), *[paid(tenth)] * 3)
    for claim in (PureDP("0.2999999999999999999"), GDP("0.1"), ZCDP("0.001"), BoundedRange("0.3")):
        with pytest.raises(NoiseError, match="drew more than it claims"):
            metered(claim, *[paid(tenth)] * 3)
    metered(GDP(1), *[paid(price(GDP("0.6"))), paid(price(GDP("0.8")))])
    with pytest.raises(NoiseError):
        metered(GDP("0.9999"), *[paid(price(GDP("0.6"))), paid(price(GDP("0.8")))])
    with pytest.raises(NoiseError):
        metered(PureDP(100), paid(price(GDP("0.6"))))  # Gaussian noise proves no pure claim
    metered(RDP({Fraction(3): Fraction(2)}), paid(price(GDP(1))), paid(price(RDP({Fraction(3): Fraction(1, 2)}))))
    with pytest.raises(NoiseError):
        metered(
            RDP({Fraction(3): Fraction(19, 10)}), paid(price(GDP(1))), paid(price(RDP({Fraction(3): Fraction(1, 2)})))
        )
    metered(ApproxDP(1, "1e-6"), paid(price(ApproxDP("0.5", "1e-6"))), paid(price(PureDP("0.5"))))
    with pytest.raises(NoiseError):
        metered(ApproxDP(1, "1e-7"), paid(price(ApproxDP("0.5", "1e-6"))), paid(price(PureDP("0.5"))))


def test_disjoint_parts_cost_the_largest_and_overlapping_ones_their_sum() -> None:
    one, ranks = price(PureDP(1)), object()
    left, right, both = {"spans": [(0, 5)]}, {"spans": [(5, 9)]}, {"spans": [(2, 7)]}
    metered(PureDP(1), paid(one, places=ranks, **left), paid(one, places=ranks, **right))
    for parts in ([left, both], [left, right, both]):
        with pytest.raises(NoiseError):
            metered(PureDP("1.9"), *(paid(one, places=ranks, **part) for part in parts))
        metered(PureDP(2), *(paid(one, places=ranks, **part) for part in parts))
    with pytest.raises(NoiseError):  # another column: a record lies somewhere on both
        metered(PureDP("1.9"), paid(one, places=ranks, **left), paid(one, places=object(), **right))


def test_groups_are_disjoint_within_one_partition_only() -> None:
    one = price(PureDP(1))
    metered(PureDP(1), paid(one, partition=1, group=0), paid(one, partition=1, group=1))
    with pytest.raises(NoiseError):
        metered(PureDP("1.9"), paid(one, partition=1, group=0), paid(one, partition=2, group=1))
    with pytest.raises(NoiseError):
        metered(PureDP("1.9"), paid(one, partition=1, group=0), paid(one))


def test_a_unit_of_several_rows_pays_for_each_of_them() -> None:
    one = price(PureDP(1))
    metered(PureDP(3, unit=ANN), paid(one, partition=1, group=0), paid(one, partition=1, group=1))
    with pytest.raises(NoiseError):
        metered(PureDP("2.9", unit=ANN), paid(one, partition=1, group=0))
    metered(GDP(3, unit=ANN), paid(price(GDP(1))))
    with pytest.raises(NoiseError):
        metered(GDP("2.9", unit=ANN), paid(price(GDP(1))))
    rows: dict[str, Any] = {"partition": 1, "rows_of_unit": (Fraction(3), Fraction(5))}
    metered(ZCDP(5, unit=ANN), paid(price(ZCDP(1)), group=0, **rows), paid(price(ZCDP(1)), group=1, **rows))


@pytest.mark.parametrize("rows", [1, 3])
def test_groups_in_epsilon_and_groups_in_rho_prove_one_claim(rows: int) -> None:
    unit: Any = Row() if rows == 1 else Person("who", rows)
    rho = zcdp_within(Fraction(9, 10), Fraction(1, 10**6))
    sizes = paid(price(PureDP("0.1", unit=unit)))

    def draws(*, choices: float = 1.0, counts: float = 1.0) -> list[Callable[[Source], None]]:
        of_row = Fraction(choices) * rho / rows**2
        chosen = price(PureDP(8), ZCDP(of_row / 2))
        counted = price(PureDP(Fraction(counts) * Fraction(9, 10) / rows), ZCDP(1))
        return [
            sizes,
            *[paid(chosen, partition=1, group=0)] * 2,
            paid(counted, partition=1, group=1),
        ]

    claim = ApproxDP(1, "1e-6", unit=unit)
    metered(claim, *draws())
    for more in (draws(choices=1.001), draws(counts=1.001), [*draws(), sizes]):
        with pytest.raises(NoiseError):
            metered(claim, *more)
    with pytest.raises(NoiseError):  # of two partitions a record pays for both
        metered(claim, *draws(), paid(price(PureDP("0.9")), partition=2, group=0))
    with pytest.raises(NoiseError):  # what has no rho cannot be in a group that is too large in epsilon
        metered(claim, *draws(), paid(price(ApproxDP("0.01", "1e-9")), partition=1, group=0))


def test_replaced_records_pay_in_both_groups() -> None:
    """A replaced record leaves one group and enters another: groups of two kinds prove nothing about it."""
    both: dict[str, Any] = {"neighbours": Neighbours.REPLACE}
    rho = zcdp_within(Fraction(1), Fraction(1, 10**6))
    chosen, counted = price(PureDP(8, **both), ZCDP(rho, **both)), price(PureDP(1, **both), ZCDP(1, **both))
    with pytest.raises(NoiseError):
        metered(ApproxDP(1, "1e-6", **both), paid(chosen, partition=1, group=0), paid(counted, partition=1, group=1))


def test_a_partition_costs_no_more_than_its_sum_in_epsilon_proves() -> None:
    of_person, steps = Claims.of(PureDP(27)).zcdp(), 2
    assert of_person is not None
    row = price(PureDP(Fraction(27, 3 * steps)))
    whole = of_person.rho + 3
    metered(ZCDP(whole, unit=ANN), paid(price(ZCDP(3, unit=ANN))), *[paid(row, partition=1, group=0)] * steps)
    for claim in (ZCDP(whole - Fraction(1, 100), unit=ANN), PureDP(30, unit=ANN)):
        with pytest.raises(NoiseError):
            metered(claim, paid(price(ZCDP(3, unit=ANN))), *[paid(row, partition=1, group=0)] * steps)
    with pytest.raises(NoiseError):
        metered(ZCDP(whole, unit=ANN), paid(price(ZCDP(3, unit=ANN))), *[paid(row, partition=1, group=0)] * (steps + 1))


def test_noise_for_persons_is_not_divided_over_groups_unless_it_is_of_sums() -> None:
    one = price(PureDP(1, unit=ANN))
    with pytest.raises(NoiseError):
        metered(PureDP("1.9", unit=ANN), paid(one, partition=1, group=0), paid(one, partition=1, group=1))
    shared = {"partition": 1, "additive": True}
    metered(PureDP(1, unit=ANN), paid(one, group=0, **shared), paid(one, group=1, **shared))


def test_neighbours_and_pairs() -> None:
    replaced = price(PureDP(1, neighbours=Neighbours.REPLACE))
    with pytest.raises(NoiseError):
        metered(PureDP(5), paid(replaced))  # replacing says nothing about adding
    metered(PureDP(1), paid(replaced, pairs=True))
    metered(PureDP(2, neighbours=Neighbours.REPLACE), paid(price(PureDP(1))))
    with pytest.raises(NoiseError):
        metered(PureDP("1.9", neighbours=Neighbours.REPLACE), paid(price(PureDP(1))))


def test_a_theorem_covers_later_draws_up_to_its_own_budget() -> None:
    joint = price(ApproxDP(1, "1e-6"), covers=Claims.of(GDP("0.5")))
    metered(ApproxDP(1, "1e-6"), paid(joint), paid(price(GDP("0.5"))))
    with pytest.raises(NoiseError):
        metered(ApproxDP(1, "1e-6"), paid(joint), paid(price(GDP("0.51"))))


def test_runs_of_a_selection_have_meters_of_their_own() -> None:
    outer = Meter(Claims.of(PureDP(3)))
    with Source(SeededEntropy(1), meter=outer) as source, source.paying(price(PureDP(3))):
        for amount, fits in (("1", True), ("1.1", False)):
            inner = Meter(Claims.of(PureDP(1)))
            with source.metered_by(inner):
                paid(price(PureDP(amount)))(source)
            if fits:
                inner.settle()
            else:
                with pytest.raises(NoiseError):
                    inner.settle()
    assert len(outer.spending) == 1  # how many runs there were is secret


def test_nothing_is_drawn_without_a_price() -> None:
    with Source(SeededEntropy(1), meter=Meter(Claims.of(PureDP(1)))) as source:
        for draw in (lambda: source.bits(1), lambda: source.words(1), lambda: source.words32(1)):
            with pytest.raises(NoiseError, match="without a price"):
                draw()
        with source.free("an order"):
            source.bits(1)
        with pytest.raises(NoiseError, match="price of the mechanisms"), source.paying("cheap"):  # type: ignore[arg-type]
            source.bits(1)


def test_a_price_inside_another_must_be_included_by_it() -> None:
    half = price(PureDP("0.5"))
    outer = price(PureDP(1), samples=(("law", Fraction(2)),), each=Claims.of(PureDP("0.5")))
    inside = price(PureDP("0.5"), samples=(("law", Fraction(2)),))
    for inner, fits in (
        (inside, True),
        (price(PureDP("0.6"), samples=(("law", Fraction(2)),)), False),
        (price(PureDP("0.5"), samples=(("law", Fraction(1)),)), False),
        (half, True),  # only its claims are stated: samplers are compared with the open price
    ):
        meter = Meter(Claims.of(PureDP(1)))
        with Source(SeededEntropy(1), meter=meter) as source, source.paying(outer):
            if fits:
                with source.paying(inner):
                    source.bits(1)
            else:
                with pytest.raises(NoiseError, match="does not include it"), source.paying(inner):
                    source.bits(1)
        meter.settle()
        assert len(meter.drawn) == 1


def test_what_is_paid_again_was_paid_before() -> None:
    once = price(PureDP(1))
    meter = Meter(Claims.of(PureDP(1)))
    with Source(SeededEntropy(1), meter=meter) as source:
        with pytest.raises(NoiseError, match="not counted before"), source.paying(once, again=True):
            source.bits(1)
        with source.paying(once):
            source.bits(1)
        with source.paying(price(PureDP(1)), again=True):
            source.bits(1)
        with pytest.raises(NoiseError, match="not counted before"), source.paying(price(PureDP(2)), again=True):
            source.bits(1)
    meter.settle()


@pytest.mark.parametrize("part", [{"group": 0}, {"partition": 1}, {"spans": [(0, 1)]}])
def test_a_part_names_what_it_is_a_part_of(part: dict[str, Any]) -> None:
    with (
        Source(SeededEntropy(1)) as source,
        pytest.raises(NoiseError, match="names its partition"),
        source.over(**part),
    ):
        pass


COUNT = Bounded(np.array([3, 4]), Fraction(2), "l1", Neighbours.ADD_REMOVE, Row())
MATRIX = Bounded(np.eye(2, dtype=np.int64), Fraction(2), "l2", Neighbours.ADD_REMOVE, Row())


@pytest.mark.parametrize(
    ("noise", "claim"),
    [
        (LaplaceNoise(COUNT, epsilon="0.5"), PureDP("0.5")),
        (GaussianNoise(COUNT, mu="0.5"), GDP("0.5")),
        (SymmetricGaussianNoise(MATRIX, mu="0.5"), GDP("0.5")),
    ],
)
def test_a_price_is_that_of_the_scale_that_is_drawn(noise: Any, claim: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    metered(claim, noise.release)
    for name in ("discrete_laplace", "rounded_gaussian"):
        drawn = getattr(additive, name)
        monkeypatch.setattr(additive, name, lambda n, s, source, drawn=drawn: drawn(n, s * Fraction(9, 10), source))
    with pytest.raises(NoiseError, match="another scale"):
        metered(claim, noise.release)


def test_spending_says_what_was_drawn_and_survives_json() -> None:
    release = sl.Mean("age", by="job", epsilon=1).release(people())
    (line,) = [each for each in release.spending if each["law"] == "discrete Laplace"]
    assert line["cost"] == "PureDP(ε = 1)"
    assert line["over"] == "all rows"
    again = sl.Release.from_json(release.to_json())
    assert again.spending == release.spending
    assert again == release


# --- planted bugs, each seen in one release ---------------------------------------------------------------------------

QUERIES = [
    pytest.param(sl.Count(by="job", epsilon=1), id="count"),
    pytest.param(sl.Mean("age", by="job", epsilon=1), id="mean"),
    pytest.param(sl.Quantiles(sl.quantiles.even_levels(30), column="age", epsilon=1), id="quantiles"),
]


@pytest.mark.planted("a noise scale of nine tenths", of=("Count", "Mean", "Quantiles"))
@pytest.mark.parametrize("query", QUERIES)
def test_a_smaller_scale_is_refused(query: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seeded_release(query, people(), seed=1)
    scale = LaplaceNoise.scale.func  # type: ignore[attr-defined]
    monkeypatch.setattr(LaplaceNoise, "scale", property(lambda self: scale(self) * Fraction(9, 10)))
    with pytest.raises(NoiseError, match="drew more than it claims"):
        seeded_release(query, people(), seed=1)


@pytest.mark.planted("a draw made twice", of=("Count",))
def test_a_second_draw_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    run = PreparedCounts.run

    def twice(self: Any, table: Any, source: Source) -> Answer:
        run(self, table, source)
        return run(self, table, source)

    monkeypatch.setattr(PreparedCounts, "run", twice)
    with pytest.raises(NoiseError, match="drew more than it claims"):
        seeded_release(sl.Count(by="job", epsilon=1), people(), seed=1)


@pytest.mark.planted("noise of each group for a person who is in two of them", of=("Count",))
def test_noise_by_group_for_a_person_in_two_groups_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def each_by_itself(self: Any, table: Any, source: Source) -> Answer:
        partition = source.partition()
        for place in range(3):
            bounded = Bounded(7, Fraction(1), "l1", Neighbours.ADD_REMOVE, self.claims.unit)
            with source.over(partition=partition, group=place):
                LaplaceNoise(bounded, epsilon=1).release(source)
        return Answer(value=np.zeros(3))

    monkeypatch.setattr(PreparedCounts, "run", each_by_itself)
    query, table = sl.Count(by="job", max_groups=2, epsilon=1), people(more=[sl.PersonId("who", max_rows=3)])
    with pytest.raises(NoiseError, match="drew more than it claims"):
        seeded_release(query, table, seed=1)


@pytest.mark.planted("a selection with half of its sensitivity", of=("Quantiles", "TopK"))
def test_a_selection_with_half_of_its_sensitivity_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    top = sl.TopK("job", k=2, route="peeling", epsilon=1)
    seeded_release(top, people(), seed=1)
    score = rank_selection.gap_score
    monkeypatch.setattr(
        rank_selection, "gap_score", lambda size, target, epsilon, kind: score(size, target, 2 * epsilon, kind)
    )
    with pytest.raises(NoiseError, match="drew more than it claims"):
        seeded_release(sl.Quantiles([0.5], column="age", epsilon=1, form="tree"), people(), seed=1)
    monkeypatch.setattr(
        exponential, "Categorical", lambda scores, unit, weights: Categorical(scores, 2 * unit, weights)
    )
    with pytest.raises(NoiseError, match="another scale"):
        seeded_release(top, people(), seed=1)


@pytest.mark.planted("a draw outside the meter", of=("Count", "TopK"))
@pytest.mark.parametrize(
    "sampler",
    [
        lambda source: discrete_laplace(3, Fraction(1), source),
        lambda source: rounded_gaussian(3, Fraction(1), source),
        lambda source: Categorical([1, 2], Fraction(1)).draw(source),
    ],
)
def test_a_draw_outside_the_meter_is_refused(sampler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (PreparedCounts, PreparedDraws):
        monkeypatch.setattr(kind, "run", lambda self, table, source: Answer(value=sampler(source)))
    with pytest.raises(NoiseError, match="without a price"):
        seeded_release(sl.Count(by="job", epsilon=1), people(), seed=1)
    with pytest.raises(NoiseError, match="without a price"):
        seeded_release(sl.TopK("job", k=2, route="peeling", epsilon=1), people(), seed=1)


def test_a_refused_release_is_paid_and_says_a_fixed_text(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = LaplaceNoise.scale.func  # type: ignore[attr-defined]
    monkeypatch.setattr(LaplaceNoise, "scale", property(lambda self: scale(self) * Fraction(9, 10)))
    session = sl.Session(people(), budget=sl.PureDP(3))
    with pytest.raises(NoiseError, match=r"a defect of sidelight; nothing was released, and its charge stands"):
        session.release(sl.Count(by="job", epsilon=1))
    assert "2" in str(session.remaining)


def test_a_choice_wants_what_its_price_is_made_of() -> None:
    scores = Bounded(np.array([3, 4]), Fraction(2), "linf", Neighbours.ADD_REMOVE, Row())
    meter = metered(BoundedRange(1), lambda source: choose(scores, spread=Fraction(1), source=source))
    assert meter.spending[0]["law"] == "exponential choice"
    with pytest.raises(sl.errors.RangeError, match="positive sensitivity"):
        metered(PureDP(1), lambda source: choose(scores, spread=Fraction(1), apart=3, source=source))


# --- where draws stand ------------------------------------------------------------------------------------------------

#: Samplers of noise and of choices; integers, orders and coins that meet no statistic are not among them.
SAMPLERS = {
    "Categorical",
    "directions",
    "discrete_laplace",
    "gamma",
    "geometric",
    "refinement_noise",
    "rounded_gaussian",
    "standard_exponential",
    "standard_normal",
}
#: The experts' server perturbs its own plays, which protects no report and needs no price; points of a log-linear fit
#: are drawn from a public seed, the digest of the release.
ELSEWHERE = {"experts/player.py", "synthesis/tree_points.py"}
#: What is drawn without a price, and why that is right: it moves records before anything is counted, or is public.
FREE = {
    "aggregates/ranks.py",
    "covariance/plan.py",
    "experts/reporter.py",
    "gaussians/row_reader.py",
    "stability/mode.py",
    "published/eigenvector_covariance.py",
    "summaries/count_tables.py",
    "summaries/tree_prior.py",
    "summaries/tree_whole.py",
}


def _files(word: str) -> list[tuple[str, ast.Module]]:
    """Return the files in which a word occurs: no other one needs to be parsed."""
    texts = ((str(path.relative_to(PACKAGE)), path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py"))
    return [(name, ast.parse(text)) for name, text in texts if word in text]


def test_noise_is_drawn_in_the_mechanisms_and_nowhere_else() -> None:
    found = {
        name
        for name, tree in _files("sidelight.noise")
        if not name.startswith(("noise/", "mechanisms/"))
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("sidelight.noise")
        and {alias.name for alias in node.names} & SAMPLERS
    }
    assert found == ELSEWHERE


def test_draws_without_a_price_are_these() -> None:
    found = {
        name
        for name, tree in _files(".free")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "free"
    }
    assert found == FREE
