"""A sequence that learns privately: what each day is charged, and that nothing is resumed, replayed or paid twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from daily_fixtures import *  # noqa: F403 - fixtures
from daily_fixtures import Make, day, minutes, today

import sidelight as sl
from probes import Unreadable
from sidelight.accounting import worst_case_branch
from sidelight.errors import BudgetError, ClaimError, LedgerError, RangeError, ReleaseFailedError, SidelightError
from sidelight.ledger import Ledger
from sidelight.quantiles import PrivateHistograms
from sidelight.quantiles.sequence import sequence as module
from sidelight.report import Item, Report, write_report

RHO = "0.01"
ONE = PrivateHistograms(0, 40, rho=RHO, bins=8)
LONG = PrivateHistograms(0, 40, rho=RHO, bins=8, run_days=10)
BUDGET = sl.ApproxDP(4, "1e-6")


def run(sequence: Any, days: range) -> list[Any]:
    return [sequence.release(today(t), day=day(t)) for t in days]


def private(make: Make, learner: PrivateHistograms = ONE, **rest: Any) -> Any:
    return make(learner, budget=rest.pop("budget", BUDGET), **rest)


def state_of(sequence: Any) -> bytes:
    return Path(sequence.state_file).read_bytes()


def variance(release: Any) -> float:
    return float(release.value["gradient_variance"])


def test_a_day_costs_its_quantiles_and_its_gradient(make: Make, ledger: Ledger) -> None:
    sequence = private(make, days_per_person=3)
    (release,) = run(sequence, range(1))
    plan = sequence.plan
    expected = worst_case_branch([[plan.bare.claims, plan.gradients.claims]])
    assert release.guarantee == expected == plan.claims
    assert plan.gradients.claims.zcdp().rho <= sl.ZCDP(RHO).rho
    assert release.guarantee.pure() is None
    (entry,) = ledger.entries()
    assert entry.request["kind"] == "learned_quantiles"
    assert entry.request["learner"]["rho"] == RHO
    assert float(sequence.spent.zcdp.total) == pytest.approx(3 * float(expected.zcdp().rho), rel=1e-9)  # type: ignore[union-attr]


def test_the_budget_ends_and_the_refusal_changes_nothing(make: Make, ledger: Ledger) -> None:
    sequence = private(make, budget=sl.ZCDP("0.13"))  # a day costs 0.01 + 2 * 0.25**2 / 8
    for t in range(5):
        sequence.release(today(t), day=day(t))
    head, state = ledger.head(), state_of(sequence)
    with pytest.raises(BudgetError):
        run(sequence, range(5, 6))
    assert (ledger.head(), state_of(sequence)) == (head, state)


def test_no_pure_budget_pays_for_it_and_nothing_is_written(make: Make, ledger: Ledger) -> None:
    head = ledger.head()
    with pytest.raises(ClaimError, match="ApproxDP"):
        private(make, budget=sl.PureDP(9))
    assert ledger.head() == head


@pytest.mark.parametrize("learner", [ONE, LONG], ids=["a process a day", "a run of days"])
def test_the_state_is_what_was_released_and_the_ledger_gives_it_back(make: Make, learner: PrivateHistograms) -> None:
    sequence = private(make, learner)
    releases = run(sequence, range(4))
    written = state_of(sequence)
    content = json.loads(written)["learner"]
    assert sorted(content) == ["days", "sums", "variance"]
    total = sum(release.value["gradient"] for release in releases)
    assert [float.fromhex(text) for text in content["sums"]] == pytest.approx(total.ravel(), rel=1e-12)
    Path(sequence.state_file).unlink()
    again = private(make, learner)
    assert again.predict() == sequence.predict()
    again.rebuild()
    assert state_of(again) == written


def test_a_run_goes_on_in_its_process_and_never_in_another(make: Make) -> None:
    """The first day of a run has the whole noise of a row, a later one adds a quarter of it and less to the sum."""
    sequence = private(make, LONG)
    first, second = run(sequence, range(2))
    assert variance(second) == pytest.approx(variance(first) / 4)
    (restarted,) = run(private(make, LONG), range(2, 3))  # a new process reads the state and starts a new run
    assert variance(restarted) == variance(first)
    (third,) = run(sequence, range(3, 4))  # the old one goes on with its own run
    assert variance(third) == pytest.approx(variance(first) * (3 / 8) ** 2)
    assert not any("run" in name for name in json.loads(state_of(sequence)))


def test_a_forked_process_starts_its_own_run(make: Make) -> None:
    sequence = private(make, LONG)
    first, second = run(sequence, range(2))
    sequence._run._pid += 1  # what a child finds
    (forked,) = run(sequence, range(2, 3))
    assert variance(forked) == variance(first)
    assert variance(second) < variance(first)


def test_a_run_ends_after_its_days(make: Make) -> None:
    sequence = private(make, PrivateHistograms(0, 40, rho=RHO, bins=8, run_days=2))
    variances = [variance(each) for each in run(sequence, range(4))]
    assert variances[0] == variances[2] > variances[1] == variances[3]


def test_two_days_at_once_never_share_a_run(make: Make) -> None:
    sequence = private(make, LONG)
    run(sequence, range(1))
    one, other = sequence._step(), sequence._step()  # as two threads would take them
    assert one.run is not other.run
    assert (one.run.step, other.run.step) == (1, 0)


def test_a_failed_day_is_paid_leaves_its_run_and_pays_again(make: Make, ledger: Ledger, monkeypatch: Any) -> None:
    sequence = private(make, LONG)
    first, _ = run(sequence, range(2))
    before = state_of(sequence)

    def lose(*args: Any, **rest: Any) -> None:
        raise LedgerError("the disk is full")

    with monkeypatch.context() as patch:  # the gradient was taken, and its outcome cannot be written
        patch.setattr("sidelight.ledger.scope.Reservation.release", lose)
        with pytest.raises(LedgerError):
            run(sequence, range(2, 3))
    assert state_of(sequence) == before
    assert sequence._run is None  # the run that counted the lost day is gone
    again = sequence.release(today(2), day=day(2), resume=True)
    assert variance(again) == variance(first)
    assert [entry.attempt for entry in ledger.entries()] == [1, 1, 1, 2]
    charged = [entry.state for entry in ledger.entries()]
    assert charged.count("released") == 3
    assert sequence.days == 3


def test_an_error_inside_the_release_is_charged_and_leaves_the_run(make: Make, ledger: Ledger) -> None:
    sequence = private(make, LONG)
    run(sequence, range(1))
    broken = Unreadable(today(1), schema=list(sequence.plan.schema.columns))
    with pytest.raises((AttributeError, ReleaseFailedError)):
        sequence.release(broken, day=day(1))
    assert sequence._run is None
    assert [entry.state for entry in ledger.entries()] == ["released", "failed"]


def test_a_day_that_was_released_comes_back_without_a_step(make: Make, ledger: Ledger) -> None:
    sequence = private(make, LONG)
    *_, last = run(sequence, range(3))
    head, steps = ledger.head(), sequence._run.step
    assert run(sequence, range(2, 3)) == [last]
    assert (ledger.head(), sequence._run.step) == (head, steps)
    with pytest.raises(RangeError, match="uses none"):
        sequence.release(today(3), day=day(3), features=[1.0])


def test_a_crash_before_the_state_is_written_is_healed(make: Make, monkeypatch: Any) -> None:
    run(private(make), range(2))

    def crash(*args: Any, **rest: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_state", crash)
        with pytest.raises(KeyboardInterrupt):
            run(private(make), range(2, 3))
    healed = private(make)
    assert healed.days == 3
    assert healed._state.learned.days == 3


def test_writers_side_by_side_end_with_one_state(make: Make) -> None:
    one, other = private(make, LONG), private(make, LONG)
    run(one, range(1))
    run(other, range(1, 2))
    run(one, range(2, 3))
    assert one.predict() == other.predict() == private(make, LONG).predict()


def test_another_rho_is_another_plan(make: Make) -> None:
    run(private(make), range(1))
    with pytest.raises(LedgerError, match="another plan"):
        private(make, PrivateHistograms(0, 40, rho="0.02", bins=8))


def test_it_learns_where_the_quantiles_lie(make: Make) -> None:
    """With a large budget a dozen days are enough: the bins of the quartiles are the heaviest."""
    learner = PrivateHistograms(0, 40, rho=1000, bins=8, run_days=12, floor_weight="0.1", boldness=4)
    sequence = private(make, learner, budget=sl.ZCDP(10**6))
    assert np.allclose(learner.masses(sequence._state.learned), 1 / 8)
    run(sequence, range(12))
    masses = learner.masses(sequence._state.learned)
    assert (masses >= 0.1 / 8 * (1 - 1e-9)).all()
    pooled = np.quantile(np.concatenate([minutes(t) for t in range(12)]), [0.25, 0.5, 0.75])
    assert masses.argmax(axis=1).tolist() == [int(value // 5) for value in pooled]
    prior = sequence.predict()[1]
    assert prior.weights == (0.9, 0.1)
    assert prior.priors[0].origin.kind == "released"


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e-13, 1e12, 2.0**62, 1e150, 1e300, 1.7e308, 10**400], ids=str)
def test_numbers_of_any_size_are_released_or_refused_before_the_charge(make: Make, ledger: Ledger, size: Any) -> None:
    cases: list[dict[str, Any]] = [{"lower": -size}, {"lower": 0, "upper": size}, {"lower": size, "upper": 2 * size}]
    cases += [{"rho": size}, {"floor_weight": size}, {"boldness": size}]
    for place, case in enumerate(cases):
        given = {"lower": 0, "upper": 40, "rho": "0.01", "bins": 8, **case}
        try:
            sequence = make(PrivateHistograms(**given), budget=sl.ZCDP(10**9), scope=f"case {place}")
            with np.errstate(over="ignore"):  # of a robust prior that is 1e-300 wide
                run(sequence, range(2))
        except SidelightError as error:
            assert not isinstance(error, ReleaseFailedError)  # noqa: PT017
    assert {entry.state for entry in ledger.entries()} <= {"released"}


def test_the_page_of_a_day_shows_its_quantiles(make: Make, tmp_path: Path) -> None:
    (release,) = run(private(make), range(1))
    assert "  50 %: " in str(release)
    item = Item(title="a day", outcome=release)
    page = write_report(Report(title="days", day="2025-11-01", items=(item,)), tmp_path / "report.html").read_text()
    assert "<svg" in page
    assert page.index("50 %") < page.index("gradient")
    assert sl.Release.from_json(release.to_json()) == release
