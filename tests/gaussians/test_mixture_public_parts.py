"""The public parts of a mixture fit: regions, linkage, candidate balls, public clusters, and rules for cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.gaussians.mixture.link_verify import cluster_publicly, cut_trees, number_of_components
from sidelight.gaussians.mixture.partition import (
    Ball,
    Everything,
    NearestCentroid,
    Partition,
    Projection,
    PublicOdds,
    Split,
    SplitTree,
    ball_tree,
    inside_first,
    least_group,
    supercluster,
    superclusters,
)
from sidelight.gaussians.mixture.prepared import borrowed_scales
from sidelight.published.recursive_mixture import terrific_balls


def blobs(centres: list[list[float]], each: int, *, scale: float = 1.0, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([np.array(c) + scale * rng.normal(size=(each, len(c))) for c in centres])


@pytest.mark.parametrize(
    ("rows", "weight", "h"), [(48, 1 / 8, 3), (24, 1 / 6, 2), (10, 0.05, 1), (1, 0.5, 1), (100, 0.5, 25)]
)
def test_least_group_is_half_of_what_is_expected(rows: int, weight: float, h: int) -> None:
    assert least_group(rows, weight) == h


def test_supercluster_by_hand() -> None:
    # on a line at 0 1 2 3, 10 and 40: with h = 1 the loneliest row is 40, whose neighbour is 30 away
    points = np.array([[0.0], [1.0], [2.0], [3.0], [10.0], [40.0]])
    ball = supercluster(points, 1)
    assert ball is not None
    assert ball.centre.tolist() == [40.0]
    assert ball.members.tolist() == [0, 1, 2, 3, 4, 5]  # 30, then the shell up to 120 holds the others
    assert ball.radius == 40.0 + 30.0  # tightened to the farthest row, widened by r
    near = supercluster(points[:4], 1)
    assert near is not None
    assert near.centre.tolist() == [0.0]
    assert near.radius == 3.0 + 1.0


def test_superclusters_are_far_apart_and_strays_belong_to_none() -> None:
    points = np.concatenate([blobs([[0.0, 0.0]], 20), blobs([[1e4, 0.0]], 20, seed=1), [[-1e6, 0.0]]])
    balls = superclusters(points, 3)
    assert len(balls) in (1, 2)
    clean = superclusters(points[:40], 3)
    assert sorted(len(ball.members) for ball in clean) == [20, 20]
    assert set(np.concatenate([ball.members for ball in clean])) == set(range(40))
    # a stray: one row beyond, fewer than h
    stray = superclusters(np.concatenate([points[:40], [[5e4, 5e4]]]), 1)
    assert all(len(ball.members) > 1 for ball in stray)


def test_two_scales_are_two_regions() -> None:
    small = blobs([[0.0, 0.0], [8.0, 0.0]], 15, scale=1.0)
    large = blobs([[1e5, 0.0], [1e5, 800.0]], 15, scale=100.0, seed=1)
    balls = superclusters(np.concatenate([small, large]), 4)
    assert len(balls) == 2


def test_copies_show_no_scale() -> None:
    same = np.zeros((10, 3))
    assert supercluster(same, 2) is None
    assert supercluster(same[:1], 1) is None
    with pytest.raises(RangeError, match="repeat each other"):
        superclusters(same, 2)


def test_the_first_ball_takes_the_row() -> None:
    balls = [Ball(np.zeros(2), 2.0, np.arange(1)), Ball(np.array([3.0, 0.0]), 2.0, np.arange(1))]
    points = np.array([[1.5, 0.0], [2.5, 0.0], [9.0, 9.0]])
    assert inside_first(points, balls).tolist() == [0, 1, -1]
    assert ball_tree(balls).label(list(points.T)).tolist() == [0, 1, -1]


def test_linkage_cuts_the_largest_heights() -> None:
    points = blobs([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]], 8)
    cut = cut_trees([points], cells=3, least=1)
    assert sorted(tuple(part) for part in cut.members) == [tuple(range(8 * j, 8 * j + 8)) for j in range(3)]
    assert cut.last_used is not None
    assert cut.next_unused is not None
    assert cut.next_unused < 0.6 * cut.last_used
    merged = cut_trees([points], cells=2, least=1)
    assert merged.next_unused is not None
    assert merged.last_used is not None
    assert merged.next_unused > 0.6 * merged.last_used  # the warning of too few components


def test_linkage_normalises_heights_across_regions() -> None:
    """Trap: with raw heights the wide region takes every cut and the narrow one is never split."""
    narrow = blobs([[0.0, 0.0], [12.0, 0.0]], 10)
    wide = blobs([[0.0, 0.0], [1200.0, 0.0]], 10, scale=100.0, seed=1)
    cut = cut_trees([narrow, wide], cells=4, least=2)
    assert cut.regions == (0, 0, 1, 1)
    assert sorted(len(part) for part in cut.members) == [10, 10, 10, 10]


def test_linkage_skips_a_cut_that_leaves_hardly_any_rows() -> None:
    points = np.concatenate([blobs([[0.0, 0.0], [20.0, 0.0]], 8), [[10.0, 300.0]]])
    cut = cut_trees([points], cells=2, least=2)
    assert sorted(len(part) for part in cut.members) == [8, 8]  # the outlier has no say
    few = cut_trees([points[:3]], cells=3, least=2)
    assert [part.tolist() for part in few.members] == [[0, 1, 2]]  # nothing to cut: the cell stays whole
    assert cut_trees([points[:1]], cells=2, least=1).members[0].tolist() == [0]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), cells=st.integers(1, 6), least=st.integers(1, 3))
def test_linkage_cells_are_disjoint_and_large_enough(seed: int, cells: int, least: int) -> None:
    rng = np.random.default_rng(seed)
    regions = [rng.normal(size=(int(size), 2)) for size in rng.integers(3, 12, size=2)]
    cut = cut_trees(regions, cells=cells, least=least)
    assert len(cut.members) <= max(cells, 2)
    for region in range(2):
        places = np.concatenate([part for r, part in zip(cut.regions, cut.members, strict=True) if r == region])
        assert len(set(places)) == len(places)
    assert all(len(part) >= least for part in cut.members)


def test_terrific_balls_by_brute_force() -> None:
    points = blobs([[0.0, 0.0], [30.0, 0.0]], 6, seed=3)
    found = terrific_balls(points, 3)
    assert 1 <= len(found) <= 8
    ratios = [ball.ratio for ball in found]
    assert ratios == sorted(ratios, reverse=True)
    best = 0.0
    for centre in points:
        ordered = np.sort(np.linalg.norm(points - centre, axis=1))
        for inside in range(3, 10):
            best = max(best, ordered[inside] / ordered[inside - 1])
    assert found[0].ratio == pytest.approx(best)
    inner, outer = found[0].widened
    assert inner == pytest.approx(found[0].inner * best**0.25)
    assert outer == pytest.approx(found[0].outer / best**0.25)
    assert found[0].radius == pytest.approx(np.sqrt(found[0].inner * found[0].outer))
    assert terrific_balls(points, 7) == ()
    assert terrific_balls(np.linspace(0, 1, 40)[:, None], 10) == ()  # no gap of ratio 1.5 with ten rows on both sides


def test_public_clusters_find_the_number_and_the_cells() -> None:
    points = blobs([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0], [0.0, 9.0, 0.0]], 30) + 1e5
    assert number_of_components(points) == 3
    clusters = cluster_publicly(points, 3)
    assert sorted(clusters.rows) == [30, 30, 30]
    assert clusters.separated
    assert not cluster_publicly(blobs([[0.0, 0.0], [2.0, 0.0]], 60), 2).separated
    one = cluster_publicly(points, 1)
    assert one.rows == (90,)
    assert one.separated
    with pytest.raises(RangeError, match="public rows"):
        number_of_components(points[:6])


RULES: list[Partition] = [
    Everything(),
    ball_tree([Ball(np.zeros(3), 2.0, np.arange(1)), Ball(np.ones(3), 2.5, np.arange(1))]),
    SplitTree((Split(0, 1, 2, np.zeros(3), np.ones((2, 3)) / 3, 1.1, np.array([0.1, 0.2])),), (1, 2)),
    NearestCentroid(
        ball_tree([Ball(np.zeros(3), 5.0, np.arange(1))]),
        (Projection(np.zeros(3), np.array([[0.6, 0.8, 0.0], [0.0, 0.1, 0.9]]), np.array([[0.0, 1.0], [1.0, 0.0]])),),
    ),
    PublicOdds(np.zeros(3), np.random.default_rng(1).normal(size=(3, 2, 3)), np.zeros((3, 2)), np.zeros(3)),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 40))
def test_a_row_has_its_cell_whatever_the_other_rows_are(rule: Partition, seed: int, rows: int) -> None:
    points = np.random.default_rng(seed).normal(size=(rows, 3)) * 2
    labels = rule.label(list(np.ascontiguousarray(points.T)))
    flags = rule.ambiguous(list(np.ascontiguousarray(points.T)), labels)
    assert labels.min() >= -1
    assert labels.max() < rule.cells
    for place in (0, rows - 1):
        alone = [np.array([value]) for value in points[place]]
        assert rule.label(alone).tolist() == [labels[place]]
        assert rule.ambiguous(alone, labels[place : place + 1]).tolist() == [flags[place]]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_rows_beyond_all_measure_have_a_cell_or_none(rule: Partition) -> None:
    huge = [np.array([2.0**400, -(2.0**400), 0.0])] * 3
    with np.errstate(all="ignore"):
        labels = rule.label(huge)
        rule.ambiguous(huge, labels)
    assert ((labels >= -1) & (labels < rule.cells)).all()


def test_ambiguity_is_beyond_35_percent_of_the_way() -> None:
    rule = NearestCentroid(
        ball_tree([Ball(np.zeros(1), 100.0, np.arange(1))]),
        (Projection(np.zeros(1), np.eye(1), np.array([[0.0], [10.0]])),),
    )
    columns = [np.array([-5.0, 3.4, 3.6, 4.9, 5.1, 6.4, 6.6, 12.0])]
    labels = rule.label(columns)
    assert labels.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert rule.ambiguous(columns, labels).tolist() == [False, False, True, True, True, True, False, False]
    single = NearestCentroid(rule.regions, (Projection(np.zeros(1), np.eye(1), np.array([[0.0]])),))
    assert not single.ambiguous(columns, single.label(columns)).any()


def test_a_lonely_public_row_borrows_the_largest_trace() -> None:
    wide = blobs([[0.0, 0.0]], 10, scale=3.0)
    narrow = blobs([[0.0, 0.0]], 10)
    lonely = np.array([[5.0, 5.0]])
    scales = borrowed_scales([wide, narrow, lonely], wide)
    trace = float(((wide - wide.mean(axis=0)) ** 2).sum()) / 9
    assert scales[:2] == [None, None]
    assert scales[2] == pytest.approx(np.sqrt(2 * trace))  # the ball's radius is twice this: 2√(2 tr)
    alone = borrowed_scales([lonely, lonely + 1], np.concatenate([lonely, lonely + 1]))
    assert all(scale is not None and scale > 0 for scale in alone)
