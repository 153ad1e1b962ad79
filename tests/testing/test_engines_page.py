"""The measured table of the page about engines has a line for every target, with what is wanted of it."""

from __future__ import annotations

from benchmarks.engines_page import BEGIN, END, PAGE, WORDS, row, written
from benchmarks.groups.engines import TARGETS
from benchmarks.target import Target


def test_the_page_has_every_target_and_what_is_wanted() -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = page.partition(BEGIN)[2].partition(END)[0]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.strip().splitlines()[2:]]
    assert [(words, wanted) for words, _, wanted in lines] == [
        (WORDS[target.figure], f"{target.limit:g}") for target in TARGETS
    ]
    assert {target.figure for target in TARGETS} == WORDS.keys()


def test_what_is_missed_or_skipped_says_so() -> None:
    target = Target("csv", dict, "csv", "<=", 1.5)
    assert row(target, 1.26).endswith("| 1.26 | 1.5 |")
    assert row(target, 1.51).endswith("| 1.51: missed | 1.5 |")
    assert row(target, float("nan")).endswith("| nan: missed | 1.5 |")
    skipped = Target("csv", dict, "csv", "<=", 1.5, "no Java")
    assert row(skipped, float("nan")).endswith("| not measured: no Java | 1.5 |")


def test_only_what_is_between_the_marks_is_written() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert written(page, "new") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
