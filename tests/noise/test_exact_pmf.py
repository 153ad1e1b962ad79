"""The formulas that the distribution tests compare with give the reference probabilities."""

from __future__ import annotations

from fractions import Fraction

import pytest
from noise_laws import discrete_gaussian_pmf, laplace_pmf, rounded_gaussian_pmf

REFERENCE = [
    (laplace_pmf, "1/5", [0.98661429815143029, 0.006647754849484244, 4.4792219838738223e-5, 1.3702043989097939e-11]),
    (laplace_pmf, "10/7", [0.33637554433633221, 0.16703915187225827, 0.082949187977544766, 0.01015766128621532]),
    (laplace_pmf, "3", [0.16514041292462935, 0.1183282765015814, 0.084785915039615828, 0.031190995043983258]),
    (
        rounded_gaussian_pmf,
        "1/5",
        [0.98758066934844773, 0.0062096653257442263, 3.1908916729108962e-14, 2.0753107990663546e-112],
    ),
    (
        rounded_gaussian_pmf,
        "7/10",
        [0.524949475946047, 0.22146297642314819, 0.015884765913454844, 6.4402396778563817e-11],
    ),
    (rounded_gaussian_pmf, "3", [0.13236766522180731, 0.12527862866310945, 0.10620915776234387, 0.033430693684040822]),
    (
        discrete_gaussian_pmf,
        "1/2",
        [0.56413122621884207, 0.20753228024874813, 0.010332423825283123, 7.8346228022005978e-12],
    ),
    (discrete_gaussian_pmf, "9", [0.13298076013381089, 0.12579440923099772, 0.10648266850745074, 0.033159046264249561]),
]


@pytest.mark.parametrize(("law", "parameter", "expected"), REFERENCE)
def test_pmf(law, parameter: str, expected: list[float]) -> None:  # type: ignore[no-untyped-def]
    pmf = law(Fraction(parameter))
    for k, probability in zip((0, 1, 2, 5), expected, strict=True):
        assert pmf(k) == pytest.approx(probability, rel=1e-12)
        assert pmf(-k) == pmf(k)
