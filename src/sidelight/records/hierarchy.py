"""`Hierarchy`: a column of labels whose ancestors are public, such as block > tract > county > state.

A hierarchy is public: it is fixed before any row is read and never learned from rows. With the labels that a schema
declares it becomes a `LabelTree`, in which the children of a node lie next to each other.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import SchemaError, nearest
from sidelight.records.columns import Category
from sidelight.records.expression_text import parse_expression
from sidelight.records.expressions import Expression
from sidelight.records.schema import Schema
from sidelight.records.table import Table

#: The name of the root: its level, and its only node.
ROOT = "all"
_MOST_LEVELS = 12

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Hierarchy:
    """Declare the public ancestors of a column's labels.

    It stands in `by=` of `sl.Count`, `sl.Sum` and `sl.Mean`, alone or with other columns: every level is released, and
    children add up to their parents. Ancestors must be public, as labels are: a frame made from the private rows would
    void the guarantee.

    Args:
        column: The column of the leaves, a declared `Category`; its name is that of the finest level.
        ancestors: Of labels that begin with their ancestors, the length of each level: `{"county": 5, "state": 2}`;
            else a public frame (or a mapping of columns) with the column itself and one for each level.
        levels: Of a frame: its columns from the coarsest to the finest.
        fill: Of a frame: whether an ancestor that is missing is the one above it; otherwise it is refused.
        caps: Of counts and sums: the largest half-width by level, `{"county": 25}`, of the worst cell, at the
            confidence, each cell by itself. Met by the way the price is shared, or refused with the price that would
            meet it.
        public_totals: Of counts and sums: totals known from elsewhere, `{"state": {"37": 10439388, ...}}` or a frame
            with level, id and value. Where they are not those of the values that count (clipped, and of at most the
            capped rows) `unbiased` and intervals are wrong.
        impossible: Of counts: a condition on columns of `by` that no row can meet. Such cells are 0 and have no noise,
            and rows that meet it are left out before counting, also where a column has a label for what is not listed.
            What is only improbable is not impossible.
        invariants: Of counts: totals of the table itself that a law has published exactly, `sl.Invariant("state",
            reason="...")`. They change what is protected, to replacing a row by one with the same totals.
        id_column: What the table calls the column of its nodes' labels: "GEOID" to join a map by that name.

    >>> import sidelight as sl
    >>> places = sl.Hierarchy("tract", {"county": 3, "state": 1})
    >>> places.names
    ('all', 'state', 'county', 'tract')
    >>> tree = places.tree(["1011", "1012", "1021", "2011"])
    >>> tree.sizes, tree.ids[2]
    ((1, 2, 3, 4), ('101', '102', '201'))
    """

    column: str
    ancestors: Any
    _: KW_ONLY
    levels: Sequence[str] | None = None
    fill: bool = False
    caps: Mapping[str, float] | None = None
    public_totals: Any = None
    impossible: Expression | str | None = None
    invariants: Any = None
    id_column: str = "id"
    names: tuple[str, ...] = field(init=False, default=())
    _paths: Mapping[str, tuple[str, ...]] | None = field(init=False, default=None)
    _lengths: tuple[int, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise SchemaError("a hierarchy needs the name of the column of its leaves")
        if not isinstance(self.id_column, str) or not self.id_column:
            raise SchemaError(f"id_column is the name of a column of the table that comes out, got {self.id_column!r}")
        if isinstance(self.impossible, str):
            object.__setattr__(self, "impossible", parse_expression(self.impossible))
        elif self.impossible is not None and not isinstance(self.impossible, Expression):
            kind = type(self.impossible).__name__
            raise SchemaError(f"impossible is a condition on columns of by, or its text, got {kind}")
        if isinstance(self.ancestors, Table):
            raise SchemaError(
                "the ancestors of a hierarchy are public, and an sl.Table holds private rows; give a frame that anyone "
                "may see, or the lengths of prefixes"
            )
        if isinstance(self.ancestors, Mapping) and all(_is_whole(each) for each in self.ancestors.values()):
            if self.levels is not None or self.fill:
                raise SchemaError("levels and fill are for a frame of ancestors; prefixes have a length for each level")
            named = sorted(self.ancestors.items(), key=lambda each: int(each[1]))
            self._set(tuple(str(name) for name, _ in named), lengths=tuple(int(length) for _, length in named))
        else:
            if isinstance(self.levels, str) or not self.levels:
                raise SchemaError(
                    "a frame of ancestors needs levels=[...], its columns from the coarsest to the finest"
                )
            wanted = tuple(str(level) for level in self.levels)
            self._set(wanted, paths=_read_paths(self.ancestors, self.column, wanted, fill=self.fill))

    def _set(
        self, names: tuple[str, ...], *, lengths: tuple[int, ...] = (), paths: dict[str, tuple[str, ...]] | None = None
    ) -> None:
        if not 1 <= len(names) <= _MOST_LEVELS:
            raise SchemaError(f"a hierarchy has 1 to {_MOST_LEVELS} levels above its leaves, got {len(names)}")
        if len({ROOT, *names, self.column}) != len(names) + 2:
            raise SchemaError(f"levels need different names, and none is {ROOT!r} or the column's, {self.column!r}")
        if lengths and (lengths[0] < 1 or len(set(lengths)) != len(lengths)):
            raise SchemaError(f"prefixes have different lengths of at least 1, got {', '.join(map(str, lengths))}")
        object.__setattr__(self, "names", (ROOT, *names, self.column))
        object.__setattr__(self, "_lengths", lengths)
        object.__setattr__(self, "_paths", paths)
        object.__setattr__(self, "ancestors", dict(zip(names, lengths, strict=True)) if lengths else self.ancestors)

    def __repr__(self) -> str:
        return f"Hierarchy({' > '.join(self.names[1:])})"

    def __str__(self) -> str:
        return self.column

    def of(self, schema: Schema) -> LabelTree:
        """Return the tree over the labels that a schema declares."""
        column = next((each for each in schema.columns if each.name == self.column), None)
        if not isinstance(column, Category):
            raise SchemaError(f"the leaves of a hierarchy are labels of a Category; declare {self.column!r} as one")
        return self.tree(column.labels, other=column.other)

    def tree(self, labels: Sequence[str], *, other: str | None = None) -> LabelTree:
        """Return the tree over some labels.

        Args:
            labels: The leaves, in the order of their codes.
            other: The label of what is not listed, which lies under nodes of that name.
        """
        columns: list[NDArray[Any]]
        columns = self._prefixes(labels, other) if self._paths is None else self._looked_up(labels, other)
        if self._paths is None:  # what begins alike lies together, and the label of what is not listed comes last
            order = sorted(range(len(labels)), key=labels.__getitem__)
            order.sort(key=[label == other for label in labels].__getitem__)
        else:
            paths = list(zip(*(column.tolist() for column in columns), labels, strict=True))
            order = sorted(range(len(labels)), key=paths.__getitem__)
        return _grown(self.names, labels, columns, order)

    def _prefixes(self, labels: Sequence[str], other: str | None) -> list[NDArray[Any]]:
        shortest = min(labels, key=len, default="")
        if shortest == other:
            shortest = min((label for label in labels if label != other), key=len, default="")
        if self._lengths and len(shortest) <= self._lengths[-1]:
            raise SchemaError(
                f"level {self.names[-2]!r} is the first {self._lengths[-1]} characters, and label {shortest!r} of "
                f"{self.column!r} has no more; every label is longer than its ancestors (are leading zeros lost?)"
            )
        found = [np.array(labels, f"<U{length}") for length in self._lengths]  # longer texts are cut there
        if other is not None and other in labels:
            place = labels.index(other)
            found = [column.astype(np.promote_types(column.dtype, f"<U{len(other)}")) for column in found]
            for column in found:
                column[place] = other
        return found

    def _looked_up(self, labels: Sequence[str], other: str | None) -> list[NDArray[Any]]:
        paths, depth = self._paths, len(self.names) - 2
        assert paths is not None
        missing = [label for label in labels if label not in paths and label != other]
        if missing:
            raise SchemaError(
                f"{len(missing)} of the {len(labels)} labels of {self.column!r} have no ancestors, {missing[0]!r} for "
                f"one; {nearest(missing[0], list(paths)[:2000])}"
            )
        found = [paths.get(label, (str(other),) * depth) for label in labels]
        return [np.array(column) for column in zip(*found, strict=True)]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LabelTree:
    """Labels with all their ancestors: the nodes of each level in order, children of a node next to each other.

    Args:
        names: Of the levels, from the root to the leaves.
        ids: The labels of the nodes, by level.
        parents: For each level, the place of each node's parent in the level above; none for the root.
        starts: For each level below the root, the place of the first child of each node above.
        order: The code of each leaf in the list that the tree was made of.
    """

    names: tuple[str, ...]
    ids: tuple[tuple[str, ...], ...]
    parents: tuple[Places, ...]
    starts: tuple[Places, ...]
    order: Places

    @property
    def depth(self) -> int:
        """The number of the level of the leaves; the root's is 0."""
        return len(self.names) - 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of nodes by level."""
        return tuple(len(ids) for ids in self.ids)

    def up(self, values: NDArray[Any], level: int) -> NDArray[Any]:
        """Add the values of a level's nodes (the first axis) up to their parents."""
        return np.asarray(np.add.reduceat(values, self.starts[level], axis=0))

    @cached_property
    def leaves_below(self) -> tuple[Places, ...]:
        """How many leaves each node has, by level."""
        found = [np.ones(self.sizes[-1], np.int64)]
        for level in range(self.depth, 0, -1):
            found.insert(0, self.up(found[0], level))
        return tuple(found)

    def level(self, name: str) -> int:
        """Return the number of a level by its name."""
        if name not in self.names:
            raise SchemaError(f"no level {name!r}; {nearest(name, list(self.names))}")
        return self.names.index(name)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of levels, labels and ancestors."""
        mixed = hashlib.sha256(repr(self.names).encode())
        for ids, parents in zip(self.ids, self.parents, strict=True):
            mixed.update("\x1f".join(ids).encode("utf-8", "surrogatepass"))
            mixed.update(parents.astype("<i8").tobytes())
        return mixed.hexdigest()


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _read_paths(frame: Any, column: str, levels: tuple[str, ...], *, fill: bool) -> dict[str, tuple[str, ...]]:
    """Return the ancestors of each leaf of a public frame, the coarsest first."""
    if isinstance(frame, Mapping):
        found = {str(name): list(values) for name, values in frame.items()}
    else:
        import narwhals.stable.v2 as nw

        try:
            whole = nw.from_native(frame, eager_only=True)
        except TypeError:
            raise SchemaError(
                f"ancestors are {{level: length of the prefix}} or a frame with columns {column!r} and one for each "
                f"level, got {type(frame).__name__}"
            ) from None
        found = {name: whole[name].to_list() for name in whole.columns}
    for name in (column, *levels):
        if name not in found:
            raise SchemaError(f"the frame of ancestors has no column {name!r}; {nearest(name, list(found))}")
    if len({len(found[name]) for name in (column, *levels)}) != 1:
        raise SchemaError(
            f"columns of the frame of ancestors have different lengths; each has an entry for every leaf of {column!r}"
        )
    paths: dict[str, tuple[str, ...]] = {}
    for leaf, *above in zip(found[column], *(found[level] for level in levels), strict=True):
        path: list[str] = []
        for level, each in zip(levels, above, strict=True):
            if each is None or each != each or each == "":
                if not (fill and path):
                    raise SchemaError(
                        f"{leaf!r} has no {level!r} in the frame of ancestors; fill=True repeats the level above"
                    )
                each = path[-1]
            path.append(str(each))
        if paths.setdefault(str(leaf), tuple(path)) != tuple(path):
            raise SchemaError(f"{leaf!r} has two different ancestors in the frame; every label has one at each level")
    return paths


def _grown(
    names: tuple[str, ...], labels: Sequence[str], columns: Sequence[NDArray[Any]], order: list[int]
) -> LabelTree:
    """Number the nodes of every level, in the order of the leaves, in which children lie next to each other."""
    ids: list[tuple[str, ...]] = [(ROOT,)]
    parents = [np.zeros(0, np.int64)]
    starts = [np.zeros(0, np.int64)]
    above = np.zeros(len(labels), np.int64)
    places = np.array(order, np.int64)
    for depth in range(1, len(names)):
        changes = np.ones(len(labels), bool)
        if depth == len(names) - 1:  # every label is a leaf of its own
            first = np.arange(len(labels))
            found = tuple(labels[place] for place in order)
        else:
            texts = columns[depth - 1][places]
            changes[1:] = (texts[1:] != texts[:-1]) | (above[1:] != above[:-1])
            first = np.flatnonzero(changes)
            found = tuple(texts[first].tolist())
        if len(set(found)) != len(found):
            twice = next(text for text, often in Counter(found).items() if often > 1)
            raise SchemaError(
                f"{twice!r} of level {names[depth]!r} lies in two nodes of level {names[depth - 1]!r}; names are "
                "unique within a level: write the ancestor before it"
            )
        ids.append(found)
        parents.append(above[first])
        starts.append(np.searchsorted(parents[-1], np.arange(len(ids[-2]))))
        above = np.cumsum(changes) - 1
    return LabelTree(names=names, ids=tuple(ids), parents=tuple(parents), starts=tuple(starts), order=places)
