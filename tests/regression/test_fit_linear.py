"""The one pure function: what it returns, on which inputs, and that bounded records and noise decide everything."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

from sidelight.errors import RangeError
from sidelight.guarantees import Person
from sidelight.noise import Source
from sidelight.regression.fit_core import private_fit
from sidelight.regression.losses import (
    ClippedSquaredLoss,
    HuberLoss,
    LogCoshLoss,
    LogisticLoss,
    PoissonLoss,
    SmoothedHingeLoss,
    SoftmaxLoss,
)
from sidelight.regression.plan import plan_linear
from sidelight.regression.rows import BoundedArrays, StreamedRows
from sidelight.testing import SeededEntropy

BINARY = LogisticLoss(classes=(0, 1))


def people(n=3000, d=8, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) / np.sqrt(d) / 1.3
    weights = rng.normal(size=d) * 2
    return rows, weights, rows @ weights, rng


class Model:
    """What a fit releases, with its plan; coefficients are (features,), or (features, classes) for several."""

    def __init__(self, plan, value):
        self.plan, self.coefficients, self.intercept = plan, np.squeeze(value["coefficients"].T), value["intercept"]

    def predictor(self, rows):
        return np.squeeze(rows @ self.coefficients.reshape(rows.shape[1], -1) + self.intercept)


def fitted(rows, labels, loss, seed=1, **more):
    with Source(SeededEntropy(seed)) as source:
        settings = {"epsilon": 1, "delta": "1e-6", "data_norm": 1} | more
        plan = plan_linear(features=rows.shape[1], loss=loss, **settings)
        model = Model(plan, private_fit(plan, BoundedArrays(rows, labels, policy=plan.policy), source=source).model())
        assert source.numerics == "idealized"
        return model


@pytest.mark.parametrize(
    ("loss", "kind"),
    [(BINARY, "class"), (SmoothedHingeLoss(classes=(0, 1)), "class"), (LogCoshLoss(scale="0.25"), "number"),
     (HuberLoss(threshold="0.25"), "number"), (ClippedSquaredLoss(clip="0.5"), "number"),
     (PoissonLoss(largest_count=5, clip=2), "count")],
    ids=lambda value: getattr(value, "name", value),
)  # fmt: skip
def test_every_loss_recovers_the_direction(loss, kind):
    rows, weights, u, rng = people(8000)
    labels = {
        "class": (rng.random(8000) < 1 / (1 + np.exp(-u))).astype(int),
        "number": u / 4,
        "count": rng.poisson(np.exp(u / 2)),
    }[kind]
    model = fitted(rows, labels, loss, epsilon=4)
    assert np.corrcoef(model.coefficients, weights)[0, 1] > 0.9
    assert float(model.plan.claims.approx_at("1e-6").epsilon) <= 4


def test_softmax_has_one_column_a_class():
    rows, weights, u, _ = people(6000)
    model = fitted(rows, np.digitize(u, [-0.5, 0.5]), SoftmaxLoss(classes=(0, 1, 2)), epsilon=4)
    assert model.coefficients.shape == (8, 3)
    assert model.intercept.shape == (3,)
    assert np.corrcoef(model.coefficients[:, 2] - model.coefficients[:, 0], weights)[0, 1] > 0.9
    assert (model.predictor(rows).argmax(axis=1) == np.digitize(u, [-0.5, 0.5])).mean() > 0.6


def test_dense_sparse_and_streamed_rows_agree():
    rows, _, u, _ = people(2500)
    rows[np.abs(rows) < 0.1] = 0
    labels = (u > 0).astype(int)
    dense = fitted(rows, labels, BINARY)
    sparse = fitted(scipy.sparse.csr_matrix(rows), labels, BINARY)
    plan = plan_linear(loss=BINARY, features=8, epsilon=1, delta="1e-6", data_norm=1)

    def batches():
        for start in range(0, 2500, 400):
            yield rows[start : start + 400], labels[start : start + 400]

    with Source(SeededEntropy(1)) as source:
        streamed = Model(plan, private_fit(plan, StreamedRows(batches, policy=plan.policy), source=source).model())
    # the same noise: what differs is within 2 tau / lambda before rounding to an eighth of the output noise
    step = float(plan.mechanism.output_noise_scale) / 4
    assert np.abs(dense.coefficients - sparse.coefficients).max() <= step
    assert np.abs(dense.coefficients - streamed.coefficients).max() <= step
    assert dense.plan.claims == streamed.plan.claims == plan.claims


def test_records_that_take_no_part_change_nothing():
    rows, _, u, _ = people(500)
    labels = (u > 0).astype(int)
    extra = np.vstack([rows, np.full((1, 8), np.nan), rows[:1]])
    model = fitted(extra, np.append(labels, [1, 7]), BINARY)
    assert (model.coefficients == fitted(rows, labels, BINARY).coefficients).all()


def test_long_rows_are_clipped_and_never_raise():
    rows, _, u, _ = people(500)
    labels = (u > 0).astype(int)
    huge = rows.copy()
    huge[0] = 1e300
    assert np.isfinite(fitted(huge, labels, BINARY).coefficients).all()
    unit = fitted(rows, labels, BINARY, on_violation="normalize")
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    assert np.allclose(unit.coefficients, fitted(rows / length, labels, BINARY).coefficients, atol=1e-3)


def test_two_runs_differ_in_coefficients_only():
    rows, _, u, _ = people(500)
    labels = (u > 0).astype(int)
    first, second = (fitted(rows, labels, BINARY, seed=seed) for seed in (1, 2))
    other = fitted(rows[:-100], labels[:-100], BINARY, seed=1)
    assert (first.coefficients != second.coefficients).any()
    assert first.plan == second.plan == other.plan


def test_the_price_is_known_before_the_data_and_survives_json():
    plan = plan_linear(loss=BINARY, features=20, epsilon="0.5", delta="1e-6", data_norm=1)
    assert float(plan.row_norm) == pytest.approx(2**0.5)
    assert plan.mechanism.shape.gradient == plan.row_norm
    assert plan.claims.implies(plan.claims.items[0])
    request = plan.request()
    assert request["kind"] == "linear_model"
    assert all(isinstance(k, str) and isinstance(v, str) for k, v in request.items())
    assert plan.cautions() == ()
    loud = plan_linear(loss=BINARY, features=2, epsilon=20, delta="0.01", data_norm=1, rows_at_most=10**6)
    assert len(loud.cautions()) == 2
    few = plan_linear(loss=BINARY, features=2, epsilon="0.01", delta="1e-6", data_norm=1, rows_at_most=50)
    assert any("prior" in text for text in few.cautions())


def test_row_norms():
    assert plan_linear(loss=BINARY, features=2, epsilon=1, delta="1e-6", data_norm=3, intercept=4).row_norm == 5
    assert plan_linear(loss=BINARY, features=2, epsilon=1, delta="1e-6", data_norm=3, intercept=None).row_norm == 3
    plan = plan_linear(loss=BINARY, features=2, epsilon=1, delta="1e-6", data_norm="0.3", intercept="0.1")
    assert plan.row_norm**2 >= Fraction("0.3") ** 2 + Fraction(0.1) ** 2


def test_without_an_intercept():
    rows, _, u, _ = people(500)
    model = fitted(rows, (u > 0).astype(int), BINARY, intercept=None)
    assert model.intercept.tolist() == [0.0]
    assert model.predictor(rows).shape == (500,)


def test_a_large_public_number_of_rows_raises_the_tolerance():
    small = plan_linear(loss=BINARY, features=2, epsilon=1, delta="1e-6", data_norm=1)
    large = plan_linear(loss=BINARY, features=2, epsilon=1, delta="1e-6", data_norm=1, rows_at_most=10**8)
    assert float(large.mechanism.tolerance / small.mechanism.tolerance) == pytest.approx(100)
    fine = {"loss": BINARY, "features": 2, "epsilon": 1, "delta": "1e-6", "data_norm": 1, "rows_at_most": 10**8}
    assert plan_linear(**fine, tolerance="1e-9").mechanism.tolerance == Fraction(1, 10**9)
    with pytest.raises(RangeError, match=r"certified for every data set of up to 100000000 rows; a tolerance of"):
        plan_linear(**fine, tolerance="1e-12")


def test_what_cannot_be_certified_on_every_data_set_is_refused_beforehand():
    public = {"features": 2, "epsilon": 1, "delta": "1e-6", "data_norm": 1}
    with pytest.raises(RangeError, match="larger regularisation"):  # a minimum as far away as 2**30 rows can pull it
        plan_linear(loss=HuberLoss(), **public | {"features": 10**8, "epsilon": 30}, regularisation="0.001")
    with pytest.raises(RangeError, match="other units"):
        plan_linear(loss=HuberLoss(), **public | {"data_norm": "1e-50", "intercept": None})
    # many columns, little regularisation: a coarser tolerance instead, and the output noise that belongs to it
    wide = plan_linear(loss=HuberLoss(), **public | {"features": 10**5, "epsilon": 30})
    small = plan_linear(loss=HuberLoss(), **public | {"epsilon": 30})
    assert small.mechanism.tolerance < wide.mechanism.tolerance < small.mechanism.tolerance * 1000
    assert wide.mechanism.output_mu <= small.mechanism.output_mu


@pytest.mark.parametrize(
    ("change", "message"),
    [({"features": 0}, "feature"), ({"on_violation": "ignore"}, "on_violation"), ({"data_norm": 0}, "data_norm"),
     ({"intercept": 0}, "intercept"), ({"epsilon": 0}, "epsilon"), ({"delta": 0}, "delta")],
)  # fmt: skip
def test_public_mistakes_are_found_before_the_data(change, message):
    with pytest.raises(RangeError, match=message):
        plan_linear(**({"loss": BINARY, "features": 2, "epsilon": 1, "delta": "1e-6", "data_norm": 1} | change))


def test_a_person_with_several_rows_is_refused():
    common = {"loss": BINARY, "features": 2, "epsilon": 1, "delta": "1e-6", "data_norm": 1}
    assert plan_linear(unit=Person("id", 1), **common).claims.unit == Person("id", 1)
    with pytest.raises(RangeError, match="one row"):
        plan_linear(unit=Person("id", 3), **common)


def test_wrong_shapes_are_refused():
    plan = plan_linear(loss=BINARY, features=3, epsilon=1, delta="1e-6", data_norm=1)
    with pytest.raises(RangeError, match="features"):
        BoundedArrays(np.zeros((4, 2)), np.zeros(4), policy=plan.policy)
    with pytest.raises(RangeError, match="same length"):
        BoundedArrays(np.zeros((4, 3)), np.zeros(5), policy=plan.policy)


def test_representations_show_no_count():
    rows, _, u, _ = people(137)
    plan = plan_linear(loss=BINARY, features=8, epsilon=1, delta="1e-6", data_norm=1)
    assert "137" not in repr(BoundedArrays(rows, (u > 0).astype(int), policy=plan.policy))
    assert "137" not in repr(fitted(rows, (u > 0).astype(int), BINARY))
    (block,) = BoundedArrays(rows, (u > 0).astype(int), policy=plan.policy).blocks()
    assert "array" not in repr(block)


def test_class_weights_are_public_and_priced():
    plain = plan_linear(loss=BINARY, features=2, epsilon=1, delta="1e-6", data_norm=1, intercept=None)
    weighted = plan_linear(
        loss=LogisticLoss(classes=(0, 1), class_weights=(1, 3)), features=2, epsilon=1, delta="1e-6", data_norm=1,
        intercept=None,
    )  # fmt: skip
    assert float(weighted.mechanism.noise_scale / plain.mechanism.noise_scale) == pytest.approx(3, rel=1e-9)
    # Corollary: lambda >= w R^2 / (eps + w^2 R^2 / (2 sigma^2)), and w/sigma is unchanged
    ratio = weighted.mechanism.regularisation / plain.mechanism.regularisation
    assert float(ratio) == pytest.approx(3, rel=1e-6)


@pytest.mark.parametrize("wrong", [{"bound": "thesiss"}, {"solver": "newtonn"}])
def test_unknown_names_are_answered_with_the_nearest(wrong: dict[str, str]) -> None:
    with pytest.raises(RangeError, match="did you mean"):
        plan_linear(loss=LogisticLoss(classes=(0, 1)), features=2, epsilon=1, delta="1e-6", data_norm=1, **wrong)
