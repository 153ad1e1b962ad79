"""The cells of CSV lines: what a line means, that blocks agree with single lines, and that no line touches another."""

from __future__ import annotations

import gzip
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidelight.records.engines.lines import blocks_of
from sidelight.records.engines.splitting import cells_of_line, split

LIMIT = 40
#: Bytes that readers trip over, and some that they do not.
PIECES = [b'"', b'""', b",", b";", b"\t", b"\r", b"\0", b"\xff", b"\xc3", b"\xa9", b"\xc3\xa9", b"\xed\xa0\x80", b"7"]
PIECES += [b"a", b" ", b"\\", b"#", b"'", b"\xef\xbb\xbf", b"\x85", b"\x0b", b"\x1a", b'"a,b"', b"1.5,", b"x" * 30]
nasty = st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)
lines = st.one_of(nasty, st.binary(max_size=50).map(lambda content: content.replace(b"\n", b"")))
files = st.lists(lines, max_size=8)
delimiters = st.sampled_from([",", ";", "\t", "|"])
WIDTH = 4


def one_by_one(given_lines: list[bytes], delimiter: str = ",") -> list[tuple[str, ...]]:
    """Return the records by the definition: each line by itself."""
    found = [cells_of_line(line, delimiter, limit=LIMIT) for line in given_lines]
    return [tuple((cells + [""] * WIDTH)[:WIDTH]) for cells in found if cells is not None]


def all_at_once(block: bytes, delimiter: str = ",") -> list[tuple[str, ...]]:
    batch = split(block, delimiter, range(WIDTH), limit=LIMIT)
    batch.validate(full=True)
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        (b"a,b", ["a", "b"]),
        (b"", None),
        (b"\r", None),
        (b"a\r", ["a"]),
        (b"\ra\r\r", ["\ra\r"]),
        (b",", ["", ""]),
        (b'"a,b",c', ["a,b", "c"]),
        (b'"a ""b"", c",""', ['a "b", c', ""]),
        (b'""""', ['"']),
        (b'a"b"c,d', ['a"b"c', "d"]),
        (b'3""0,d', ['3""0', "d"]),
        (b' "a,b" ,c', [' "a,b" ', "c"]),
        (b'"a"b"c"', ['a"b"c']),
        (b'"30,x', []),
        (b'30,"x', []),
        (b'"""', []),
        (b"\xff,\xc3\xa9,\xc3", ["", "é", ""]),
        (b"x" * LIMIT, ["x" * LIMIT]),
        (b"x" * (LIMIT + 1), []),
        (b"\0,\\", ["\0", "\\"]),
    ],
)
def test_what_a_line_means(line, cells):
    assert cells_of_line(line, ",", limit=LIMIT) == cells
    assert all_at_once(line + b"\n") == one_by_one([line])


@given(files, delimiters)
@example([b'""""\r', b'"', b"", b'"'], ",")
@example([b"\xc3", b"\xa9", b"\xc3,\xa9"], ",")
@settings(max_examples=400, deadline=None)
def test_a_block_gives_what_its_lines_give(given_lines, delimiter):
    block = b"".join(line + b"\n" for line in given_lines)
    assert all_at_once(block, delimiter) == one_by_one(given_lines, delimiter)


@given(files, st.integers(0, 8), lines)
@settings(max_examples=300, deadline=None)
def test_one_line_more_is_at_most_one_record_more(given_lines, place, line):
    more = [*given_lines[:place], line, *given_lines[place:]]
    before, after = (Counter(all_at_once(b"".join(each + b"\n" for each in some))) for some in (given_lines, more))
    assert not before - after
    assert sum((after - before).values()) <= 1


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("lines")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
@given(files, st.integers(1, 90), st.booleans())
@settings(max_examples=150, deadline=None)
def test_the_size_of_blocks_changes_nothing(place, suffix, given_lines, size, closed):
    path = place / f"t{suffix}"
    content = b"\n".join([b"a,b", *given_lines]) + b"\n" * closed
    path.write_bytes(gzip.compress(content, 1) if suffix.endswith("gz") else content)
    found = []
    for block in blocks_of(str(path), size=size, limit=LIMIT):
        assert block.endswith(b"\n")
        assert len(block) <= max(LIMIT + 1, size) + size + 1
        found += all_at_once(block)
    assert found == one_by_one(given_lines)


def test_a_reader_that_lets_quotes_run_on_is_noticed(tmp_path):
    """The negative control: Python's own reader gives other records for a line more."""
    import csv

    given_lines = ["1,2", "3,4", "5,6"]
    before = Counter(map(tuple, csv.reader(given_lines)))
    after = Counter(map(tuple, csv.reader([given_lines[0], '"', *given_lines[1:]])))
    assert sum((before - after).values()) == 2
