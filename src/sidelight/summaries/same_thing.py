"""Whether an earlier release is about what a query asks: only then it is a prediction of it.

A release says by its own request what it is. Counts are no means, a mean of ages is none of incomes, and persons are no
rows: taken for one another they would draw every group to nonsense, without a word. A bare table says nothing of the
kind: who means it passes `release.value`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sidelight.errors import RangeError
from sidelight.group_table import GroupTable
from sidelight.release import Release
from sidelight.summaries.predicted import Predicted

#: What else predicts a kind, beside itself.
_ALSO: dict[str, tuple[str, ...]] = {"top_k": ("count",), "count": ("top_k",)}
#: The column of a table that holds the number of a kind, where a statement asks it and a table predicts it.
_NUMBERS = {"count": "count", "sum": "sum", "mean": "mean", "proportion": "proportion"}
#: What must be the same where both say it, and how it is told.
_SAME = {"of": "of {}", "per": "per {}", "distinct": "of different {}"}


def check_same_thing(prediction: Any, asked: Mapping[str, Any]) -> None:
    """Refuse earlier releases that are about something else than a request. All of it is public.

    Args:
        prediction: What the user gave: a release, `Predicted` of one, several, or one for each column. Anything else
            passes.
        asked: The request of the query: its kind, `by`, `column` and so on.
    """
    if isinstance(prediction, Predicted):
        check_same_thing(prediction.table, asked)
    elif isinstance(prediction, Release):
        _check(prediction.query, asked)
    elif isinstance(prediction, (list, tuple)):
        for each in prediction:
            check_same_thing(each, asked)
    elif isinstance(prediction, Mapping) and isinstance(asked.get("column"), list):
        for column, each in prediction.items():
            check_same_thing(each, {**asked, "column": str(column)})


def of_statement(prediction: Any, *, kind: str, by: Sequence[str], column: Any) -> Any:
    """Return the number of an earlier SQL release that a query asks, as a release of its own; None if it has none.

    Args:
        prediction: What the user gave: the release, or `Predicted` of it.
        kind: The kind of the query that asks.
        by: Its key columns.
        column: What it is about, if it has a subject.
    """
    if isinstance(prediction, Predicted):
        found = of_statement(prediction.table, kind=kind, by=by, column=column)
        return None if found is None else replace(prediction, table=found)
    if not isinstance(prediction, Release) or prediction.kind != "sql" or not isinstance(prediction.value, GroupTable):
        return None
    wanted, table = _NUMBERS.get(kind), prediction.value
    for name, part, number in prediction.query.get("numbers", ()):
        asked = prediction.query["queries"][int(part)]
        same = number == wanted and {*_listed(asked.get("by"))} == {*by}
        if same and (column is None or str(column) == str(asked.get("column"))):
            value = GroupTable(keys=table.keys_of_groups, groups=table.groups, columns={number: table[name]})
            of = {"of": asked.get("of", "rows")} if kind == "count" else {}
            query = {key: asked[key] for key in ("by", "column") if key in asked}
            return replace(prediction, value=value, query={"kind": kind, **query, **of})
    return None


def _check(earlier: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    same_kind = earlier.get("kind") == asked["kind"]
    fits = same_kind or earlier.get("kind") in _ALSO.get(asked["kind"], ())
    fits &= {*_listed(earlier.get("by"))} == {*_listed(asked.get("by"))}
    if same_kind:
        fits &= {*_listed(asked.get("column"))} <= {*_listed(earlier.get("column"))}
    fits &= all(earlier[key] == asked[key] for key in _SAME if key in earlier and key in asked)
    if not fits:
        raise RangeError(
            f"the prediction is an earlier release of another thing, {_told(earlier)}, and this query asks "
            f"{_told(asked)}; predict it by a release of the same, or pass its table, release.value, if you mean it"
        )


def _listed(given: Any) -> Sequence[str]:
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


def _told(request: Mapping[str, Any]) -> str:
    kind = str(request.get("kind")).replace("_", " ")
    column = ", ".join(_listed(request.get("column")))
    words = [f"{kind} of {column}" if column else kind]
    words += [form.format(request[key]) for key, form in _SAME.items() if key in request]
    by = ", ".join(_listed(request.get("by")))
    return " ".join([*words, f"by {by}" if by else "of all rows"])
