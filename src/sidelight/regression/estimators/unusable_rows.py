"""`on_missing="raise"`: scikit-learn's errors for rows that cannot be used.

It looks at the rows before any charge, and what it raises depends on them. That is the curator's own choice, for work
at their own desk: such an error must not be forwarded to anybody who may not see the data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_X_y
from sklearn.utils.multiclass import check_classification_targets, type_of_target


def refuse_unusable(estimator: Any, rows: Any, targets: Any, *, classes: NDArray[Any] | None) -> None:
    """Raise as scikit-learn does for missing values, for no rows at all, and for more labels than two declared ones.

    Rows with a label that is not declared take no part, here too: `classes` says which rows are meant.

    Raises:
        ValueError: a row cannot be used. NOT PRIVATE.
    """
    _, y = check_X_y(
        rows, targets, accept_sparse=True, dtype=np.float64, y_numeric=classes is None, estimator=estimator
    )
    if classes is None:
        return
    check_classification_targets(y)
    if len(classes) == 2 and type_of_target(y) == "multiclass":
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass. (classes declares two "
            "labels, y holds more; on_missing='raise': not private)"
        )
