"""Tables of a hierarchy level by level, after the 2020 Census' TopDown: what our two passes are compared with.

The same noisy tables, from the top down: the children of a node go onto its published whole number by least squares
over numbers of at least 0, and are rounded. What children say never reaches their parents. One step a level; the
Bureau's own program orders its queries in several steps and was not run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sidelight.noise import Source
from sidelight.summaries.tree_model import TreeModel
from sidelight.summaries.tree_whole import whole_tree

Floats = NDArray[np.float64]


def level_by_level(model: TreeModel, pooled: Sequence[Floats | None], source: Source) -> list[NDArray[np.int64]]:
    """Return whole counts of every level.

    Args:
        model: Tree and cells.
        pooled: The noisy cells of every level; all are measured.
        source: Of the order of equal remainders.
    """
    noisy = [each for each in pooled if each is not None]
    assert len(noisy) == len(pooled), "a level that is not measured has nothing to say here"
    nothing_stays = [np.full(model.cells.size, np.inf)] * len(noisy)
    return whole_tree(model.tree, noisy, nothing_stays, model.possible, source=source)
