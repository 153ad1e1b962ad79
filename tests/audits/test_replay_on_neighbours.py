"""Every query of the registry on neighbours: with the same noisy answers, nothing moves by more than its sensitivity.

The cases are those of the reference bits, on few rows. Which cases cannot be replayed, and why, stands here: a case or
a kind that is in neither list fails.
"""

from __future__ import annotations

import csv
import datetime
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates.bounded import Bounded
from sidelight.errors import SidelightWarning
from sidelight.guarantees import Neighbours, Row
from sidelight.ledger import open_ledger
from sidelight.mechanisms.additive import LaplaceNoise, SeveralGaussians
from sidelight.registry import ENTRIES
from sidelight.session.query import Answer, prepare_query
from sidelight.summaries.count import PreparedCounts
from sidelight.testing import SeededSequence, SeededSession

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from every_kind import plan_of_every_kind

from reference_cases import MODELS, query_cases
from replay import Compared, NotReplayedError, compare, compare_sessions

#: Kinds of the registry that are not replayed, and why.
KINDS_NOT_REPLAYED = {
    "linear_svc": "objective perturbation: noise meets a function, not a statistic",
    "stable_logistic_regression": "a posterior sample: no statistic meets the noise",
    "posterior_sample": "a posterior sample: no statistic meets the noise",
    "selected_posterior_sample": "the best of a secret number of posterior samples",
    "selection": "the best of a secret number of runs",
}
#: Kinds that only days of a sequence have, which a test of their own replays.
OF_DAYS: dict[str, tuple[Any, Any]] = {
    "counted_quantiles": (sl.PubTrack(), sl.PureDP(9)),
    "learned_quantiles": (sl.quantiles.PrivateHistograms(0, 128, rho="1/4", bins=8), sl.ApproxDP(99, "1e-6")),
}
_OBJECTIVE = "objective perturbation"
#: Cases that are not replayed, with what was drawn there.
CASES_NOT_REPLAYED = {
    "plan: linear_svc": _OBJECTIVE,
    "linear svc": _OBJECTIVE,
    "poisson": _OBJECTIVE,
    "logistic regression, objective": _OBJECTIVE,
    "linear regression, objective": _OBJECTIVE,
    "covariance, ies": "exponential choice",  # of an eigenvector, which is sampled
    "majority vote, all rows": "two discrete Laplace votes",
    "stable pca, all rows": "symmetric Gaussian",  # on a projector, in floats
    "stable logistic, isotropic": "Gaussian around the minimum",
    "stable logistic, hessian": "Gaussian around the minimum",
    "adaops": "a posterior sample",
    "opsptr": "the best of a random number of posterior samples",
    "selection, geometric": "the best of a random number of runs",
    "selection, poisson": "the best of a random number of runs",
}
#: What rows of a Gaussian fit draw where the row that goes away is not the last: it would take another's coins along.
COINS = "rows that are kept by coins of their own"
#: Which row goes away; its place is taken by the last one.
FIRST, LAST = "first", "last"
#: Pairs of a kind on which a row moves something: a label goes away with its row, a median moves.
MORE: dict[str, dict[str, Any]] = {"count_distinct": {"rows": 2}, "stable_median": {"which": FIRST, "ends": ""}}
#: Cases whose private test passes on all rows of their table alone.
ALL = ", all rows"
SLOW_TO_PASS = {f"{name}{ALL}" for name in ("majority vote", "stable pca", "stable median", "stable mode")}
Data = dict[str, np.ndarray]


class CapturedError(Exception):
    """A model's query on its way to a session."""

    def __init__(self, query: Any) -> None:
        self.query = query


class _Session(SeededSession):
    def release(self, query: Any, **rest: Any) -> Any:
        raise CapturedError(query)


def few(table: sl.Table, count: int, start: int = 0) -> Data:
    """Return some rows of a table: as many as asked for, evenly spaced."""
    cells = {name: np.asarray(column) for name, column in table._rows.cells.items()}  # type: ignore[union-attr]
    size = len(next(iter(cells.values())))
    rows = np.arange(size) if size <= count else (start + np.arange(count) * (size // count)) % size
    return {name: column[rows] for name, column in cells.items()}


def size_of(table: sl.Table) -> int:
    """Return the number of rows."""
    return len(next(iter(few(table, sys.maxsize).values())))


def without(data: Data, schema: Any, which: str) -> Data:
    """Return the data without one row, or without the rows of its person; the last row takes the first one's place."""
    person = next((column.name for column in schema.columns if isinstance(column, sl.PersonId)), None)
    gone = 0 if which == FIRST else -1
    if person is not None:
        return {name: column[data[person] != data[person][gone]] for name, column in data.items()}
    if which == LAST:
        return {name: column[:-1] for name, column in data.items()}
    return {name: np.concatenate([column[-1:], column[1:-1]]) for name, column in data.items()}


def far(data: Data, schema: Any, which: str, *, up: bool) -> Data:
    """Return the data with the row that goes away at the ends of its columns, or far out where they have none."""
    found = {name: column.copy() for name, column in data.items()}
    for column in schema.columns:
        if isinstance(column, sl.Number):
            end = column.upper if up else column.lower
            values = found[column.name]
            values[0 if which == FIRST else -1] = end if end is not None else 1e4 if up else -1e4
    return found


def plan_cases(folder: Path) -> Iterator[tuple[str, Any, sl.Table]]:
    """Return the cases of `every_kind`, with the file of people as arrays."""
    plan = plan_of_every_kind(folder)
    with (folder / "people.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    numbers = {column.name for column in plan.schema.columns if isinstance(column, sl.Number)}
    data = {
        column.name: np.array([row[column.name] for row in rows], float if column.name in numbers else object)
        for column in plan.schema.columns
    }
    table = sl.Table(data, schema=plan.schema, name="people")
    for each in plan.queries:
        yield f"plan: {each.title.rpartition(' ')[2]}", each.query, table


def replayed_query(name: str, query: Any, table: Any, *, rows: int, which: str, ends: str, seed: str) -> Compared:
    """Compare one query on one pair of neighbours."""
    if not isinstance(table, sl.Table):
        table = sl.Table(np.asarray(table), schema=[query.declare()])
    schema = table.schema
    data = few(table, rows)
    if ends:
        data = far(data, schema, which, up=ends == "upper")
    if getattr(query, "rows", None) is not None:  # neighbours by replacement, at a public number of rows
        place = 0 if which == FIRST else len(next(iter(data.values()))) - 1
        other = {name: column.copy() for name, column in data.items()}
        for column in other.values():
            column[place] = column[len(column) // 2]
    else:
        other = without(data, schema, which)
    fixed = which == LAST or getattr(query, "rows", None) is not None
    one, two = (sl.Table(each, schema=schema, name=table.name) for each in (data, other))
    return compare(prepare_query(query, schema), one, two, seed=f"{name} {seed}", pairs=fixed)


def replayed_model(name: str, *, rows: int, which: str, ends: str, seed: str) -> tuple[str, Compared]:
    """Compare a model that brings its rows on one pair of neighbours; return its kind, too."""
    rng = np.random.default_rng(20)
    x = rng.integers(-64, 65, (rows, 2)) / 128
    if "mixture" in name:
        x = 40 * np.sign(x) + x
    most = 2 if "three" in name or "against" in name or name == "poisson" else 1
    y = np.minimum((x[:, 0] > x[:, 1] / 2).astype(int) + (x[:, 1] > 0.25), most)
    if ends:
        x[0 if which == FIRST else -1] = 9.0 if ends == "upper" else -9.0
    keep = np.r_[rows - 1, 1 : rows - 1] if which == FIRST else np.arange(rows - 1)
    people = sl.Table({"row": np.empty(0)}, schema=[sl.Number("row")], name="people")
    prepared = []
    for chosen in (np.arange(rows), keep):
        try:
            MODELS[name](_Session(people, budget=sl.ApproxDP(1000, "1/10"), seed=1)).fit(x[chosen], y[chosen])
        except CapturedError as captured:
            prepared.append(prepare_query(captured.query, people.schema))
    first, second = prepared
    found = compare(first, people, people, seed=f"{name} {seed}", other=second, pairs=which == LAST)
    return first.request["kind"], found


class Found:
    """What all pairs of all cases showed."""

    def __init__(self) -> None:
        self.pairs = 0
        self.wrong: list[str] = []
        self.largest: dict[str, float] = {}
        self.not_replayed: dict[str, str] = {}

    def add(self, name: str, trial: Callable[[], tuple[str, Compared]]) -> None:
        """Count a pair; a case is not replayed if one of its pairs is not."""
        try:
            kind, found = trial()
        except NotReplayedError as error:
            if str(error) != COINS:
                self.not_replayed[name] = str(error)
            return
        self.pairs += 1
        self.largest[kind] = max(found.largest, self.largest.get(kind, 0.0))
        self.wrong += [f"{name}: {each}" for each in found.wrong]


def kind_of(name: str, query: Any, schema: Any) -> str:
    """Return the kind of the registry: plans say it, other cases by their request."""
    if name.startswith("plan: "):
        return name.removeprefix("plan: ")
    kind = str(prepare_query(query, schema).request["kind"])
    return "quantiles" if kind == "group_quantiles" else kind


def hunt(folder: Path, pairs: list[dict[str, Any]]) -> Found:
    """Replay every case on every pair of neighbours."""
    found = Found()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SidelightWarning)
        for name, query, table in (*plan_cases(folder), *query_cases()):
            rows = table if isinstance(table, sl.Table) else sl.Table(np.asarray(table), schema=[query.declare()])
            kind = kind_of(name, query, rows.schema)
            more = [{**pairs[0], **MORE[kind]}] if kind in MORE else []
            for pair in (*pairs, *more):
                found.add(name, lambda: (kind, replayed_query(name, query, rows, **pair)))  # noqa: B023  # called at once
            if (
                type(query).__module__.startswith(("sidelight.stability", "sidelight.published"))
                and name + ALL in SLOW_TO_PASS
            ):
                pair = {**pairs[0], "rows": 10**6}
                found.add(name + ALL, lambda: (kind, replayed_query(name, query, rows, **pair)))  # noqa: B023
        for name in MODELS:
            for pair in pairs:
                found.add(name, lambda: replayed_model(name, **pair))  # noqa: B023
    return found


def judge(found: Found) -> None:
    """Fail on anything wrong, and on a kind or a case that is neither replayed nor listed."""
    assert not found.wrong, "\n".join(found.wrong)
    passed = {name for name in found.not_replayed if name + ALL in CASES_NOT_REPLAYED}  # its test, on fewer rows, too
    assert {name: why for name, why in found.not_replayed.items() if name not in passed} == CASES_NOT_REPLAYED
    kinds = {entry.kind for entry in ENTRIES}
    covered = set(found.largest)
    assert not covered & set(KINDS_NOT_REPLAYED), "listed as not replayed, but replayed"
    listed = set(KINDS_NOT_REPLAYED) | set(OF_DAYS)
    assert covered | listed == kinds, f"neither replayed nor listed: {kinds - covered - listed}"
    dull = {kind: largest for kind, largest in found.largest.items() if largest < 0.9}
    assert not dull, f"no pair shows how far one unit moves: {dull}"


def test_equal_answers_hide_a_row_in_every_kind(tmp_path: Path) -> None:
    judge(hunt(tmp_path, [{"rows": 61, "which": LAST, "ends": "upper", "seed": "1"}]))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_equal_answers_hide_a_row_on_many_pairs(tmp_path: Path, record_property: Any) -> None:
    """On three sizes, both ends, both places and several seeds."""
    pairs = [
        {"rows": rows, "which": which, "ends": ends, "seed": str(seed)}
        for seed, (rows, which, ends) in enumerate(
            [(61, LAST, "upper"), (61, FIRST, ""), (61, FIRST, "lower"), (401, FIRST, "upper"), (3, LAST, "lower")]
        )
    ]
    found = hunt(tmp_path, pairs)
    record_property(
        "audit",
        f"replay on neighbours: {found.pairs} pairs, {len(found.largest)} kinds; {len(found.wrong)} moved too far",
    )
    judge(found)


@pytest.mark.parametrize("levels", [(0.25, 0.5, 0.75), sl.quantiles.even_levels(19)], ids=["few", "many"])
@pytest.mark.parametrize("changed", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", OF_DAYS)
@pytest.mark.filterwarnings("ignore::sidelight.errors.SidelightWarning")
def test_equal_answers_hide_a_row_of_a_day(kind: str, levels: Any, changed: int, tmp_path: Path) -> None:
    """Days that learn from what earlier ones counted: a row of one day is hidden on all that follow."""
    kinds: set[str] = set()

    def release(neighbour: bool) -> list[Any]:
        query = sl.Quantiles(levels, epsilon="1/2", column="value")
        schema = [sl.Number("value", granularity="1/32")]
        learner, budget = OF_DAYS[kind]
        released = []
        with open_ledger(tmp_path / f"{neighbour}.db", testing=True) as ledger:
            rest: dict[str, Any] = {"schema": schema, "ledger": ledger, "scope": "days", "budget": budget}
            sequence = SeededSequence(query, learner, seed=1, **rest)
            for place in range(3):
                values = 40 + 4 * place + np.random.default_rng(place).integers(-512, 512, 61) / 32
                values = values[:-1] if neighbour and place == changed else values
                day = datetime.date(2026, 1, 1) + datetime.timedelta(place)
                outcome = sequence.release({"value": values}, day=day)
                kinds.add(outcome.query["kind"])
                released.append(outcome.value)
        return released

    found = compare_sessions(release, seed=f"days {changed}")
    assert kind in kinds
    assert found.wrong == ()
    assert found.largest == pytest.approx(1)


# --- planted bugs -----------------------------------------------------------------------------------------------------

PEOPLE = sl.Table(
    {"age": np.arange(31.0) * 3, "job": np.array(["a", "b", "c"] * 10 + ["c"], object), "b": np.arange(31.0)},
    schema=[
        sl.Number("age", lower=0, upper=100, granularity=1),
        sl.Category("job", ["a", "b", "c"]),
        sl.Number("b", lower=0, upper=40),
    ],
)
QUERIES = {
    "count": sl.Count(by="job", epsilon=1),
    "mean": sl.Mean("age", by="job", epsilon=1),
    "mean in rho": sl.Mean("age", by="job", rho=1),
    "top": sl.TopK("job", k=2, route="peeling", epsilon=1),
    "covariance": sl.Covariance(["age", "b"], radius=50, rho=1),
    "ridge": sl.AdaSSP(features=["age"], target="b", feature_norm=50, rho=1),
    "synthetic table": sl.SyntheticTable(sl.marginals(2), columns=["job", "age"], bins={"age": 4}, rho=1),
}


def planted(name: str) -> Compared:
    return replayed_query(name, QUERIES[name], PEOPLE, rows=31, which=LAST, ends="upper", seed="1")


@pytest.mark.planted("a sensitivity of half of what it is", of=("Count", "Mean", "TopK", "Covariance", "AdaSSP"))
@pytest.mark.parametrize("name", QUERIES)
def test_half_a_sensitivity_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert planted(name).wrong == ()
    made = Bounded.__post_init__

    def halved(self: Bounded) -> None:
        object.__setattr__(self, "sensitivity", self.sensitivity / 2)
        made(self)

    corners = SeveralGaussians.__post_init__

    def quartered(self: SeveralGaussians) -> None:  # squares
        object.__setattr__(self, "corners", tuple(tuple(each / 4 for each in corner) for corner in self.corners))
        corners(self)

    monkeypatch.setattr(Bounded, "__post_init__", halved)
    monkeypatch.setattr(SeveralGaussians, "__post_init__", quartered)
    found = planted(name)
    assert found.largest > 1.5
    assert any("of its sensitivity" in each for each in found.wrong)


@pytest.mark.planted("a number that meets no noise", of=("Count",))
def test_a_number_without_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run = PreparedCounts.run

    def told(self: Any, table: Any, source: Any) -> Any:
        answer = run(self, table, source)
        return replace(answer, labels=(str(size_of(table)),))

    monkeypatch.setattr(PreparedCounts, "run", told)
    assert planted("count").wrong == ("equal answers of the mechanisms, but another release",)


@pytest.mark.planted("a draw that some rows alone cause", of=("Count",))
def test_a_draw_that_depends_on_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run = PreparedCounts.run

    def again(self: Any, table: Any, source: Any) -> Any:
        if size_of(table) % 2:
            run(self, table, source)
        return run(self, table, source)

    monkeypatch.setattr(PreparedCounts, "run", again)
    assert planted("count").wrong == ("2 draws became 1",)


@pytest.mark.planted("one row in two groups", of=("Mean",))
def test_a_row_that_moves_two_groups_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def two(self: Any, table: Any, source: Any) -> Any:
        size = size_of(table)
        partition = source.partition()
        for group in range(2):
            with source.over(partition=partition, group=group):
                LaplaceNoise(Bounded(size, Fraction(1), "l1", Neighbours.ADD_REMOVE, Row()), epsilon=1).release(source)
        return Answer(value=np.zeros(3))

    monkeypatch.setattr(PreparedCounts, "run", two)
    assert any("2 groups of a partition" in each for each in planted("count").wrong)
