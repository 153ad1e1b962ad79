"""Priors are data: whatever could run code of a user's where records are is refused before any data is opened."""

import time
from decimal import Decimal
from fractions import Fraction
from unittest.mock import Mock

import numpy as np
import pytest

import sidelight as sl
from ranks_of_codes import ranks_of_codes
from sidelight.covariance.matrices import PredictedMatrix
from sidelight.errors import RangeError
from sidelight.mechanisms.rank_selection import select_rank
from sidelight.noise import Source
from sidelight.predictions import Cauchy, Histogram, Laplace, Mixture, PowerLaw, own_prior, prior_from_json
from sidelight.predictions.mixture import LAWS
from sidelight.predictions.origin import Origin
from sidelight.testing import SeededEntropy, seeded_release

SEEN: list[object] = []
TABLE = sl.Table(
    {"a": [1234.5, 7.0, 8.0], "g": ["x", "y", "x"]},
    schema=[sl.Number("a", lower=0, upper=2000), sl.Category("g", ["x", "y"])],
)


class SpyMasses:
    """What a spying prior compiles to: it answers as the usual one does, and keeps every question."""

    def __init__(self, masses):
        self.masses = masses

    def __getattr__(self, name):
        return getattr(self.masses, name)

    def cumulative(self, index):
        SEEN.append(index)
        return self.masses.cumulative(index)

    def fresh(self):
        return self


class SpySubclass(Cauchy):
    """A subclass of a law with a method of its own."""

    def compile(self, grid):
        return SpyMasses(super().compile(grid))


class SpyObject:
    """An object with all methods of a prior, of no known class."""

    def __init__(self):
        self.law = Cauchy(40, 10)

    @property
    def origin(self):
        return self.law.origin

    @property
    def needs_hedge(self):
        return False

    def compile(self, grid):
        return SpyMasses(self.law.compile(grid))

    def piecewise_cdfs(self, grid, weight):
        return self.law.piecewise_cdfs(grid, weight)

    def log_mass(self, lower, upper):
        return self.law.log_mass(lower, upper)

    def inverse_in(self, lower, upper, v):
        return self.law.inverse_in(lower, upper, v)

    def cdf(self, x):
        return self.law.cdf(x)

    def sf(self, x):
        return self.law.sf(x)

    def to_json(self):
        return self.law.to_json()


def _changed_mixture(spy):
    """Return a mixture whose parts were changed after it was made and checked."""
    made = Mixture([0.5, 0.5], [Cauchy(0, 1), Cauchy(1, 1)])
    object.__setattr__(made, "priors", (Cauchy(0, 1), spy))
    return made


SPIES = {
    "subclass": lambda: SpySubclass(40, 10),
    "object": SpyObject,
    "claims another class": lambda: Mock(spec=Cauchy),
    "part of a mixture": lambda: _changed_mixture(SpyObject()),
    "deep in mixtures": lambda: _changed_mixture(_changed_mixture(SpySubclass(1, 1))),
}

#: Every parameter that takes a prior.
PLACES = {
    "quantiles": lambda spy: sl.Quantiles([0.5], column="a", epsilon=1, prediction=spy).release(TABLE),
    "each level": lambda spy: sl.Quantiles([0.4, 0.5], column="a", epsilon=1, prediction=[Cauchy(1, 1), spy]),
    "by group": lambda spy: sl.Quantiles([0.5], column="a", epsilon=1, by="g", prediction={"x": spy}).release(TABLE),
    "one for all groups": lambda spy: sl.Quantiles([0.5], column="a", epsilon=1, by="g", prediction=spy).release(TABLE),
    "distribution": lambda spy: sl.Distribution("a", epsilon=1, prediction=spy).release(TABLE),
    "mean": lambda spy: sl.Mean("a", epsilon=1, prediction=spy, clip="private").release(TABLE),
    "several means": lambda spy: sl.Mean(["a"], epsilon=1, prediction={"a": spy}, clip="private").release(TABLE),
    "sum": lambda spy: sl.Sum("a", epsilon=1, prediction=spy, clip="private").release(TABLE),
    "variance": lambda spy: sl.Variance("a", epsilon=1, prediction=spy).release(TABLE),
    "summary": lambda spy: sl.Summary("a", epsilon=1, prediction=spy).release(TABLE),
    "histogram": lambda spy: sl.Histogram("a", epsilon=1, bins=spy).release(TABLE),
    "histogram of n bins": lambda spy: sl.Histogram("a", epsilon=1, bins=(spy, 4)).release(TABLE),
    "mixture": lambda spy: Mixture([0.5, 0.5], [Cauchy(1, 1), spy]),
    "hedge": lambda spy: sl.hedge(spy, with_=Cauchy(1, 1)),
    "fallback of a hedge": lambda spy: sl.hedge(Cauchy(1, 1), with_=spy),
    "tracked days": lambda spy: sl.PubTrack(prediction=spy),
    "tracked levels": lambda spy: sl.PubTrack(prediction=[Cauchy(1, 1), spy]),
    "previous day": lambda spy: sl.PubPrev(40.0, 10.0, fallback=spy),
    "fit to public data": lambda spy: sl.quantiles.fit_public(
        sl.PublicData(np.arange(50.0), "numbers"), levels=[0.5], size=10, fallback=spy
    ),
}


@pytest.mark.parametrize("spy", SPIES)
@pytest.mark.parametrize("place", PLACES)
def test_no_code_of_a_user_meets_a_record(place: str, spy: str) -> None:
    SEEN.clear()
    with pytest.raises(RangeError, match=r"priors|prior"):
        PLACES[place](SPIES[spy]())
    assert not SEEN


def test_the_spies_would_have_seen_something() -> None:
    """Where their masses were taken, the selection would ask them about records: so the test above can fail."""
    prepared = sl.Quantiles([0.5], column="a", epsilon=1).prepare(TABLE.schema)
    SEEN.clear()
    spied = SpySubclass(40, 10).compile(prepared.grid)
    ranks = ranks_of_codes(np.array([1234]), prepared.grid, None)
    with Source(SeededEntropy(1)) as source:
        select_rank(ranks, Fraction(1, 2), Fraction(1), spied, spied.first, spied.last, source)
    assert SEEN


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_a_query_keeps_a_copy_of_its_own(law: type) -> None:
    made = {
        "Uniform": lambda: law(0, 10),
        "HalfCauchy": lambda: law(5),
        "HistogramPrior": lambda: law([0, 1, 2], [1, 2]),
        "ScaleFree": lambda: law("0.5", "positive"),
        "Mixture": lambda: law([0.25, 0.75], [Laplace(1, 2), Cauchy(0, 3)], conditioned="parts"),
    }.get(law.__name__, lambda: law(3, 2))()
    kept = sl.Quantiles([0.5], epsilon=1, prediction=made).prediction
    assert kept == made
    assert kept is not made
    assert kept.to_json() == made.to_json()
    if law is Mixture:
        assert all(ours is not theirs for ours, theirs in zip(kept.priors, made.priors, strict=True))


def test_a_changed_law_is_checked_again() -> None:
    made = Cauchy(40, 10)
    object.__setattr__(made, "scale", -1.0)
    with pytest.raises(RangeError, match="positive"):
        own_prior(made)

    class Elsewhere(Origin):
        pass

    with pytest.raises(RangeError, match="origin"):
        own_prior(Cauchy(1, 1, origin=Elsewhere(kind="guess")))


def test_numbers_of_a_prior_are_plain() -> None:
    class Number(Fraction):
        """A number whose arithmetic is its own."""

    kept = sl.priors.ScaleFree(Number(1, 2)).resolution
    assert type(kept) is Fraction
    assert type(kept.numerator) is int
    assert type(Cauchy(np.float64(1), Number(3)).scale) is float


class SpyRows(sl.PublicData):
    """Public rows that would see the private array in `shares_memory_with`."""

    def shares_memory_with(self, array):
        SEEN.append(array)
        return False


class SpyMatrix(PredictedMatrix):
    """A predicted matrix with code of its own."""


class SpyCoefficients(sl.CoefficientPrediction):
    """Predicted coefficients with code of their own."""


class SpyPredicted(sl.Predicted):
    """A predicted table with code of its own."""


class SpyLearner(sl.PubPrev):
    """A learner with code of its own."""


ROWS = np.array([[0.1, 0.2], [0.3, 0.1], [0.2, 0.2]] * 20)
LABELS = np.array([0, 1, 1] * 20)
AB = [sl.Number("a", lower=-1, upper=1), sl.Number("b", lower=-1, upper=1)]
HOLDERS = {
    "rows of a model": lambda: sl.LogisticRegression(
        epsilon=1, delta=1e-6, data_norm=1, classes=[0, 1], prediction=SpyRows(ROWS, "numbers")
    ).fit(ROWS, LABELS),
    "pair of a model": lambda: sl.LogisticRegression(
        epsilon=1,
        delta=1e-6,
        data_norm=1,
        classes=[0, 1],
        prediction=(sl.PublicData(ROWS, "numbers"), SpyRows(LABELS, "numbers")),
    ).fit(ROWS, LABELS),
    "coefficients": lambda: sl.LogisticRegression(
        epsilon=1, delta=1e-6, data_norm=1, classes=[0, 1], prediction=SpyCoefficients([0.0, 0.0])
    ).fit(ROWS, LABELS),
    "matrix": lambda: sl.Covariance(["a", "b"], radius=1, rho=1, prediction=SpyMatrix(np.eye(2))),
    "list of matrices": lambda: sl.Covariance(
        ["a", "b"], radius=1, rho=1, prediction=[np.eye(2), SpyMatrix(np.eye(2))]
    ),
    "rows of a covariance": lambda: sl.Covariance(["a", "b"], radius=1, rho=1, prediction=SpyRows(ROWS, "numbers")),
    "rows of a Gaussian": lambda: sl.GaussianFit(["a", "b"], rho=1, prediction=SpyRows(ROWS, "numbers")).prepare(
        sl.Schema(AB)
    ),
    "table": lambda: sl.Count(by="g", epsilon=1, prediction=SpyPredicted({"x": 2})).release(TABLE),
    "public table": lambda: sl.Count(
        by="g", epsilon=1, prediction=SpyRows({"g": ["x"], "count": [1]}, "numbers")
    ).release(TABLE),
    "rows of quantiles": lambda: sl.quantiles.fit_public(SpyRows(np.arange(50.0), "numbers"), levels=[0.5], size=10),
    "rows of a scaler": lambda: sl.PublicScaler(prediction=SpyRows(ROWS, "numbers")).fit(ROWS),
    "rows of a synthetic table": lambda: sl.SyntheticTable(
        sl.marginals(1), columns=["g"], rho=1, prediction=SpyRows({"g": ["x", "y"]}, "numbers")
    ).prepare(TABLE.schema),
    "learner": lambda: sl.quantiles.sequence.plan.SequencePlan(
        query=sl.Quantiles([0.5], column="a", epsilon=1),
        schema=TABLE.schema,
        learner=SpyLearner(40.0, 10.0),
        days_per_person=None,
    ),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_holders_are_taken_by_exact_type(holder: str) -> None:
    SEEN.clear()
    with pytest.raises(RangeError, match=r"Spy"):
        HOLDERS[holder]()
    assert not SEEN


HUGE = ["1e12000000", "1e-12000000", Decimal("1e999999"), "1" + "0" * 5000, "1/" + "3" * 5000]
READERS = {
    "location": lambda text: Cauchy(text, 1),
    "scale": lambda text: Cauchy(1, text),
    "edge": lambda text: Histogram([0, text], [1]),
    "weight": lambda text: Mixture([text, 0.5], [Cauchy(0, 1), Cauchy(1, 1)]),
    "resolution": sl.priors.ScaleFree,
    "anchor": PowerLaw,
    "stored": lambda text: prior_from_json(
        {"family": "cauchy", "location": "1", "scale": str(text), "origin": {"kind": "guess"}}
    ),
    "bound": lambda text: sl.Number("a", lower=0, upper=text),
    "granularity": lambda text: sl.Number("a", granularity=text),
    "constant": lambda text: sl.col("a") > Decimal(text),
    "condition": lambda text: sl.Count(where=f"a > {text}", epsilon=1),
    "epsilon": lambda text: sl.Quantiles([0.5], epsilon=text),
    "level": lambda text: sl.Quantiles([text], epsilon=1),
    "radius": lambda text: sl.Covariance(["a"], radius=text, rho=1).prepare(TABLE.schema),
    "clip": lambda text: sl.Mean("a", epsilon=1, clip=(0, text)).prepare(TABLE.schema),
}


@pytest.mark.parametrize("reader", READERS)
def test_texts_of_huge_numbers_are_refused_at_once(reader: str) -> None:
    for text in HUGE if reader != "condition" else HUGE[:2]:
        if reader == "constant" and "/" in str(text):
            continue
        started = time.process_time()
        with pytest.raises(RangeError):
            READERS[reader](text)
        assert time.process_time() - started < 1


def test_a_seeded_release_with_a_law_works_as_before() -> None:
    query = sl.Quantiles([0.5], column="a", epsilon=1, prediction=Cauchy(40, 10))
    assert 0 <= seeded_release(query, TABLE, seed=1).value[0] <= 2000
