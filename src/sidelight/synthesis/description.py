"""The public description of a synthetic table's query, in strings: equal for equal queries, different for others.

A ledger keeps it, and answers a repeated key only if the description is the same. So all that changes what is released
must be in it: the queries themselves, not only the columns they are about, and what becomes of unusual cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sidelight.records import Fill
from sidelight.records.numbers import exact_number, number_text
from sidelight.synthesis.cells.axes import Axis, Labels
from sidelight.synthesis.cells.domain import Domain
from sidelight.synthesis.cells.workload import LinearQueries, Marginals, Part, Workload


def describe_workload(workload: Workload, domain: Domain) -> list[dict[str, Any]]:
    """Describe what is asked, part by part.

    >>> from sidelight.synthesis.cells.workload import marginals, prefixes
    >>> describe_workload(marginals(2) + prefixes("b"), Domain(("a", "b", "c"), (2, 3, 4)))
    [{'marginals': '2', 'columns': ['a', 'b', 'c']}, {'prefixes': 'b'}]
    """
    return [_part(each, domain) for each in workload.parts]


def _part(part: Part, domain: Domain) -> dict[str, Any]:
    if isinstance(part, Marginals):
        if part.sets is not None:
            return {"marginals": [list(each) for each in part.attribute_sets(domain)]}
        names = domain.columns if part.columns is None else domain.in_order(part.columns)
        return {"marginals": str(part.ways), "columns": list(names)}
    if isinstance(part, LinearQueries):
        (block,) = part.blocks(domain)
        return {
            "linear_queries": str(block.count),
            "columns": list(block.columns),
            "lower": number_text(exact_number(part.lower, name="lower")),
            "upper": number_text(exact_number(part.upper, name="upper")),
            "sha256": block.digest,
        }
    return {"ranges" if part.ranges else "prefixes": part.column}


def describe_policies(axes: Sequence[Axis]) -> list[dict[str, str]]:
    """Return what becomes of labels that are not listed and of missing cells, column by column."""
    return [_policy(each) for each in axes]


def _policy(axis: Axis) -> dict[str, str]:
    if isinstance(axis, Labels):
        category = axis.category
        other = "drop" if category.other is None else f"to {category.other}"
        written = {"column": axis.name, "other": other}
        missing = category.missing
        fill = str(missing.value) if isinstance(missing, Fill) else None
        usual = other if missing is None else "drop"
    else:
        written = {"column": axis.name}
        missing = axis.number.missing
        fill = number_text(exact_number(missing.value, name="fill")) if isinstance(missing, Fill) else None
        usual = "drop"
    return written | {"missing": "keep" if axis.keeps_missing else usual if fill is None else f"to {fill}"}
