"""What the coordinates of a descent need of the rows: a noisy Gram matrix, perhaps a count, and a second look.

The second look is for columns that vary less than the noise of the matrix (`column_scales`). Whether it is taken
follows from what was released before, and the steps pay for it (descent proof page, Theorem D).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sidelight.mechanisms.additive import Noise
from sidelight.noise import Source
from sidelight.regression.descent.column_scales import (
    DistanceCounts,
    ReleasedDistances,
    ShortenedGram,
    narrow_columns,
    second_geometry,
)
from sidelight.regression.descent.geometry import Floats, Geometry, NoisyGram, from_gram, guarded, without_map
from sidelight.regression.descent.integer_rows import CODE_BITS, Integers, RowMap
from sidelight.regression.descent.plan import DescentPlan
from sidelight.regression.descent.row_sums import CodedPasses, GramAndCount


def released_coordinates(plan: DescentPlan, rows: CodedPasses, *, source: Source) -> tuple[DescentPlan, Geometry]:
    """Release what the coordinates need; return the plan of what is left to pay, and them."""
    declared = counted = None if plan.rows is None else float(plan.rows)
    total, count = _gram_and_count(plan, rows)
    gram = None
    if plan.shares.gram:
        noise = plan.gram_noise(total)
        released = np.asarray(noise.release(source)).astype(np.float64)  # private rows, 2 of 7
        gram = _in_row_lengths(released, noise)
    if plan.shares.count:
        counting = plan.count_noise(count)
        noisy = float(counting.release(source))  # private rows, 3 of 7
        counted = max(noisy, 0.0)
        declared = counted + counting.deviation
    if gram is None:
        assert declared is not None
        return plan, without_map(plan.features, rows=declared, intercept=plan.intercept)
    more: dict[str, Any] = {"intercept": plan.intercept, "outputs": plan.targets.outputs}
    if plan.public is not None:
        assert declared is not None
        return plan, guarded(plan.public, gram, rows=declared, counted=counted, **more)
    more["full"] = plan.targets.kind == "logistic"
    first = from_gram(gram, rows=declared, **more)
    closer = plan.with_look("counts")
    of_a_count = closer.scales_noise(np.zeros(1, np.int64)).deviation
    narrow = narrow_columns(gram, first, count_noise=of_a_count / plan.features**0.5)
    if not narrow.any():
        return plan, first
    counting = closer.scales_noise(rows.added_up(DistanceCounts.about(first.centre)))
    noisy_counts = np.asarray(counting.release(source)).astype(np.float64)  # private rows, 4 of 7
    distances = ReleasedDistances(counts=noisy_counts, noise=counting.deviation, first=first, narrow=narrow)
    scales = distances.geometry()
    if scales is None:
        hidden = gram.hidden(first.centre, first.rows)
        return closer, replace(first, unseen=distances.unseen(hidden))
    closer = plan.with_look("matrix")
    noise = closer.second_gram_noise(rows.added_up(ShortenedGram(mapping=RowMap(geometry=scales))))
    released = np.asarray(noise.release(source)).astype(np.float64)  # private rows, 5 of 7
    return closer, second_geometry(_in_row_lengths(released, noise), distances, scales, **more)


def _in_row_lengths(released: Floats, noise: Noise) -> NoisyGram:
    unit = 2.0 ** (-2 * CODE_BITS)
    return NoisyGram(matrix=released * unit, noise_scale=float(noise.scale) * unit)


def _gram_and_count(plan: DescentPlan, rows: CodedPasses) -> tuple[Integers, int]:
    """Read the rows once, where anything of it is needed."""
    statistic = GramAndCount(features=plan.features, gram=plan.shares.gram > 0)
    if not plan.shares.gram and not plan.shares.count:
        return statistic.split(np.zeros(statistic.shape, np.int64))
    return statistic.split(rows.added_up(statistic))
