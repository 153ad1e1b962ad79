"""A stated interval of the totals of persons is used as it is given, and numbers about other rows are not mixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.noise import Source
from sidelight.summaries.sum import PreparedSum
from sidelight.testing import SeededEntropy, seeded_release

GROUPS = ["a", "b"]


def schema_of(*, max_rows: int = 2, lower: int = 0, upper: int = 20) -> sl.Schema:
    return sl.Schema(
        [
            sl.PersonId("id", max_rows=max_rows),
            sl.Number("x", lower=lower, upper=upper, granularity=1),
            sl.Category("g", GROUPS, other=None),
        ]
    )


def visits(schema: sl.Schema, people: int = 100, rows: int = 6, x: int = 10) -> sl.Table:
    """Everybody has more rows than `max_rows`, half of them in each group."""
    ids = np.repeat(np.arange(people), rows)
    return sl.Table({"id": ids, "x": [x] * len(ids), "g": (GROUPS * len(ids))[: len(ids)]}, schema=schema, name="t")


STATED: list[dict[str, Any]] = [
    {"person_total": 1000},
    {"clip": (0, 1000)},
    {"clip": (0, 100), "person_total": 1000},
    {"clip": (0, 1000), "person_total": 100},
    {"by": "g", "person_total": 1000},
    {"by": "g", "max_groups": 2, "clip": (0, 1000)},
    {"by": "g", "max_groups": 2, "clip": (0, 100), "person_total": 1000},
]


@pytest.mark.parametrize("options", STATED, ids=str)
@pytest.mark.parametrize("declared", [{}, {"lower": -5}], ids=str)
def test_a_stated_interval_holds_all_rows_whatever_max_rows_is(options: dict[str, Any], declared: Any) -> None:
    """It was replaced by 2 times 20, `max_rows` times the bound of a row, and a third of the sum was lost."""
    table = visits(schema_of(**declared))
    value = seeded_release(sl.Sum("x", epsilon=1000, **options), table, seed=1).value
    assert value["unbiased"].sum() == pytest.approx(6000, abs=50)
    used = [value.notes[name] for name in ("clip_upper", "person_total") if name in value.notes]
    assert used in ([1000], [100])
    groups = options.get("max_groups", 1)
    assert value["noise_sd"][0] <= 2**0.5 * used[0] * groups / 1000


def _exact(query: sl.Sum, table: sl.Table) -> tuple[Any, Any]:
    prepared = query.prepare(table.schema)
    assert isinstance(prepared, PreparedSum)
    source = Source(SeededEntropy("stated totals"))
    found = prepared._in_one_interval(table, prepared.plan.known, source).found
    return np.asarray(found.value, dtype=np.int64), found.sensitivity


@pytest.mark.parametrize("options", [STATED[0], STATED[1], STATED[4], STATED[5]], ids=str)
@pytest.mark.parametrize("declared", [{}, {"lower": -20, "upper": 20}, {"lower": -20, "upper": 0}], ids=str)
def test_one_person_moves_the_sums_by_what_was_stated(options: dict[str, Any], declared: Any) -> None:
    """Persons of up to 400 rows, of 20 each: the sensitivity holds, and is attained."""
    schema, moved = schema_of(**declared), []
    if options.get("clip") and declared.get("upper") == 0:
        options = options | {"clip": (-1000, 0)}
    ends = [end for end in (declared.get("lower", 0), declared.get("upper", 20)) if end]
    for rows in (1, 2, 40, 52, 400):
        for x in ends:
            ids = [0, 0, 1, 2] + [9] * rows
            cells = {"id": ids, "x": [10] * 4 + [x] * rows, "g": (GROUPS * len(ids))[: len(ids)]}
            less = {name: column[:4] for name, column in cells.items()}
            query = sl.Sum("x", epsilon=1, **options)
            (more, sensitivity), (gone, _) = (_exact(query, sl.Table(each, schema=schema)) for each in (cells, less))
            moved.append(int(np.abs(more - gone).sum()))
    assert max(moved) == sensitivity


def test_the_note_says_that_totals_are_clipped() -> None:
    release = seeded_release(sl.Sum("x", epsilon=1, clip=(0, 50)), visits(schema_of()), seed=1)
    assert release.value.notes["rows_counted"] == (
        "all rows of a person in a group as one total; what lies beyond the clip is left out, and unclipped totals may "
        "give another number"
    )


@pytest.mark.parametrize(
    "asked",
    [
        "SUM(x) / COUNT(*)",
        "SUM(x) / NULLIF(COUNT(x), 0)",
        "ROUND(1.0 * SUM(x) / COUNT(*), 2), STDDEV(x)",
        "SUM(x) - 10 * COUNT(*)",
        "SUM(x) / AVG(x)",
        "CASE WHEN COUNT(*) > 3 THEN SUM(x) / COUNT(*) ELSE 0 END",
    ],
)
def test_arithmetic_of_all_rows_and_of_capped_rows_is_refused(asked: str) -> None:
    """Where every x is 10 a quotient was 20, with the interval 20 to 20."""
    with pytest.raises(RangeError, match=r"sum_x adds up all rows of a person, and .* write AVG"):
        sl.SQL(f"SELECT {asked} AS m FROM t", epsilon=1).prepare(schema_of())
    alone = asked.removesuffix(", STDDEV(x)")
    for more in (f"HAVING {alone} > 1", f"ORDER BY {alone}"):
        with pytest.raises(RangeError, match="sum_x adds up all rows"):
            sl.SQL(f"SELECT g, COUNT(*) FROM t GROUP BY g {more}", epsilon=1, max_groups=1).prepare(schema_of())


@pytest.mark.parametrize(
    "asked",
    [
        "SUM(x), COUNT(*)",
        "SUM(x) / COUNT(DISTINCT id)",
        "SUM(x) / SUM(x + 1)",
        "AVG(x) * COUNT(*)",
        "CASE WHEN COUNT(*) > 3 THEN SUM(x) END * 2",
    ],
)
def test_numbers_about_the_same_rows_are_computed_with(asked: str) -> None:
    sl.SQL(f"SELECT {asked} FROM t", epsilon=1).prepare(schema_of())


def test_a_quotient_of_limited_rows_is_right() -> None:
    statement = sl.SQL("SELECT SUM(x) / COUNT(*) AS m FROM t", epsilon=10_000, max_rows_per_group=2)
    shown = seeded_release(statement, visits(schema_of()), seed=1).shown
    assert shown["m"][0] == pytest.approx(10, abs=0.1)
    whole = sl.SQL("SELECT SUM(x) / COUNT(*) AS m FROM t", epsilon=1)
    whole.prepare(sl.Schema(schema_of().columns[1:]))  # rows that are their own units
