"""A descent on sparse rows: with the coordinates that dense ones get, or with a warning."""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import sidelight as sl
from sidelight.errors import SidelightWarning


class TestSparseRows:
    """The form of the rows is public, and changes neither what is released nor, in silence, how good it is."""

    @staticmethod
    def of(columns: int, *, sparse: bool, **settings: Any) -> Any:
        rng = np.random.default_rng(columns)
        x = rng.uniform(-0.5, 0.5, (2000, columns)) / np.sqrt(columns)
        y = (x[:, 0] + 0.02 * rng.normal(size=2000) > 0.1 / np.sqrt(columns)).astype(int)
        model = sl.LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, classes=[0, 1], random_state=2, **settings)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "random_state|rows that|the noise", category=UserWarning)
            return model.fit(csr_array(x) if sparse else x, y)

    @pytest.mark.parametrize("geometry", ["auto", "private", "none"])
    def test_few_columns_are_released_as_dense_ones(self, geometry: Any) -> None:
        solver = sl.DescentSettings(geometry=geometry)
        found = [self.of(2, sparse=sparse, solver=solver) for sparse in (True, False)]
        assert found[0].privacy_.geometry == ("none" if geometry == "none" else "private")
        assert np.array_equal(found[0].coef_, found[1].coef_)

    def test_a_map_that_is_left_out_is_warned_of_before_the_charge(self) -> None:
        with pytest.warns(SidelightWarning, match=r"150 columns.*without a map.*X\.toarray"):
            assert self.of(150, sparse=True).privacy_.geometry == "none"
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "X is sparse")
            self.of(150, sparse=True, solver=sl.DescentSettings(geometry="none"))
            assert (
                self.of(150, sparse=True, solver=sl.DescentSettings(geometry="private")).privacy_.geometry == "private"
            )
