"""What is declared of a person's groups holds, whatever a query asks for."""

from __future__ import annotations

import sidelight as sl
from sidelight.aggregates.groups import groups_of


def test_a_declaration_is_a_limit_that_no_query_lifts() -> None:
    schema = sl.Schema([sl.PersonId("who", max_rows=5), sl.Category("g", ["a", "b", "c"], other=None, per_person=1)])
    assert groups_of(schema, by="g", max_groups=3).norms.groups == 1
    assert groups_of(schema, by="g").norms.groups == 1


def test_a_person_with_one_row_is_in_one_group() -> None:
    schema = sl.Schema([sl.PersonId("who", max_rows=1), sl.Category("g", ["a", "b"], other=None)])
    assert groups_of(schema, by="g").norms.total == 1
    assert sl.Count(by="g", epsilon=1).prepare(schema).claims.pure() is not None


def test_the_total_of_one_row_is_the_row() -> None:
    columns = [
        sl.PersonId("who", max_rows=1),
        sl.Category("g", ["a", "b"], other=None),
        sl.Number("x", lower=0, upper=5),
    ]
    prepared = sl.Sum("x", by="g", epsilon=1).prepare(sl.Schema(columns))
    assert prepared.request["per"] == "row"
    assert prepared.claims.pure() is not None
