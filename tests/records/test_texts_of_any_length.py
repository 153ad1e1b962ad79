"""One cell decides about no other: not about how long a table takes to read, whatever its length and marks are."""

from __future__ import annotations

import time

import sidelight as sl
from sidelight.records.date_formats import DateFormat
from sidelight.records.readings import composed

#: Marks above one letter that Unicode wants sorted, in the worst order.
MARKS = "a" + "\u0301\u0323" * 200_000


def test_a_text_with_many_marks_is_read_at_once() -> None:
    columns = [
        sl.Label("k"),
        sl.Label("k", casefold=True, missing_texts=["?"]),
        sl.Category("k", ["b"], casefold=True),
        sl.PersonId("k", max_rows=1, casefold=True),
    ]
    start = time.process_time()
    for column in columns:
        table = sl.Table(
            {"k": ["b"] * 20 + [MARKS], "x": [1.0] * 21}, schema=[column, sl.Number("x", lower=0, upper=1)]
        )
        by = () if isinstance(column, sl.PersonId) else "k"
        sl.Count(by=by, epsilon=1, **({"delta": "1e-6"} if isinstance(column, sl.Label) else {})).release(table)
    assert time.process_time() - start < 20  # the marks of this one cell took minutes


def test_a_date_that_is_a_long_text_is_refused_at_once() -> None:
    start = time.process_time()
    assert DateFormat("%a%B%d %Y", 2030).minutes("x" * 100_000) is None
    assert time.process_time() - start < 5


def test_texts_of_usual_length_are_composed_and_others_stay_as_they_are() -> None:
    assert composed("e\u0301") == "\xe9"
    assert composed("e\u0301" * 500) == "\xe9" * 500
    assert composed("e\u0301" * 501) == "e\u0301" * 501
