"""Shares of the price: the reference numbers, caps over all nodes, and refusals that name the price that would do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sidelight.errors import RangeError
from sidelight.records.hierarchy import Hierarchy
from sidelight.summaries.tree_least_squares import tree_variances
from sidelight.summaries.tree_shares import PARTS, ShareSearch, capped_shares, default_shares


def search(power: int = 1) -> ShareSearch:
    rng = np.random.default_rng(3)
    leaves = [f"{s}{c:02}{t:03}" for s in "ab" for c in range(40) for t in range(int(rng.integers(2, 60)))]
    tree = Hierarchy("tract", {"state": 1, "county": 3}).tree(leaves)
    return ShareSearch(tree=tree, units=(17.85,) * 4, power=power, total_part=(0.07, 0.07), rest_part=(0.97, 0.97))


def half_width(variance: float, kappas: Sequence[float] = ()) -> float:
    return 1.96 * float(np.sqrt(variance))


def test_the_search_is_least_squares_on_all_nodes() -> None:
    found = search()
    shares = [0.01, 0.02, 0.12, 0.85]
    dense = tree_variances(found.tree, found.kappas(shares))
    mean, worst = found.variances(shares)
    assert mean == pytest.approx([1.04 * each.mean() for each in dense.pooled])
    assert worst == pytest.approx([1.04 * each.max() for each in dense.pooled])


def test_most_of_the_price_goes_to_the_leaves() -> None:
    shares, _ = default_shares(search())
    assert sum(shares) == 1
    assert shares[0] < shares[1] < shares[2] < 0.2 < shares[3]
    pure, _ = default_shares(search(power=2))
    assert pure[3] > 0.9  # pure shares add up linearly: a level is measured only if it pays


def test_caps_hold_at_the_worst_node() -> None:
    found = search()
    for caps in ({2: 40.0}, {1: 90.0, 2: 40.0}, {0: 150.0}, {3: 9.0}):
        shares, _ = capped_shares(found, caps, half_width, price=("mu", 0.2367))
        worst = found.variances([float(share) for share in shares])[1]
        assert sum(shares) == 1
        for level, cap in caps.items():
            assert half_width(worst[level]) <= cap + 1e-9
    loose, _ = capped_shares(found, {2: 1000.0}, half_width, price=("mu", 0.2367))
    assert loose[3] == 1  # a cap that the leaves meet alone leaves them everything


def test_a_cap_out_of_reach_names_a_price_that_reaches_it() -> None:
    found = search()
    with pytest.raises(RangeError, match=r"county ±8 needs mu of at least 0\.\d+; this price reaches ±") as error:
        capped_shares(found, {2: 8.0}, half_width, price=("mu", 0.2367))
    needed = float(str(error.value).split("at least ")[1].split(";")[0])
    dearer = ShareSearch(
        tree=found.tree,
        units=tuple(unit / (needed * 1.001 / 0.2367) ** 2 for unit in found.units),
        power=1,
        total_part=found.total_part,
        rest_part=found.rest_part,
    )
    shares, _ = capped_shares(dearer, {2: 8.0}, half_width, price=("mu", needed))
    assert all(share.denominator <= PARTS for share in shares)
