"""Where totals of a hierarchy are published exactly: what the rows must be, and the bounds of kept neighbours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sidelight.aggregates.groups import Groups
from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import Neighbours, Row
from sidelight.records import Schema
from sidelight.records.columns import Category
from sidelight.records.hierarchy import LabelTree


def kept_groups(query: Any, schema: Schema, groups: Groups, tree: LabelTree, level: int) -> Groups:
    """Return the groups with the bounds of kept neighbours, where exact totals are those of what is measured.

    Refused is whatever could leave a row out: the exact total would be that of other rows than the noisy counts, and a
    row that is left out could stand for one that is not.
    """
    if groups.unit != Row():
        raise SchemaError(
            "invariants are for tables in which the row is protected: rows of a person are bounded, and totals of "
            "bounded rows are not the totals that a law asks for"
        )
    known = query.hierarchy
    given = {"public_totals": known.public_totals, "impossible": known.impossible, "where": query.where}
    for name, each in given.items():
        if each is not None:
            raise SchemaError(f"invariants are totals of all rows; leave {name} out")
    for key in query.keys:
        column = next((each for each in schema.columns if each.name == key), None)
        if not isinstance(column, Category) or column.unknown_code is None or column.missing_code is None:
            raise SchemaError(
                f"invariants are totals of all rows, and {key!r} can leave rows out; declare it as a Category with a "
                "label for what is not listed, other='other'"
            )
    if level == tree.depth and len(query.keys) == 1:
        raise RangeError(
            f"exact totals of {tree.names[level]!r} leave nothing to measure; name a level above the leaves"
        )
    return replace(groups, norms=replace(groups.norms, neighbours=Neighbours.KEPT))
