"""`tune`: models fitted to arrays, searched honestly."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from sidelight.errors import ClaimError, RangeError, StrictError
from sidelight.guarantees import GDP, Claims, PureDP
from sidelight.noise import Source, standard_normal
from sidelight.published.adassp import LinearFit, adassp
from sidelight.testing import SeededEntropy
from sidelight.tuning import Fit, ModelScore, Poisson, geometric, selection_claims, tune

RNG = np.random.default_rng(0)
ROWS = RNG.uniform(-0.5, 0.5, size=(2000, 2))
TARGET = ROWS @ np.array([1.0, -1.0])
PUBLIC = RNG.uniform(-0.5, 0.5, size=(50, 2))
PUBLIC_TARGET = PUBLIC @ np.array([1.0, -1.0])


def ridge(penalty: float, mu: str = "0.5") -> Fit[LinearFit]:
    rows, target = ROWS, TARGET

    def run(source: Source) -> LinearFit:
        return adassp((rows, target), feature_norm=1, target_bounds=(-1, 1), mu=mu, penalty=penalty, source=source)

    return Fit(run=run, claims=Claims.of(GDP(mu)), name=f"penalty {penalty}")


def public_error(model: LinearFit) -> float:
    return -float(np.mean((model.predict(PUBLIC) - PUBLIC_TARGET) ** 2))


SCORE = ModelScore(function=public_error, description="error on public rows")


def test_the_better_penalty_wins_and_the_search_is_priced() -> None:
    wins = []
    for seed in range(12):
        tuned = tune([ridge(0), ridge(1e6)], score=SCORE, delta="1e-6", entropy=SeededEntropy(seed))
        assert tuned is not None
        wins.append(tuned.candidate)
        assert tuned.claims == selection_claims(Claims.of(GDP("0.5")), geometric(15), delta="1e-6")
    assert sum(wins) <= 3


def test_nothing_that_a_fit_says_counts_the_fits(capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings of threads that a fit starts are lost, too, and those before and after it are not."""

    def run(source: Source) -> float:
        print("a fit")
        warnings.warn("a fit", stacklevel=1)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(warnings.warn, "a fit in a thread").result()
        return 1.0

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        filters = list(warnings.filters)
        assert tune([Fit(run=run, claims=Claims.of(PureDP(1)))], score=ModelScore(function=float, description="none"))
        assert warnings.filters == filters
        warnings.warn("mine", stacklevel=1)
    assert [str(each.message) for each in said] == ["mine"]
    assert "a fit" not in "".join(capsys.readouterr())


def test_two_searches_at_once_say_nothing_and_the_program_is_heard_afterwards(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The second begins while the first runs, and ends after it: its lines, too, would count its runs."""
    first_began, second_began, first_ended = threading.Event(), threading.Event(), threading.Event()

    def first(source: Source) -> float:
        first_began.set()
        assert second_began.wait(10)
        return 1.0

    def second(source: Source) -> float:
        second_began.set()
        assert first_ended.wait(10)
        print("a fit")
        return 1.0

    def search(run: Callable[[Source], float]) -> None:
        assert tune([Fit(run=run, claims=Claims.of(PureDP(1)))], score=ModelScore(function=float, description="none"))

    threads = [threading.Thread(target=search, args=[run]) for run in (first, second)]
    threads[0].start()
    assert first_began.wait(10)
    threads[1].start()
    threads[0].join(10)
    first_ended.set()
    threads[1].join(10)
    print("an answer")
    assert capsys.readouterr().out == "an answer\n"


def test_no_run_at_all_gives_none() -> None:
    outcomes = [
        tune([ridge(0)], score=SCORE, runs=Poisson("0.1"), delta="1e-6", entropy=SeededEntropy(s)) for s in range(9)
    ]
    assert None in outcomes


def test_a_score_on_the_rows_of_the_fits_is_refused() -> None:
    rows, part = ROWS, ROWS[100:200]
    for held in (rows, part):

        def peek(model: Any, held: np.ndarray = held) -> float:
            return float(held.sum())

        with pytest.raises(RangeError, match="private rows"):
            tune([ridge(0)], score=ModelScore(function=peek, description="peek"), delta="1e-6")


def test_refusals() -> None:
    with pytest.raises(ClaimError, match="same claims"):
        tune([ridge(0), ridge(0, mu="0.6")], score=SCORE, delta="1e-6")
    with pytest.raises(RangeError, match="at least one"):
        tune([], score=SCORE)
    with pytest.raises(RangeError, match="say what"):
        ModelScore(function=public_error, description="")


@pytest.mark.planted("exact numerics claimed of floats", of=("Selection",))
def test_a_fit_that_claims_exact_numerics_and_draws_floats_is_caught() -> None:
    wrong = Fit(run=lambda source: float(standard_normal(1, source)[0]), claims=Claims.of(PureDP(1)))
    with pytest.raises(StrictError):
        tune([wrong], score=ModelScore(function=float, description="itself"))
