"""The stable median: distances against exhaustive search, releases through the pipeline, an exact audit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sidelight as sl
from sidelight.errors import BudgetError, RangeError, SchemaError
from sidelight.guarantees import Neighbours
from sidelight.release import Refused, Release
from sidelight.stability import StableMedian, median_distance
from sidelight.testing import SeededSession, seeded_release

LOW, HIGH = 0, 4
Data = tuple[int, ...]


def distance(data: Data, spread: int, neighbours: Neighbours, cap: int = 99) -> int:
    x = [LOW, *sorted(data), HIGH]
    return median_distance(lambda i: x[i + 1], len(data), spread, neighbours=neighbours, cap=cap)


def median(data: Data) -> int:
    return sorted(data)[(len(data) - 1) // 2] if data else LOW


def neighbours_of(data: Data, kind: Neighbours) -> Iterator[Data]:
    for i in range(len(data)):
        rest = data[:i] + data[i + 1 :]
        if kind is Neighbours.ADD_REMOVE:
            yield rest
        else:
            yield from (tuple(sorted((*rest, value))) for value in range(LOW, HIGH + 1))
    if kind is Neighbours.ADD_REMOVE:
        yield from (tuple(sorted((*data, value))) for value in range(LOW, HIGH + 1))


def searched(data: Data, spread: int, kind: Neighbours) -> int:
    """The distance by its definition: breadth-first over all data sets."""
    seen, edge, steps = {data}, [data], 0
    while True:
        for each in edge:
            if any(abs(median(other) - median(each)) > spread for other in neighbours_of(each, kind)):
                return steps
        edge = list({other for each in edge for other in neighbours_of(each, kind)} - seen)
        seen.update(edge)
        steps += 1
        if not edge:
            return 99


@pytest.mark.parametrize("kind", [Neighbours.ADD_REMOVE, Neighbours.REPLACE])
@pytest.mark.parametrize("spread", [0, 1, 2])
def test_distance_is_the_distance(kind: Neighbours, spread: int) -> None:
    sizes = range(1, 4) if kind is Neighbours.REPLACE else range(4)
    for size in sizes:
        for data in itertools.combinations_with_replacement(range(LOW, HIGH + 1), size):
            assert distance(data, spread, kind) == searched(data, spread, kind), (data, spread)


# Missing values are dropped, so a table of a public number of rows has a private number of values. None is missing.
Cells = tuple[int | None, ...]


def present(cells: Cells) -> Data:
    return tuple(sorted(cell for cell in cells if cell is not None))


def tables_beside(cells: Cells, kind: Neighbours) -> Iterator[Cells]:
    """Every table with one row replaced, added or removed: by a value, or by a missing one."""
    order = sorted(cells, key=lambda cell: -1 if cell is None else cell)
    anything = (None, *range(LOW, HIGH + 1))
    for place in range(len(order)):
        rest = (*order[:place], *order[place + 1 :])
        if kind is Neighbours.ADD_REMOVE:
            yield rest
        else:
            yield from ((*rest, cell) for cell in anything)
    if kind is Neighbours.ADD_REMOVE and len(cells) < 5:  # a larger table only has more values, which is not a new case
        yield from ((*order, cell) for cell in anything)


def canonical(cells: Cells) -> Cells:
    return tuple(sorted(cells, key=lambda cell: -1 if cell is None else cell))


@pytest.mark.parametrize(
    ("kind", "rows"), [(Neighbours.ADD_REMOVE, 5), *((Neighbours.REPLACE, rows) for rows in (1, 2, 3, 4))]
)
def test_distance_is_the_distance_where_values_may_be_missing(kind: Neighbours, rows: int) -> None:
    """Breadth-first search from all unstable tables of up to `rows` rows, with missing values."""
    anything = (None, *range(LOW, HIGH + 1))
    sizes = [rows] if kind is Neighbours.REPLACE else range(rows + 1)
    tables = {canonical(t) for n in sizes for t in itertools.combinations_with_replacement(anything, n)}
    beside = {t: {canonical(other) for other in tables_beside(t, kind)} & tables for t in tables}
    for spread in range(HIGH - LOW):
        bad = [t for t in tables if any(abs(median(present(o)) - median(present(t))) > spread for o in beside[t])]
        away, edge, steps = dict.fromkeys(bad, 0), bad, 0
        while edge:
            steps += 1
            edge = list({other for t in edge for other in beside[t]} - away.keys())
            away.update(dict.fromkeys(edge, steps))
        if kind is Neighbours.REPLACE:  # no end of the search space is near: the distance itself
            assert {t: distance(present(t), spread, kind) for t in tables} == away
        for t in tables:  # what the proof uses
            assert distance(present(t), spread, kind) <= away[t]
            assert all(
                abs(distance(present(t), spread, kind) - distance(present(o), spread, kind)) <= 1 for o in beside[t]
            )


@given(
    data=st.lists(st.none() | st.integers(LOW, HIGH), min_size=1, max_size=30),
    spread=st.integers(0, 3),
    cap=st.integers(1, 30),
)
def test_a_replacement_by_or_of_a_missing_value_moves_the_distance_by_at_most_one(
    data: list[int | None], spread: int, cap: int
) -> None:
    d = distance(present(tuple(data)), spread, Neighbours.REPLACE, cap)
    for other in tables_beside(tuple(data), Neighbours.REPLACE):
        assert abs(distance(present(other), spread, Neighbours.REPLACE, cap) - d) <= 1


def test_missing_values_change_no_median_and_no_refusal() -> None:
    """Releases under REPLACE: a public number of rows, a private number of values."""
    query = StableMedian("hours", epsilon=1, delta="1e-6", neighbours=Neighbours.REPLACE)
    for missing in (0, 1, 300):
        release = seeded_release(query, table([40.0] * 300 + [float("nan")] * missing), seed=1)
        assert isinstance(release, Release)
        assert release.value == 40.0


@given(
    data=st.lists(st.integers(LOW, HIGH), max_size=40),
    spread=st.integers(0, 3),
    kind=st.sampled_from([Neighbours.ADD_REMOVE, Neighbours.REPLACE]),
    cap=st.integers(1, 30),
)
def test_one_record_moves_the_distance_by_at_most_one(data: list[int], spread: int, kind: Neighbours, cap: int) -> None:
    here = tuple(sorted(data))
    d = distance(here, spread, kind, cap)
    assert 0 <= d <= cap
    assert d == min(cap, distance(here, spread, kind))
    for other in neighbours_of(here, kind):
        if other or kind is Neighbours.ADD_REMOVE:
            assert abs(distance(other, spread, kind, cap) - d) <= 1


def test_distance_zero_is_exactly_a_median_that_one_record_moves() -> None:
    for data in itertools.combinations_with_replacement(range(LOW, HIGH + 1), 5):
        moves = max(abs(median(other) - median(data)) for other in neighbours_of(data, Neighbours.ADD_REMOVE))
        assert (distance(data, 1, Neighbours.ADD_REMOVE) == 0) == (moves > 1)


def test_bounds_no_further_apart_than_the_spread_are_at_the_cap() -> None:
    assert distance((1, 2, 3), 4, Neighbours.ADD_REMOVE, cap=17) == 17
    assert distance((1, 2, 3), 4, Neighbours.REPLACE, cap=17) == 17


HOURS = sl.Number("hours", lower=0, upper=99, granularity=1)


def table(values: list[float]) -> sl.Table:
    return sl.Table({"hours": values}, schema=[HOURS])


def test_agreeing_data_gives_the_exact_median() -> None:
    release = seeded_release(StableMedian("hours", epsilon=1, delta="1e-6"), table([40.0] * 300), seed=1)
    assert isinstance(release, Release)
    assert release.value == 40.0
    assert release.circumstances.numerics == "exact"
    assert release.guarantee.approx_at(Fraction(1, 10**6)).epsilon == 1


@pytest.mark.parametrize("values", [[], [7.0], [10.0, 90.0] * 200, [float("nan")] * 50, [float("inf")] * 3])
def test_other_data_is_refused_and_never_raises(values: list[float]) -> None:
    outcome = seeded_release(StableMedian("hours", epsilon=1, delta="1e-6"), table(values), seed=2)
    assert isinstance(outcome, Refused)
    assert "few records" in outcome.reason


def test_a_refusal_costs_what_a_release_costs() -> None:
    query = StableMedian("hours", epsilon=1, delta="1e-6")
    released = seeded_release(query, table([40.0] * 300), seed=3)
    refused = seeded_release(query, table([10.0, 90.0]), seed=3)
    assert released.guarantee.to_json() == refused.guarantee.to_json()
    assert released.query == refused.query


def test_a_session_is_charged_for_a_refusal() -> None:
    session = SeededSession(table([1.0, 99.0]), budget=sl.ApproxDP(1, "1e-5"), routes=["basic"], seed=4)
    assert isinstance(session.release(StableMedian("hours", epsilon="0.6", delta="1e-6")), Refused)
    with pytest.raises(BudgetError):
        session.release(StableMedian("hours", epsilon="0.6", delta="1e-6"))


def test_noise_stays_within_the_bounds_and_has_its_scale() -> None:
    query = StableMedian("hours", epsilon=1, delta="1e-6", spread=2, test_share="1/2")
    data = table([float(v) for v in range(30, 51)] * 100)
    values = [seeded_release(query, data, seed=seed).value for seed in range(400)]
    spread = sum(abs(value - 40) for value in values) / len(values)
    # mean |N| of the discrete Laplace law with scale 4 is 2a/(1-a^2) = 3.96; 400 draws are within 30 % by 6 sigma
    assert 0.75 * 3.96 < spread < 1.3 * 3.96
    assert all(0 <= value <= 99 for value in values)


@pytest.mark.parametrize(("spread", "share"), [(0, 1), (8, 0.5)])
def test_nineteen_of_twenty_answer_at_the_distance_of_the_documentation(spread: int, share: float) -> None:
    """ln(5/delta)/(epsilon share): the threshold ln(1/(2 delta)), and noise that 1 of 20 runs exceeds, ln 10."""
    prepared = StableMedian("hours", epsilon=1, delta="1e-6", spread=spread).prepare(sl.Schema([HOURS]))
    distance = math.ceil(math.log(5e6) / share)
    a = math.exp(-share)
    missing = distance - prepared.test.threshold
    assert 0.93 < 1 - a ** (missing + 1) / (1 + a) < 0.99  # P[N >= -missing] of the discrete Laplace noise
    folder = Path(__file__).parents[2] / "docs" / "how-to"
    assert "`ln(5/δ)/ε`" in (folder / "when-to-let-the-data-decide.md").read_text()


@pytest.mark.parametrize("spread", [30, 99])
def test_no_stated_error_is_wider_than_the_column(spread: int) -> None:
    query = StableMedian("hours", epsilon=1, delta="1e-6", spread=spread)
    release = seeded_release(query, table([40.0] * 700), seed=6)
    assert isinstance(release, sl.Release)
    assert release.error_bound(0.95).tolist() == [99.0]  # 221 and 730 of the noise alone
    assert bool(release.error_bound(0.05)[0] < 99) is (spread == 30)
    assert "99" in str(release)


def test_people_with_several_rows_get_their_promise() -> None:
    schema = [sl.PersonId("who", max_rows=3), HOURS]
    people = sl.Table({"who": list(range(300)), "hours": [40.0] * 300}, schema=schema)
    release = seeded_release(StableMedian("hours", epsilon=3, delta="1e-6"), people, seed=5)
    (claim,) = tuple(release.guarantee)
    assert claim.epsilon == 3
    assert claim.delta <= Fraction(1, 10**6)
    assert claim.delta >= Fraction(999, 10**9)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 0, "delta": "1e-6"}, "epsilon"),
        ({"epsilon": 1, "delta": 0}, "delta"),
        ({"epsilon": 1, "delta": 1}, "delta"),
        ({"epsilon": 1, "delta": "1e-6", "test_share": 1}, "test_share"),
        ({"epsilon": 1, "delta": "1e-6", "spread": -1}, "spread"),
    ],
)
def test_bad_parameters_are_refused_before_any_charge(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(RangeError, match=message):
        StableMedian("hours", **wrong).prepare(sl.Schema([HOURS]))  # type: ignore[arg-type]


def test_bounds_must_be_declared() -> None:
    with pytest.raises(SchemaError, match="needs bounds"):
        StableMedian("x", epsilon=1, delta="1e-6").prepare(sl.Schema([sl.Number("x", granularity=1)]))
    with pytest.raises(SchemaError, match=r"sl.Table"):
        StableMedian(epsilon=1, delta="1e-6").release([1, 2, 3])  # type: ignore[arg-type]
