"""What priors refuse, where they come from, how they are hedged, and their way through JSON."""

import json
import math
import warnings
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.errors import HedgeWarning, RangeError
from sidelight.grid import CODE_LIMIT, Grid
from sidelight.predictions import (
    Cauchy,
    Gaussian,
    HalfCauchy,
    Histogram,
    Laplace,
    Mixture,
    Origin,
    ScaleFree,
    Uniform,
    guess,
    hedge,
    origin_from_json,
    prior_from_json,
    public,
    released,
    warn_if_unhedged,
)

BAD_NUMBERS = [math.nan, math.inf, -math.inf, "x", None, True, "1/0"]


@pytest.mark.parametrize("bad", BAD_NUMBERS)
@pytest.mark.parametrize(
    "make",
    [
        lambda bad: Cauchy(bad, 1),
        lambda bad: Cauchy(0, bad),
        lambda bad: HalfCauchy(bad),
        lambda bad: HalfCauchy(1, bad),
        lambda bad: Laplace(bad, 1),
        lambda bad: Laplace(0, bad),
        lambda bad: Gaussian(0, bad),
        lambda bad: Uniform(bad, 1),
        lambda bad: Uniform(0, bad),
        lambda bad: Histogram([0, bad], [1]),
        lambda bad: Histogram([0, 1], [bad]),
        lambda bad: Mixture([bad], [Cauchy(0, 1)]),
    ],
)
def test_numbers_must_be_finite(make, bad):
    with pytest.raises(RangeError, match="finite"):
        make(bad)


@pytest.mark.parametrize("family", [Cauchy, Laplace, Gaussian])
@pytest.mark.parametrize("scale", [0, -1, -1e-300])
def test_scales_must_be_positive(family, scale):
    with pytest.raises(RangeError, match="scale must be positive"):
        family(0, scale)


@pytest.mark.parametrize(
    ("edges", "masses", "message"),
    [
        ([], [], "at least one"),
        ([0], [], "at least one"),
        ([0, 1], [1, 2], "one more edge"),
        ([0, 2, 1], [1, 1], "strictly increase"),
        ([0, 1, 1], [1, 1], "strictly increase"),
        ([0, 1, 2], [1, -1], "negative"),
        ([0, 1, 2], [0, 0], "positive"),
        ([0, 1, 2], [1e308, 1e308], "finite"),
    ],
)
def test_histograms(edges, masses, message):
    with pytest.raises(RangeError, match=message):
        Histogram(edges, masses)


@pytest.mark.parametrize(("lower", "upper"), [(1, 1), (2, 1), (-1.7e308, 1.7e308)])
def test_uniform_bounds(lower, upper):
    with pytest.raises(RangeError, match="lower < upper"):
        Uniform(lower, upper)


@pytest.mark.parametrize(
    ("weights", "priors"),
    [([], []), ([1], []), ([0.5, 0.4], [Cauchy(0, 1)] * 2), ([1.5, -0.5], [Cauchy(0, 1)] * 2), ([1.0], ["cauchy"]),
     ([1.0, 0.0], [Cauchy(0, 1)] * 2)],
)  # fmt: skip
def test_mixtures(weights, priors):
    with pytest.raises(RangeError):
        Mixture(weights, priors)


def test_decimal_weights_sum_to_one():
    grid = Grid(resolution=Fraction(1))
    mixed = Mixture([0.7, 0.2, 0.1], [Uniform(0, 1)] * 3).compile(grid)
    assert 0 <= 2**128 + 2**20 * (2 * CODE_LIMIT + 1) - mixed.total <= 3


def test_numbers_come_in_many_kinds():
    assert Cauchy("1/2", Decimal("0.25")) == Cauchy(0.5, 0.25) == Cauchy(Fraction(1, 2), 0.25)


# --- hedging ---


def test_hedge_puts_the_weight_on_the_robust_prior():
    mixed = hedge(Laplace(40, 5), with_=Cauchy(0, 1), weight=0.25)
    assert mixed.weights == (0.75, 0.25)
    assert mixed.priors == (Laplace(40, 5), Cauchy(0, 1))


@pytest.mark.parametrize("weight", [0, 1, -0.1, 1.5, math.nan])
def test_hedge_weights(weight):
    with pytest.raises(RangeError):
        hedge(Laplace(0, 1), with_=Cauchy(0, 1), weight=weight)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_a_hedge_keeps_a_share_of_every_interval(level):
    robust, mixed = Cauchy(0, 1), hedge(Laplace(1000, 0.5), with_=Cauchy(0, 1), weight=0.1)
    for low, high in [(-1, 1), (5, 6), (999, 1001), (1e6, 1e6 + 1)]:
        assert float(mixed.log_mass(low, high)) >= float(robust.log_mass(low, high)) + math.log(0.1) - 1e-12


@pytest.mark.parametrize("prior", [Laplace(0, 1), Gaussian(0, 1), Mixture([0.5, 0.5], [Laplace(0, 1), Gaussian(0, 1)])])
def test_light_tails_warn_when_used_not_when_made(prior):
    assert prior.needs_hedge
    with pytest.warns(HedgeWarning, match="hedge"):
        warn_if_unhedged(prior)


def test_making_a_prior_or_using_a_robust_one_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        light = Gaussian(0, 1)
        for prior in (Cauchy(0, 1), HalfCauchy(1), Uniform(0, 1), ScaleFree(), hedge(light, with_=Cauchy(0, 1))):
            assert not prior.needs_hedge
            warn_if_unhedged(prior)


# --- origins ---


def test_public_is_the_function_whatever_modules_are_loaded():
    import sidelight.predictions

    assert callable(sidelight.predictions.public)


def test_origins():
    assert Cauchy(0, 1).origin == guess()
    assert str(public("census")) == "public: census"
    assert released("e1").entries == ("e1",)
    assert "e1, e2" in str(released(["e1", "e2"]))
    for origin in (guess(), guess("a nurse's"), public("census"), released(["e1", "e2"], "last week")):
        assert origin_from_json(json.loads(json.dumps(origin.to_json()))) == origin


@pytest.mark.parametrize(
    "make",
    [
        lambda: public(""),
        lambda: released([]),
        lambda: Origin(kind="guess", entries=("e1",)),
        lambda: Origin(kind="stolen"),
        lambda: origin_from_json({"kind": "stolen"}),
        lambda: origin_from_json({"kind": "released", "entries": "e1"}),
    ],
)
def test_origins_that_make_no_sense(make):
    with pytest.raises(RangeError):
        make()


def test_a_mixture_remembers_every_entry():
    a = Cauchy(0, 1, origin=released("e1"))
    b = Laplace(0, 1, origin=released(["e2", "e1"]))
    assert Mixture([0.5, 0.5], [a, b]).origin.entries == ("e1", "e2")
    assert Mixture([0.5, 0.5], [a, replace(b, origin=public("census"))]).origin.kind == "released"
    assert Mixture([0.5, 0.5], [Cauchy(0, 1), replace(b, origin=public("census"))]).origin.kind == "guess"
    census, survey = replace(b, origin=public("census")), replace(a, origin=public("survey"))
    assert Mixture([0.5, 0.5], [census, survey]).origin == public("census; survey")


def test_a_hedge_has_the_origin_of_the_prediction_and_loses_no_entry():
    census = Laplace(0, 1, origin=public("census"))
    assert hedge(census, with_=Cauchy(0, 1)).origin == public("census")
    assert hedge(census, with_=Cauchy(0, 1, origin=released("e9"))).origin.entries == ("e9",)


# --- JSON ---

numbers = st.floats(-1e300, 1e300)
scales = st.floats(1e-300, 1e300)
origins = st.one_of(
    st.builds(guess, st.text(max_size=5)),
    st.builds(public, st.text(min_size=1, max_size=5)),
    st.builds(released, st.lists(st.text(min_size=1, max_size=3), min_size=1, max_size=3)),
)
simple = st.one_of(
    st.builds(
        lambda a, w, o: Uniform(a, a + w + abs(a), origin=o), st.floats(-1e9, 1e9), st.floats(1e-9, 1e9), origins
    ),
    st.builds(lambda a, s, o: Cauchy(a, s, origin=o), numbers, scales, origins),
    st.builds(lambda a, s, o: HalfCauchy(s, a, origin=o), numbers, scales, origins),
    st.builds(lambda a, s, o: Laplace(a, s, origin=o), numbers, scales, origins),
    st.builds(lambda a, s, o: Gaussian(a, s, origin=o), numbers, scales, origins),
    st.builds(
        lambda e, m, o: Histogram(sorted(e), [m] * (len(e) - 1), origin=o),
        st.sets(numbers, min_size=2, max_size=5),
        st.floats(1e-5, 1e5),
        origins,
    ),
    st.builds(
        lambda r, s, o: ScaleFree(r, s, origin=o),
        st.one_of(st.none(), st.fractions(min_value=Fraction(1, 10**6), max_value=10**6)),
        st.sampled_from(["both", "positive"]),
        origins,
    ),
)
priors = st.recursive(
    simple,
    lambda parts: st.builds(
        lambda ps, o: Mixture([1 / len(ps)] * len(ps), ps, origin=o), st.lists(parts, min_size=1, max_size=3), origins
    ),
    max_leaves=4,
)


def only_strings(written):
    if isinstance(written, dict):
        return all(isinstance(k, str) and only_strings(v) for k, v in written.items())
    return all(only_strings(item) for item in written) if isinstance(written, list) else isinstance(written, str)


@given(priors)
def test_json_round_trip_with_strings_only(prior):
    written = prior.to_json()
    assert only_strings(written)
    assert prior_from_json(json.loads(json.dumps(written))) == prior
    assert hash(prior_from_json(written)) == hash(prior)


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"family": "couchy", "origin": {"kind": "guess"}},
        {"family": "cauchy", "location": "0", "scale": "1"},
        {"family": "cauchy", "location": 0, "scale": "1", "origin": {"kind": "guess"}},
        {"family": "cauchy", "location": "0", "origin": {"kind": "guess"}},
        {"family": "histogram", "edges": "0", "masses": ["1"], "origin": {"kind": "guess"}},
        {"family": "histogram", "edges": [0, 1], "masses": ["1"], "origin": {"kind": "guess"}},
        {"family": "mixture", "weights": ["1"], "priors": "cauchy", "origin": {"kind": "guess"}},
        {"family": "scale_free", "resolution": "grid", "signs": "minus", "origin": {"kind": "guess"}},
        {"family": "scale_free", "resolution": "abc", "signs": "both", "origin": {"kind": "guess"}},
    ],
)
def test_json_that_is_not_a_prior(written):
    with pytest.raises(RangeError):
        prior_from_json(written)


def test_a_misspelt_family_is_named():
    with pytest.raises(RangeError, match="did you mean 'cauchy'"):
        prior_from_json({"family": "couchy", "origin": {"kind": "guess"}})
