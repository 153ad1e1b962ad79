"""Sums of a descent: exact for any number of rows and saturated once, the same on this machine and on many."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.aggregates.bounded import VALUE_LIMIT
from sidelight.regression.descent.distributed_rows import KeptCodes, SumOfBlocks, written
from sidelight.regression.descent.mapped_rows import CodedExamples
from sidelight.regression.descent.row_sums import ExactSum
from sidelight.regression.losses import LogisticLoss
from sidelight.regression.rows import BLOCK_ROWS, SEVERAL, BoundedArrays, RowPolicy, side_by_side

PARTS = st.lists(st.integers(-(2**62), 2**62), max_size=40)


@given(PARTS, st.integers(0, 40))
def test_a_sum_is_that_of_whole_numbers_saturated_once(parts: list[int], cut: int) -> None:
    truth = min(max(sum(parts), -VALUE_LIMIT), VALUE_LIMIT)
    alone = ExactSum((1,))
    for part in parts:
        alone.add(np.array([part]))
    assert alone.saturated().tolist() == [truth]
    together = ExactSum((1,))
    for some in (parts[:cut], parts[cut:]):
        worker = ExactSum((1,))
        for part in some:
            worker.add(np.array([part]))
        together.add_limbs(worker.limbs)
    assert together.saturated().tolist() == [truth]


class Huge:
    """A sum as of more rows than any machine holds: 2⁶¹ for a block whose first target is positive, -2⁶¹ for others."""

    shape = (1,)

    def __call__(self, codes: Any, targets: Any) -> Any:
        return np.array([2**61 if targets[0, 0] > 0 else -(2**61)])


class Kept:
    """Blocks that workers keep, one part each."""

    def __init__(self, blocks: list[bytes]) -> None:
        self._blocks = blocks

    def ask(self, question: SumOfBlocks) -> list[bytes]:
        return [question(iter([block])) for block in self._blocks]


def test_rows_here_and_on_workers_saturate_alike() -> None:
    """int64 would wrap at the fourth block, and clamping on the way would give another sum."""
    signs = np.repeat([1, 1, 1, 1, -1, -1, -1], BLOCK_ROWS)
    policy = RowPolicy(loss=LogisticLoss(classes=(0, 1)), features=1, data_norm=1, intercept=None)
    rows = BoundedArrays(np.zeros((len(signs), 1)), (signs > 0).astype(int), policy=policy)
    here = CodedExamples(rows, data_norm=1.0).added_up(Huge())
    blocks = [written(np.zeros((1, 1)), np.array([[float(sign)]])) for sign in signs[::BLOCK_ROWS]]
    there = KeptCodes(Kept(blocks)).added_up(Huge())  # type: ignore[arg-type]
    assert here.tolist() == there.tolist() == [2**61]
    longer = BoundedArrays(np.zeros((5 * BLOCK_ROWS, 1)), np.ones(5 * BLOCK_ROWS, int), policy=policy)
    assert CodedExamples(longer, data_norm=1.0).added_up(Huge()).tolist() == [VALUE_LIMIT]
    assert KeptCodes(Kept(blocks[:4])).added_up(Huge()).tolist() == [VALUE_LIMIT]  # type: ignore[arg-type]


@pytest.mark.parametrize("items", [0, 1, SEVERAL - 1, SEVERAL, 3 * SEVERAL])
def test_few_blocks_have_no_pool_and_all_come_in_order(items: int) -> None:
    """A pool costs its threads in every fit; what is made is the same with and without."""
    seen: set[bool] = set()

    def work(item: int) -> int:
        seen.add(threading.current_thread() is threading.main_thread())
        return item * item

    assert list(side_by_side(work, iter(range(items)))) == [item * item for item in range(items)]
    if 0 < items < SEVERAL:
        assert seen == {True}
