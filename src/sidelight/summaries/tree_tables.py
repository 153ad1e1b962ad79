"""The long table of a hierarchy (level, id, parent, other columns), and what its notes say of how it was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.coded_groups import CodedGroups
from sidelight.errors import RangeError
from sidelight.group_table import ALL, HIERARCHY, GroupTable, has_levels
from sidelight.records.hierarchy import LabelTree
from sidelight.summaries.tree_cells import OtherCells
from sidelight.summaries.tree_least_squares import TreeVariances
from sidelight.summaries.tree_model import TreeModel

Floats: TypeAlias = NDArray[np.float64]


def long_table(
    model: TreeModel, keys: Sequence[str], columns: Mapping[str, Sequence[NDArray[Any]]], **notes: Any
) -> GroupTable:
    """Return the table of all levels, nodes and cells, in this order.

    Args:
        model: How it was measured.
        keys: The names of the key columns: level, label, parent, and the other columns.
        columns: By name, for each level an array of a row for each node and a column for each shown cell.
        notes: Further notes.
    """
    tree, cells = model.tree, model.cells
    names = cells.names()
    width = sum(cells.width(axes) for axes in cells.shown)
    labels: list[str] = []
    levels: list[Any] = []
    ids: list[Any] = []
    parents: list[Any] = []
    none = 0
    labels.append("")  # the root has no parent
    before = 0
    for level, nodes in enumerate(tree.ids):
        start = len(labels)
        labels += nodes
        levels.append(np.full(len(nodes) * width, level))
        ids.append(np.repeat(np.arange(len(nodes)) + start, width))
        above = np.full(len(nodes), none) if level == 0 else tree.parents[level] + before
        parents.append(np.repeat(above, width))
        before = start
    every = sum(tree.sizes)
    further: list[Any] = [np.tile(codes, every) for codes in names]
    totalled = [(*each, ALL) for each in cells.labels]
    coded = CodedGroups(
        (np.concatenate(levels), np.concatenate(ids), np.concatenate(parents), *further),
        (tree.names, tuple(labels), tuple(labels[: len(labels) - tree.sizes[-1]]), *totalled),
    )
    whole = {name: np.concatenate([each.reshape(-1) for each in parts]) for name, parts in columns.items()}
    return GroupTable(keys=keys, groups=coded, columns=whole, notes=notes)


def written_model(model: TreeModel, *, statistic: str, confidence: float, unit: float, lowest: float) -> dict[str, Any]:
    """Return the note of a table: plain JSON."""
    cells = model.cells
    every = bool(cells.possible.all())
    return {
        "column": model.tree.names[-1],
        "levels": list(model.tree.names),
        "sha256": model.tree.digest,
        "kappas": [None if math.isinf(kappa) else kappa for kappa in model.kappas],
        "weights": [[list(axes), weight] for axes, weight in cells.weights.items()],
        "power": cells.power,
        "law": model.law,
        "inflation": model.inflation,
        **({"whole": list(model.whole)} if model.whole else {}),
        "exact_level": model.exact_level,
        "possible": None if every else cells.possible.astype(int).tolist(),
        "by_leaf": model.leaves_possible is not None,
        "statistic": statistic,
        "confidence": confidence,
        "unit": unit,
        "lowest": None if math.isinf(lowest) else lowest,
    }


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeNotes:
    """What a released table of a hierarchy says of itself.

    Args:
        model: How it was measured.
        rows: For each level, the row of each node and shown cell in the table.
        others: The names of the other columns.
        cells: The labels of each shown cell.
        statistic: The column that is read.
        law, confidence, unit, lowest, highest: Of the intervals.
    """

    model: TreeModel
    rows: tuple[NDArray[np.int64], ...]
    others: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    statistic: str
    law: str
    confidence: float
    unit: float
    lowest: float
    highest: float

    @property
    def tree(self) -> LabelTree:
        """The tree."""
        return self.model.tree

    def stated(self, of: Callable[[TreeVariances], Floats], confidence: float) -> tuple[Floats, Floats]:
        """Return standard deviations and half-widths of all shown cells from a function of the passes."""
        sd, reach = self.model.stated(of, confidence)
        return sd.reshape(-1), reach.reshape(-1)

    @classmethod
    def of(cls, table: GroupTable) -> TreeNotes:
        """Read the notes of a table, and the tree from its rows."""
        said = table.notes.get(HIERARCHY)
        if not has_levels(table) or not isinstance(said, Mapping):
            raise RangeError("areas are sums over a released table of an sl.Hierarchy; this table has none")
        coded, depth = table.coded, len(said["levels"])
        further = coded.labels[3:]
        labels = tuple(tuple(label for label in each if label != ALL) for each in further)
        every = np.ones(math.prod(map(len, labels)), bool)
        possible = every if said["possible"] is None else np.array(said["possible"], bool)
        cells = OtherCells(
            labels=labels,
            weights={tuple(axes): weight for axes, weight in said["weights"]},
            possible=possible,
            power=int(said["power"]),
        )
        width = sum(cells.width(axes) for axes in cells.shown)
        level_of = np.array([said["levels"].index(name) for name in coded.labels[0]])[coded.codes[0]]
        rows = tuple(np.flatnonzero(level_of == level).reshape(-1, width) for level in range(depth))
        tree = _tree_of(coded, rows, tuple(said["levels"]))
        mask = None
        if said["by_leaf"]:
            mask = np.asarray(table["noise_sd"])[rows[-1]][:, : cells.size] > 0
        model = TreeModel(
            tree=tree,
            cells=cells,
            kappas=tuple(math.inf if kappa is None else float(kappa) for kappa in said["kappas"]),
            law=said["law"],
            inflation=float(said["inflation"]),
            whole=tuple(said.get("whole", ())),
            exact_level=said["exact_level"],
            leaves_possible=mask,
        )
        names = [[(*each, ALL)[code] for code in codes] for each, codes in zip(labels, cells.names(), strict=True)]
        return cls(
            model=model,
            rows=rows,
            others=table.keys_of_groups[3:],
            cells=tuple(zip(*names, strict=True)) if names else ((),),
            statistic=said["statistic"],
            law=said["law"],
            confidence=float(said["confidence"]),
            unit=float(said["unit"]),
            lowest=-math.inf if said["lowest"] is None else float(said["lowest"]),
            highest=0.0 if table.notes.get("clip_upper", math.inf) <= 0 else math.inf,
        )


def _tree_of(coded: CodedGroups, rows: Sequence[NDArray[np.int64]], names: tuple[str, ...]) -> LabelTree:
    ids = tuple(tuple(coded.labels[1][code] for code in coded.codes[1][each[:, 0]].tolist()) for each in rows)
    parents, starts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for level in range(1, len(names)):
        at = {label: place for place, label in enumerate(ids[level - 1])}
        above = [coded.labels[2][code] for code in coded.codes[2][rows[level][:, 0]].tolist()]
        parents.append(np.array([at[label] for label in above], np.int64))
        starts.append(np.searchsorted(parents[-1], np.arange(len(ids[level - 1]))))
    return LabelTree(
        names=names,
        ids=ids,
        parents=tuple(parents),
        starts=tuple(starts),
        order=np.arange(len(ids[-1]), dtype=np.int64),
    )
