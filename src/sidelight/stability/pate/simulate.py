"""Votes that may be looked at: of teachers taught with public rows, or of teachers who agree as much as one expects.

For choosing a proposal (`cheapest_proposal`) before any private row is opened.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.stability.pate.teachers import Failed, ballot, class_indices, counted, takes_missing
from sidelight.stability.pate.typed_rows import form_of


def simulate_votes(
    teacher: Any,
    rows: Any,
    targets: Any,
    queries: Any,
    *,
    classes: Any,
    teachers: int,
    rows_a_teacher: int,
    rng: np.random.Generator,  # noqa: TID251 - simulation
) -> NDArray[np.int64]:
    """Return the votes on `queries` of so many teachers, each taught with public rows drawn at random.

    Rows may serve several teachers: their votes agree a little more than those of real ones if public rows are few.
    """
    form, declared = form_of(queries), np.unique(np.asarray(classes))
    public, labels, missing = form.read(rows), class_indices(targets, declared), takes_missing(teacher)
    if not 1 <= rows_a_teacher <= len(labels):
        raise RangeError(f"rows_a_teacher must be from 1 to the {len(labels)} public rows, got {rows_a_teacher}")
    cast = []
    for number in range(teachers):
        mine = rng.choice(len(labels), rows_a_teacher, replace=False)
        mine = mine[(labels[mine] >= 0) & public.usable(mine, missing=missing)]
        found = ballot(teacher, public.take(mine), labels[mine], form.like, classes=declared, seed=number)
        if isinstance(found, Failed):
            raise RangeError(f"the teacher cannot be trained with {rows_a_teacher} public rows:\n{found.cause}")
        cast.append(found)
    return counted(cast, len(declared))


def votes_of_agreement(share: float, *, teachers: int, classes: int) -> NDArray[np.int64]:
    """Return one query's votes: this share of teachers agrees, all others vote for one other class (the closest case).

    >>> votes_of_agreement(0.9, teachers=250, classes=4).tolist()
    [[225, 25, 0, 0]]
    """
    if not 0.5 < share <= 1:
        raise RangeError(f"the share of teachers who agree must lie above 0.5 and be at most 1, got {share}")
    agree = round(share * teachers)
    return np.array([[agree, teachers - agree, *[0] * (classes - 2)]], np.int64)
