"""A sequence day by day: order, repeats, features, the learner's inputs, the ledger's entries."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest
from daily_fixtures import *  # noqa: F403 - fixtures
from daily_fixtures import SCHEMA, Make, day, features, minutes, today

import sidelight as sl
from sidelight.errors import LedgerError, RangeError, SchemaError
from sidelight.ledger import Ledger
from sidelight.predictions import Laplace, Mixture
from sidelight.quantiles import PubPrev, PubProx, Sequence, nonprivate_gap


def test_a_week_of_releases(make: Make, ledger: Ledger) -> None:
    sequence = make()
    for t in range(7):
        release = sequence.release(today(t), day=day(t), features=features(t))
        assert isinstance(release, sl.Release)
        assert release.query["sequence"]["day"] == day(t).isoformat()
        assert not release.private  # seeded
    assert (sequence.days, sequence.last_day) == (7, day(6))
    assert len(ledger.entries(scope_id="trips")) == 7
    assert ledger.verify().ok


def test_the_prediction_comes_from_earlier_releases_and_names_their_entries(make: Make) -> None:
    sequence = make(PubPrev(8, 2))
    first = sequence.release(today(0), day=day(0))
    second = sequence.release(today(1), day=day(1))
    assert isinstance(first, sl.Release)
    assert isinstance(second, sl.Release)
    assert first.prediction is not None
    assert second.prediction is not None
    assert first.prediction["origin"]["kind"] == "guess"
    assert second.prediction["origin"]["kind"] == "released"
    assert second.prediction["origin"]["entries"] == [first.circumstances.entry_id]
    used = [prior["priors"][0]["location"] for prior in second.prediction["priors"]]
    assert [float(text) for text in used] == sorted(set(first.value.tolist()))
    third = sequence.predict()
    assert all(isinstance(prior, Mixture) and isinstance(prior.priors[0], Laplace) for prior in third)


def test_predictions_get_better(make: Make) -> None:
    sequence = make(epsilon="0.2")
    for t in range(40):
        sequence.release(today(t), day=day(t), features=features(t))
    levels = [0.25, 0.5, 0.75]
    later = [(minutes(t, 2000), features(t)) for t in (104, 105)]  # a Friday and a Saturday of the same law

    def error(values: np.ndarray, locations: list[float]) -> float:
        return float(nonprivate_gap(values, levels, sorted(locations)).mean()) / len(values)

    for values, given in later:
        learned = [prior.priors[0].location for prior in sequence.predict(given)]  # type: ignore[attr-defined]
        assert error(values, learned) < 0.5 * error(values, [8.0, 8.0, 8.0])


class Forbidden:
    """Anything that touches this has read the records."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("__class__", "__getattribute__"):
            return object.__getattribute__(self, name)
        raise AssertionError(f"the records were touched: {name}")

    def __array__(self, *args: Any, **rest: Any) -> Any:
        raise AssertionError("the records were touched")

    def __iter__(self) -> Any:
        raise AssertionError("the records were touched")

    def __len__(self) -> int:
        raise AssertionError("the records were touched")


def test_the_learner_never_reads_the_records(make: Make) -> None:
    """The state after a day is a function of its release: another data set with the same release gives the same."""
    sequence = make()
    sequence.release(today(0), day=day(0), features=features(0))
    assert sequence.release(Forbidden(), day=day(0), features=features(0)) is not None  # a stored day opens nothing
    with pytest.raises(RangeError):
        sequence.release(Forbidden(), day=day(1), features=[1.0])  # nor does a request that is refused
    with pytest.raises(RangeError):
        sequence.release(Forbidden(), day=day(-1), features=features(0))
    before = sequence.predict(features(1))
    sequence.rebuild()  # from the ledger alone, where no record is
    assert sequence.predict(features(1)) == before


def test_days_come_in_order(make: Make, ledger: Ledger) -> None:
    sequence = make()
    sequence.release(today(3), day=day(3), features=features(3))
    head, written = ledger.head(), sequence.state_file.read_bytes()  # type: ignore[union-attr]
    with pytest.raises(RangeError, match="days must come in order: 2025-11-04 was released, 2025-11-02"):
        sequence.release(today(1), day=day(1), features=features(1))
    assert ledger.head() == head
    assert sequence.state_file.read_bytes() == written  # type: ignore[union-attr]
    sequence.release(today(9), day=day(9), features=features(9))  # gaps are fine


def test_a_repeated_day_is_free_if_it_is_the_same(make: Make, ledger: Ledger) -> None:
    sequence = make()
    first = [sequence.release(today(t), day=day(t), features=features(t)) for t in range(3)]
    head = ledger.head()
    for t in range(3):
        assert sequence.release(today(t), day=day(t).isoformat(), features=features(t)) == first[t]
        assert make().release(today(t), day=day(t), features=features(t)) == first[t]
    with pytest.raises(RangeError, match="other features"):
        sequence.release(today(1), day=day(1), features=[0.5, 1.0])
    assert ledger.head() == head


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"features": [1.0]}, "2 features a day, got 1"),
        ({"features": [1.0, 2.0, 3.0]}, "2 features a day, got 3"),
        ({"features": [1.0, float("nan")]}, "finite"),
        ({"features": ["a", "b"]}, "numbers"),
        ({"day": "tomorrow"}, "day must be a date"),
        ({"day": 20251101}, "day must be a date"),
    ],
    ids=["too few", "too many", "nan", "words", "no date", "a number"],
)
def test_wrong_requests_change_nothing(make: Make, ledger: Ledger, wrong: dict[str, Any], match: str) -> None:
    sequence = make()
    sequence.release(today(0), day=day(0), features=features(0))
    head, written = ledger.head(), sequence.state_file.read_bytes()  # type: ignore[union-attr]
    with pytest.raises(RangeError, match=match):
        sequence.release(Forbidden(), **{"day": day(1), "features": features(1), **wrong})
    assert ledger.head() == head
    assert sequence.state_file.read_bytes() == written  # type: ignore[union-attr]


def test_previous_takes_no_features(make: Make) -> None:
    with pytest.raises(RangeError, match="PubPrev uses none"):
        make(PubPrev(8, 2)).release(today(0), day=day(0), features=[1.0])


def test_a_table_must_have_the_schema(make: Make) -> None:
    sequence = make()
    table = sl.Table(today(0), schema=SCHEMA, name="a day")
    assert sequence.release(table, day=day(0), features=features(0)) is not None
    other = sl.Table(today(1), schema=[sl.Number("minutes", lower=0, granularity=1)])
    with pytest.raises(SchemaError, match="schema"):
        sequence.release(other, day=day(1), features=features(1))


@pytest.mark.parametrize(
    "moment",
    [
        datetime.datetime(2025, 11, 1, 23, 59),
        datetime.datetime(2025, 11, 1, 23, 59, tzinfo=datetime.UTC),
        datetime.datetime(2025, 11, 2, 1, 59, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
    ],
    ids=["naive", "utc", "the same moment elsewhere"],
)
def test_a_moment_is_no_day(make: Make, moment: datetime.datetime) -> None:
    """One moment was two days, by its time zone, and its records were released twice for the price of one."""
    sequence = make()
    with pytest.raises(RangeError, match="time zone"):
        sequence.release(today(0), day=moment, features=features(0))
    assert sequence.last_day is None


def test_a_day_that_has_not_begun_bars_none(make: Make) -> None:
    sequence = make()
    tomorrow = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=2)
    for far in (tomorrow, datetime.date(2205, 11, 1), "9999-12-31"):
        with pytest.raises(RangeError, match="has not begun"):
            sequence.release(today(0), day=far, features=features(0))
    sequence.release(today(0), day=day(0), features=features(0))
    assert sequence.last_day == day(0)


def test_a_query_with_a_prediction_and_a_stranger_as_learner_are_refused(ledger: Ledger) -> None:
    query = sl.Quantiles([0.5], column="minutes", epsilon=1, prediction=sl.priors.Cauchy(8, 2))
    arguments: dict[str, Any] = {"schema": SCHEMA, "budget": sl.PureDP(9), "ledger": ledger, "scope": "x"}
    with pytest.raises(RangeError, match="leave prediction out"):
        sl.Sequence(query, PubPrev(8, 2), **arguments)
    with pytest.raises(RangeError, match="learner must be"):
        sl.Sequence(sl.Quantiles([0.5], column="minutes", epsilon=1), sl.priors.Cauchy(8, 2), **arguments)  # type: ignore[arg-type]
    assert ledger.scopes() == []


def test_the_production_class_draws_real_noise(tmp_path: Any) -> None:
    sequence = sl.Sequence(
        sl.Quantiles([0.5], column="minutes", epsilon=1),
        PubProx(8, 2, plausible=(0, 120)),
        schema=SCHEMA,
        budget=sl.PureDP(2),
        ledger=f"sqlite:///{tmp_path / 'real.db'}",
        scope="trips",
    )
    release = sequence.release(today(0), day=day(0))
    assert release.private
    assert (tmp_path / "real.db.trips.state.json").exists()


def test_seeded_sequences_stay_off_real_ledgers(tmp_path: Any) -> None:
    from sidelight.ledger import open_ledger
    from sidelight.testing import SeededSequence

    with open_ledger(tmp_path / "real.db") as real, pytest.raises(LedgerError, match="not private"):
        SeededSequence(
            sl.Quantiles([0.5], column="minutes", epsilon=1),
            PubPrev(1, 1),
            seed=1,
            ledger=real,
            schema=SCHEMA,
            budget=sl.PureDP(2),
            scope="x",
        )


def test_real_sequences_stay_off_ledgers_for_tests(ledger: Ledger) -> None:
    query = sl.Quantiles([0.5], column="minutes", epsilon=1)
    with pytest.raises(LedgerError, match="for tests"):
        sl.Sequence(query, PubPrev(1, 1), schema=SCHEMA, budget=sl.PureDP(2), ledger=ledger, scope="x")


@pytest.mark.parametrize("some", [{"by": "town"}, {"where": "minutes < 20"}, {"by": "town", "where": "minutes < 20"}])
def test_days_of_groups_and_of_some_rows_are_refused(ledger: Ledger, some: dict[str, Any]) -> None:
    """Refusal of groups, because a day reads all rows and would not enforce group caps."""
    schema = [*SCHEMA, sl.Category("town", ["a", "b"])]
    query = sl.Quantiles([0.5], column="minutes", epsilon="0.1", **some)
    with pytest.raises(RangeError, match="leave by and where out"):
        Sequence(query, PubPrev(8, 2), ledger=ledger, scope="trips", schema=schema, budget=sl.PureDP(9))
