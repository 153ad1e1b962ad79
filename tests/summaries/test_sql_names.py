"""Numbers of a statement may be called like columns of this library: they are shown as what they are."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

import sidelight as sl
from sidelight.group_table import GroupTable
from sidelight.report import Item, Report, render
from sidelight.table_texts import statistics_of
from sidelight.testing import seeded_release

#: Every word that a column of this library ends with, and what users call their numbers.
WORDS = [
    *("low", "high", "predicted", "plain", "unbiased", "noisy_count", "noise_sd", "pooled", "known"),
    *("exact", "count", "count_unbiased", "rank", "n", "mean", "q50", "m_predicted", "m_plain", "m_known", "m_exact"),
]
TABLE = sl.Table(
    {"x": [0.25, 0.5, 0.75] * 600, "y": [2.5, 5.5, 8.5] * 600, "g": ["a", "b", "c"] * 600},
    schema=[
        sl.Number("x", lower=0, upper=1),
        sl.Number("y", lower=0, upper=9),
        sl.Category("g", ["a", "b", "c"], other=None),
    ],
)


def asked(select: str) -> sl.Release[GroupTable]:
    return seeded_release(sl.SQL(f"SELECT g, {select} FROM people GROUP BY g", epsilon=300), TABLE, seed=1)


def printed(release: sl.Release[GroupTable]) -> dict[str, str]:
    """Return the printed numbers of the first group by their names."""
    (line,) = (line.split() for line in str(release).splitlines() if line.split()[:1] == ["a"])
    return dict(zip(release.shown, line, strict=True))


def page(release: sl.Release[GroupTable]) -> str:
    text = render(Report(title="t", day="2026-01-01", items=(Item(title="x", outcome=release),)))
    return text.partition('<table class="bygroup">')[2].partition("</table>")[0]


def titles(release: sl.Release[GroupTable]) -> list[str]:
    return [unescape(each) for each in re.findall(r"<th[^>]*>([^<]+)</th>", page(release).partition("</tr>")[0])]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(
    "select", ["SUM(x) AS m, AVG(y) AS {}", "AVG(y) AS {}, SUM(x) AS m", "SUM(x) AS m, AVG(y) / 2 AS {}"]
)
def test_a_number_of_any_name_is_a_number_of_its_own(word: str, select: str) -> None:
    """`AS known` was missing in the report, `AS predicted` was drawn as a prediction, `AS count` lost its decimals."""
    release = asked(select.format(word))
    for each in (release, sl.Release.from_json(release.to_json())):
        assert {word, "m"} <= set(statistics_of(each.shown)) <= set(statistics_of(each.value)) | {word}
        assert {"interval", "m", word.replace("_", " ")} <= set(titles(each))
        assert "predicted" not in set(titles(each)) - {word.replace("_", " ")}
        assert float(printed(each)[word]) == pytest.approx(float(each.shown[word][0]), rel=1e-4)


def test_a_count_is_whole_only_where_it_counts() -> None:
    shares = asked("AVG(x) AS count")
    assert float(printed(shares)["count"]) == pytest.approx(0.25, abs=0.01)
    parts = asked("COUNT(*) * SUM(x) * SUM(y) / 1000000000 AS count")
    assert "no_interval" in parts.shown.notes
    assert ">0.13" in page(parts)
    whole = asked("COUNT(*) AS count")
    assert printed(whole) == {"g": "a", "count": "600", "count_low": "600", "count_high": "600"}


def test_two_numbers_called_low_and_high_are_no_interval() -> None:
    flagged = asked("CASE WHEN AVG(y) > 4 THEN 1 ELSE 0 END AS flag, AVG(x) AS low, AVG(y) AS high")
    assert titles(flagged) == ["g", "flag", "low", "interval", "high", "interval"]
    assert 'aria-label="flag 0"' in page(flagged)
    assert titles(asked("AVG(x) AS low, AVG(y) AS high")) == ["g", "low", "interval", "high", "interval"]


def test_numbers_called_like_flags_are_no_flags() -> None:
    release = asked("COUNT(*) AS pooled, COUNT(*) AS supported, COUNT(*) AS exact")
    assert "pooled:" not in str(release)
    assert titles(release) == ["g", "pooled", "interval", "supported", "interval", "exact", "interval"]


def test_a_release_of_an_older_version_is_shown_so() -> None:
    """The names stand in the request, which older versions wrote as well."""
    data = json.loads(asked("AVG(x) AS actual, AVG(y) AS predicted").to_json())
    assert "asked_for" not in json.dumps(data)
    read = sl.Release.from_json(json.dumps(data))
    assert statistics_of(read.value) == ["actual", "predicted"]


def test_longer_tables_say_in_html_how_much_they_leave_out() -> None:
    labels = [f"g{place:03d}" for place in range(101)]
    table = GroupTable(keys=["g"], groups=[(label,) for label in labels], columns={"count": [1] * 101})
    assert "... and 81 more groups" in repr(table).splitlines()
    assert "<p>... and 81 more groups</p>" in table._repr_html_()
    assert "more groups" not in GroupTable(keys=["g"], groups=[("a",)], columns={"count": [1]})._repr_html_()
