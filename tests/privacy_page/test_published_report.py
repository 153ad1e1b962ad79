"""The published file: nothing beyond the schema can be written or read, and each refusal names its field."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from example_reports import ADULT, published
from report_cases import reports

from sidelight.errors import RangeError, SchemaError
from sidelight.privacy_page import read_report
from sidelight.privacy_page.build import FitConstants, chi_upper, features_of, label_of, normal_upper, report_quantiles
from sidelight.privacy_page.losses import ClippedPoisson, Softmax, lipschitz_bounds
from sidelight.privacy_page.published import (
    DataDependent,
    Feature,
    Guarantee,
    LabelEncoding,
    PublishedReport,
    RowEncoding,
)
from sidelight.privacy_page.stepwise_reports import DescentLoss, DescentReport

#: Every key that may stand in a published report. A new one is a decision, not an accident.
KEYS = """
    schema mechanism neighbours guarantee loss encoding theta lambda sigma mu_out slack rho q q_axis q_out scope
    n_public maximum data_dependent epsilon delta name weights -1 1 kappa clip width features row_policy data_norm
    intercept_value label lo hi levels to outside negative positive classes gradient sigma2 hessian sigma3 zeta
    beforehand entropy unknown missing spellings missing_texts missing_values casefold strip start unit middle
    inverse_half
"""
KNOWN = set(KEYS.split())
#: And those of a descent's path, which no other report has.
DESCENT_KEYS = """
    middle half map centre intercept points mu_step mu_gram mu_count row_slack rates log_term
"""
DESCENT = set(DESCENT_KEYS.split())


def keys(value: Any) -> set[str]:
    found = set(value) if isinstance(value, dict) else set()
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        found |= keys(item)
    return found


def test_the_example_comes_back_as_it_was_written() -> None:
    report = read_report(published())
    assert json.loads(report.to_json()) == published() == report.to_dict()
    assert read_report(report.to_json()) == report == read_report(report.to_json().encode())
    assert list(report.to_dict()) == list(published())
    assert read_report(report) is report


@pytest.mark.parametrize("name", reports())
def test_every_kind_of_report_holds_known_keys_only_and_comes_back(name: str) -> None:
    report = reports()[name]
    written = json.loads(report.to_json())
    assert keys(written) <= (KNOWN | DESCENT if name.endswith("/descent") else KNOWN)
    assert read_report(written) == report
    assert written["data_dependent"] is None or name.split("/")[1].startswith("paid")


def test_the_schema_has_no_other_fields() -> None:
    for struct in (PublishedReport, RowEncoding, Feature, LabelEncoding, Guarantee, DataDependent):
        assert set(struct.__struct_encode_fields__) <= KNOWN
        assert struct.__struct_config__.forbid_unknown_fields
    for descent in (DescentReport, DescentLoss):
        assert set(descent.__struct_encode_fields__) <= KNOWN | DESCENT
        assert descent.__struct_config__.forbid_unknown_fields


def changed(path: str, value: Any) -> dict[str, Any]:
    report: Any = json.loads(json.dumps(published()))
    *way, last = path.split(".")
    place = report
    for step in way:
        place = place[int(step) if isinstance(place, list) else step]
    if value is KeyError:
        del place[last]
    else:
        place[last] = value
    return report  # type: ignore[no-any-return]


@pytest.mark.parametrize("field", sorted(set(published()) - {"schema"}))
def test_a_missing_field_is_named(field: str) -> None:
    with pytest.raises(SchemaError, match=rf"field {field}: missing"):
        read_report(changed(field, KeyError))


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("n", 45222, "n"),  # the number of rows is private
        ("training_accuracy", 0.8, "training_accuracy"),
        ("encoding.rows_clipped", 3, "encoding.rows_clipped"),
        ("loss.seed", 1, "loss.seed"),
        ("guarantee.rho", 1, "guarantee.rho"),
        ("encoding.features.0.mean", 1.0, "mean"),
        ("loss.weights.2", 1.0, "loss.weights.2"),
    ],
)
def test_an_unknown_field_is_named(path: str, value: Any, field: str) -> None:
    with pytest.raises(SchemaError, match=rf"{field}: unknown"):
        read_report(changed(path, value))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("schema", "privacy-report/2", "field schema: this version reads"),
        ("schema", KeyError, "field schema: missing"),
        ("mechanism", "dp-sgd", "field mechanism"),
        ("neighbours", "replace-one-row", "field neighbours"),
        ("scope", "all", "field scope"),
        ("sigma", 0.0, "field sigma"),
        ("sigma", "5", "field sigma"),
        ("sigma", True, "field sigma"),
        ("sigma", float("nan"), "field sigma"),
        ("lambda", float("inf"), "field lambda"),
        ("lambda", -1.0, "field lambda"),
        ("slack", -1e-9, "field slack"),
        ("rho", 1.0, "field rho"),
        ("q", 0.0, "field q"),
        ("guarantee.delta", 1.5, "field guarantee.delta"),
        ("guarantee.epsilon", 0, "field guarantee.epsilon"),
        ("loss.name", "hinge", "field loss.name"),
        ("loss.weights.1", 0, "field loss.weights.1"),
        ("theta", [0.1], "field theta: must have 4"),
        ("theta", [[0.12, -0.4, 0.9, -1.1]], "field theta: must be a list of numbers"),
        ("encoding.row_policy", "raise", "field encoding.row_policy"),
        ("encoding.data_norm", 0, "field encoding.data_norm"),
        ("encoding.intercept_value", -1.0, "field encoding.intercept_value"),
        ("encoding.intercept_value", None, "field theta: must have 3"),  # a missing intercept under-reports
        ("encoding.features", [], "field encoding.features"),
        ("encoding.features.0.hi", -1.0, "features.0.hi: must be above lo"),
        ("encoding.features.0.hi", None, "features.0.hi: missing"),
        ("encoding.features.1.levels", ["F", "F"], "features.1.levels"),
        ("encoding.features.1.name", "age", "features.1.name"),
        ("encoding.features.1.lo", 0.0, "features.1.hi: missing"),
        ("encoding.label", {"negative": "a"}, "encoding.label.positive: missing"),
        ("encoding.label.positive", "<=50K", "encoding.label.positive"),
        ("encoding.label.lo", 0.0, "encoding.label.lo: does not belong"),
        ("q_axis", 3.0, "field q_axis: does not belong"),
        ("q_out", 3.0, "field q_out: does not belong"),
        ("n_public", 100, "field n_public: does not belong"),
        ("data_dependent", {"gradient": []}, "field data_dependent.sigma2: missing"),
    ],
)
def test_what_makes_no_sense_is_named(path: str, value: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words.replace(".", r"\.")):
        read_report(changed(path, value))


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "JSON"), ("[]", "object"), (b"\xff", "JSON"), ('{"schema": "privacy-report/1", "q": NaN}', "JSON")],
)
def test_invalid_reports_are_refused(text: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        read_report(text)


def test_a_paid_part_must_fit() -> None:
    good = reports()["logistic/paid"].to_dict()
    for change, words in (
        ({"gradient": [1.0]}, "data_dependent.gradient"),
        ({"hessian": None}, "data_dependent.sigma3"),
        ({"hessian": [[1.0]]}, "data_dependent.hessian"),
        ({"kappa": None}, "data_dependent.kappa"),
        ({"sigma2": 0.0}, "data_dependent.sigma2"),
        ({"noise": [1.0]}, "data_dependent.noise: unknown"),
    ):
        with pytest.raises(SchemaError, match=words.replace(".", r"\.")):
            read_report(good | {"data_dependent": good["data_dependent"] | change})
    skewed = [row[:] for row in good["data_dependent"]["hessian"]]
    skewed[0][1] += 1.0
    with pytest.raises(SchemaError, match="symmetric"):
        read_report(good | {"data_dependent": good["data_dependent"] | {"hessian": skewed}})
    soft = reports()["softmax/one-person"].to_dict()
    with pytest.raises(SchemaError, match="data_dependent: must be null"):
        read_report(soft | {"data_dependent": good["data_dependent"]})


def test_quantiles_of_the_reference() -> None:
    one = report_quantiles(1e-6, scope="one-person", columns=105)
    assert one.along == one.output == one.slack == pytest.approx(5.1035540029, abs=1e-10)
    many = report_quantiles(1e-6, scope="all-n", columns=105, n_public=45222)
    assert many.along == pytest.approx(6.850271, abs=1e-6)
    everyone = report_quantiles(1e-6, scope="everyone", columns=105)
    assert everyone.along == pytest.approx(14, abs=0.02)  # the dimension enters
    assert everyone.axis == pytest.approx(normal_upper(1e-6 / (12 * 105)))
    assert everyone.output == everyone.slack == pytest.approx(chi_upper(105, 1e-6 / 3))
    soft = report_quantiles(1e-6, scope="one-person", columns=3, classes=4)
    assert soft.along == pytest.approx(normal_upper(1e-6 / 18))
    assert soft.slack == pytest.approx(normal_upper(1e-6 / 24))
    assert soft.output == one.output
    paid = report_quantiles(1e-6, scope="one-person", columns=3, paid=True)
    assert paid.along == pytest.approx(normal_upper(1e-6 / 12))
    for bad in ({"rho": 0.0}, {"rho": 1.0}, {"scope": "some"}, {"n_public": 3}, {"scope": "all-n"}):
        with pytest.raises(RangeError):
            report_quantiles(**{"rho": 1e-6, "scope": "one-person", "columns": 3, **bad})
    with pytest.raises(RangeError, match="n_public"):
        report_quantiles(1e-6, scope="all-n", columns=3, n_public=0)


def test_slack_counts_tolerance_output_noise_and_rounding() -> None:
    assert ADULT.slack(5.1035540029, 105) == pytest.approx(0.00135519, abs=5e-9)
    assert ADULT.mu_out == pytest.approx(0.00535963, abs=5e-9)
    thesis = FitConstants(epsilon=1, delta=1e-5, regularisation=2, sigma=5, tolerance=1e-2, sigma_out=0.15)
    assert thesis.slack(5.1035540029, 105) == pytest.approx(0.77, abs=0.01)  # says little: use the defaults
    rounded = FitConstants(
        epsilon=1, delta=1e-5, regularisation=2, sigma=5, tolerance=0, sigma_out=0.1, rounding_step=0.0125
    )
    assert rounded.slack(0.0, 4) == pytest.approx(0.0125)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            {"nam": "b"},
            "number 1 has an unknown field 'nam'; did you mean 'name'? known: name, lo, hi, levels, to, outside, "
            "unknown, missing, spellings, missing_texts, missing_values, casefold, strip, start, unit",
        ),
        (
            {"lo": 0, "hi": 1},
            "number 1: Object missing required field `name`; a feature has a name and, if wanted, lo,",
        ),
        ({"name": "b", "lo": "low"}, "number 1: Expected `float | null`, got `str` - at `$.lo`; a feature has a name"),
        (
            "b",
            "number 1 must be a Feature or a dict, got str; a feature has a name and, if wanted, lo, hi, levels, to, "
            "outside, unknown,",
        ),
    ],
)
def test_the_error_for_a_wrong_feature_names_the_expected_one(declared: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(message)):
        features_of([{"name": "a"}, declared])


def test_declarations() -> None:
    assert features_of([{"name": "a"}, Feature(name="b", lo=0, hi=1)])[1].width == 1
    assert label_of(names=[0, 1]) == LabelEncoding(negative="0", positive="1")
    assert label_of(names=["a", "b", "c"]).classes == ["a", "b", "c"]
    with pytest.raises(RangeError, match="alike"):
        label_of(names=["1", 1])
    with pytest.raises(RangeError, match="two classes"):
        label_of(names=["a"])
    assert lipschitz_bounds(Softmax(weights=[1.0, 2.0]), 1.0) == pytest.approx((8**0.5, 1.0))
    assert lipschitz_bounds(ClippedPoisson(clip=2.0), 3.0, largest=4.0) == (2.0, 42.0)
