# ruff: noqa: E501  # tables of reference numbers
"""Float masses of the priors against the reference numbers of the specification (R1, R2, R5)."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sidelight.predictions import Cauchy, Gaussian, HalfCauchy, Histogram, Laplace, Mixture, Uniform

X = [1, 2, 4, 7, 11]
EDGES = np.array([-np.inf, *X, np.inf])
U, C, H = Uniform(0, 16), Cauchy(5, 3), HalfCauchy(5)
L, G = Laplace(5, 2), Gaussian(5, 3)
M = Mixture([0.9, 0.1], [L, C])
B = Histogram([0, 4, 8, 12, 16], [0.1, 0.4, 0.3, 0.2])


def law(prior, level, epsilon, score, edges=EDGES):
    """Return the probabilities of the intervals between records, and the sum of the weights (Psi)."""
    n = len(edges) - 2
    k = np.arange(n + 1)
    level = Fraction(level)
    if score == "floor":
        gap, delta = np.abs(k - math.floor(level * n)), 1.0
    else:
        gap, delta = np.abs(k - float(level * n)), float(max(level, 1 - level))
    weights = np.exp(prior.log_mass(edges[:-1], edges[1:]) - epsilon * gap / (2 * delta))
    return weights / weights.sum(), weights.sum()


R1 = [
    (U, "1/2", 1, "floor", [.0498402568972201, .0821726916836055, .270959729298888, .246518075050816, .19936102758888, .15114821948059], .461323165340618),
    (C, "1/2", 1, "floor", [.144995818750651, .052714100572808, .283980608536433, .337969097371902, .116975736106423, .0633646386617828], .519696110276837),
    (H, "1/2", 1, "floor", [.0894723555725816, .136839895449716, .362526421105644, .206111527934297, .0877619324601513, .11728786747761], .516694869555929),
    (L, "1/2", 1, "floor", [.0402606624287148, .0430612165629997, .310039506120398, .503026489746255, .0946287570862317, .00898336805540102], .618309105768148),
    (G, "1/2", 1, "floor", [.0555403872752947, .0677097828900513, .34889686121533, .379555810363325, .139894874982066, .00840228327393264], .604150136278283),
    (M, "1/2", 1, "floor", [.0492064508420194, .0438857024468465, .307813726427536, .488928372551546, .0965374891014558, .0136282586305962], .608447806219017),
    (B, "1/2", 1, "floor", [.021034131536463, .034679420074871, .11435339506597, .416153040898452, .273443709974019, .140336302450226], .437241062857429),
    (U, "1/2", 1, "exact", [.0176876291558901, .0480799609229785, .261389768179907, .39208465226986, .192319843691914, .0884381457794505], .290050880690544),
    (C, "1/2", 1, "exact", [.0493021724729029, .0295518463304736, .262478505978257, .515026164420019, .108118707848257, .0355226029500904], .341033596799386),
    (L, "1/2", 1, "exact", [.0115675657165213, .0203983291554252, .242143367282917, .647729441942707, .0739058262909217, .0042554696115078], .480178665524066),
    (U, "3/10", 2, "exact", [.0562937261390789, .234898738494526, .469797476989053, .168881178417237, .053963399257599, .0161654807025062], .130253376064949),
    (C, "3/10", 2, "exact", [.152089327558084, .139940528385582, .457254673603216, .215017105867996, .0294048087749573, .00629355581016523], .158004572241301),
    (G, "3/10", 2, "exact", [.0540792240345395, .166857762842528, .521488597239688, .224155784646102, .0326439469790135, .000774684258128928], None),
]  # fmt: skip


@pytest.mark.parametrize(("prior", "level", "epsilon", "score", "expected", "psi"), R1)
def test_interval_probabilities(prior, level, epsilon, score, expected, psi):
    probabilities, total = law(prior, level, epsilon, score)
    assert probabilities == pytest.approx(expected, rel=1e-12)
    if psi is not None:
        assert total == pytest.approx(psi, rel=1e-12)


def test_masses_of_the_optimal_interval():
    assert math.exp(U.log_mass(2, 4)) == pytest.approx(0.125, rel=1e-14)
    assert math.exp(C.log_mass(2, 4)) == pytest.approx(0.147583617650433, rel=1e-12)


R2 = {
    ("edge", "exact"): [.186204966109269, .0792780410493691, .525625502369111, .0940260490052609, .11486544146699],
    ("edge", "floor"): [.234756781350452, .0999493092874739, .401935230056027, .118542770844371, .144815908461676],
    ("conditional", "exact"): [.113427792883185, .752043564998231, .134528642118584],
    ("conditional", "floor"): [.161097533339092, .647836133993387, .191066332667521],
}  # fmt: skip


@pytest.mark.parametrize(("adaptation", "score"), list(R2))
def test_adapted_to_a_range(adaptation, score):
    """Cauchy(5, 3) in [2.5, 10), records 4 and 7, point masses at the edges."""
    edges = np.array([2.5, 4, 7, 10])
    logs, ranks = C.log_mass(edges[:-1], edges[1:]), np.array([0.0, 1.0, 2.0])
    if adaptation == "edge":
        logs = np.concatenate([C.log_mass(-np.inf, [2.5]), logs, C.log_mass([10], np.inf)])
        ranks = np.array([0.0, 0.0, 1.0, 2.0, 2.0])
    delta = 0.5 if score == "exact" else 1.0
    weights = np.exp(logs - np.abs(ranks - 1) / (2 * delta))
    assert weights / weights.sum() == pytest.approx(R2[adaptation, score], rel=1e-12)


INF = math.inf
R5 = [
    (Cauchy(0, 1), 1e9, 1e9 + 1, -42.59126156074222, 1e-14),
    (Cauchy(0, 1), -INF, -1e12, -28.77575100177795, 1e-14),
    (HalfCauchy(5), 1e6, 1e6 + 2, -25.78002072824696, 1e-14),
    (Laplace(0, 1), 800, 801, -801.151822325947, 1e-14),
    (Laplace(0, 2), -1, 3, -0.5358535762078106, 1e-14),
    (Gaussian(0, 1), 40, 41, -804.6084420137538, 1e-14),
    (Gaussian(0, 1), 5, 5 + 1e-9, -34.14220437265108, 1e-6),
    (Gaussian(0, 1), 38, INF, -726.5572160188201, 1e-14),
]


@pytest.mark.parametrize(("prior", "lower", "upper", "expected", "tolerance"), R5)
def test_far_masses(prior, lower, upper, expected, tolerance):
    assert float(prior.log_mass(lower, upper)) == pytest.approx(expected, rel=tolerance)
    if not isinstance(prior, HalfCauchy):
        assert float(prior.log_mass(-upper, -lower)) == pytest.approx(expected, rel=tolerance)


def test_far_inverses():
    assert float(Cauchy(0, 1).inverse_in(1e9, 1e9 + 1, 0.25)) == pytest.approx(1000000000.25, abs=1e-5)
    assert float(Laplace(0, 1).inverse_in(800, 801, 0.25)) == pytest.approx(800.1720110607571, rel=1e-14)
    assert float(Laplace(0, 1).inverse_in(-801, -800, 0.75)) == pytest.approx(-800.1720110607571, rel=1e-14)
