"""The cells of CSV records: what a record means, that blocks agree with single records, and that none touches another.

The records of a file are defined here a second time, byte by byte, and blocks of any size must agree with that.
"""

from __future__ import annotations

import gzip
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidelight.records.engines.csv_records import blocks_of, cells_of, first_end, in_order, last_end, open_bytes, split

LIMIT = 40
#: Bytes that readers trip over, and some that they do not.
PIECES = [b'"', b'""', b",", b";", b"\t", b"\r", b"\0", b"\xff", b"\xc3", b"\xa9", b"\xc3\xa9", b"\xed\xa0\x80", b"7"]
PIECES += [b"a", b" ", b"\\", b"#", b"'", b"\xef\xbb\xbf", b"\x85", b"\x0b", b"\x1a", b'"a,b"', b"1.5,", b"x" * 30]
nasty = st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)
lines = st.one_of(nasty, st.binary(max_size=50).map(lambda content: content.replace(b"\n", b"")))
files = st.lists(lines, max_size=8)
#: Files in which nothing is sure: line feeds are as likely inside quotation marks as outside.
contents = st.lists(st.sampled_from([*PIECES, b"\n", b"\n", b"\r\n"]), max_size=40).map(b"".join)
delimiters = st.sampled_from([",", ";", "\t", "|"])
WIDTH = 4


def records_in(content: bytes, records: str) -> list[bytes]:
    """Return the records by the definition: cut at line feeds, or at those that are not between quotation marks."""
    found, inside = [b""], False
    for byte in content:
        inside ^= byte == ord('"') and records == "standard"
        if byte == ord("\n") and not inside:
            found.append(b"")
        else:
            found[-1] += bytes([byte])
    return found


def one_by_one(given_records: list[bytes], delimiter: str = ",") -> list[tuple[str, ...]]:
    """Return the cells by the definition: each record by itself."""
    found = [cells_of(record, delimiter, limit=LIMIT) for record in given_records]
    return [tuple((cells + [""] * WIDTH)[:WIDTH]) for cells in found if cells is not None]


def all_at_once(block: bytes, delimiter: str = ",", records: str = "lines") -> list[tuple[str, ...]]:
    batch = split(block, delimiter, range(WIDTH), records=records, limit=LIMIT)
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
        (b'""', [""]),
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
    assert cells_of(line, ",", limit=LIMIT) == cells
    assert all_at_once(line + b"\n") == one_by_one([line])
    if line.count(b'"') % 2 == 0:
        assert all_at_once(line + b"\n", records="standard") == one_by_one([line])


@pytest.mark.parametrize(
    ("record", "cells"),
    [
        (b'1,"one\ntwo, ""three""\r\n",2', ["1", 'one\ntwo, "three"\r\n', "2"]),
        (b'"\n\n\n"\r', ["\n\n\n"]),
        (b'"\n",', ["\n", ""]),
        (b'"' + b"\n" * LIMIT + b'"', []),
    ],
)
def test_what_a_record_with_line_breaks_means(record, cells):
    assert cells_of(record, ",", limit=LIMIT) == cells
    assert all_at_once(record + b"\n7,8\n", records="standard") == one_by_one([record, b"7,8"])


@given(files, delimiters)
@example([b'""""\r', b'"', b"", b'"'], ",")
@example([b"\xc3", b"\xa9", b"\xc3,\xa9"], ",")
@settings(max_examples=300, deadline=None)
def test_a_block_gives_what_its_lines_give(given_lines, delimiter):
    block = b"".join(line + b"\n" for line in given_lines)
    assert all_at_once(block, delimiter) == one_by_one(given_lines, delimiter)


@given(contents, delimiters)
@example(b'"\n"\n\n"', ",")
@settings(max_examples=300, deadline=None)
def test_a_block_gives_what_its_records_give(content, delimiter):
    """Of any bytes: what a scan has not seen, because the file was changed, is still read without an error."""
    whole = records_in(content, "standard")[:-1]
    assert all_at_once(content, delimiter, "standard") == one_by_one(whole, delimiter)


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
@pytest.mark.parametrize("records", ["standard", "lines"])
@given(contents, st.integers(1, 90))
@example(b'"' + b"x" * 100 + b'"\n1\n', 7)
@example(b'1\n"' + b"\n" * 100 + b'"\n1', 7)
@settings(max_examples=150, deadline=None)
def test_the_size_of_blocks_changes_nothing(place, suffix, records, content, size):
    path = place / f"t{suffix}"
    path.write_bytes(gzip.compress(content, 1) if suffix.endswith("gz") else content)
    found = []
    with open_bytes(str(path)) as file:
        for block in blocks_of(file, records=records, size=size, limit=LIMIT):
            assert block.endswith(b"\n")
            assert len(block) <= max(LIMIT + 1, size) + size + 1
            found += all_at_once(block, records=records)
    expected = records_in(content, records)
    if expected[-1].count(b'"') % 2 and records == "standard" and len(expected[-1]) <= LIMIT:
        expected.pop()  # the scan refuses a file that ends inside quotation marks
    assert found == one_by_one(expected)


@given(contents, st.booleans())
@settings(max_examples=200, deadline=None)
def test_ends_of_records_in_a_chunk(chunk, inside):
    """Searched from the back, step by step, and all at once: the same."""
    parts = records_in(b'"' * inside + chunk, "standard")
    ends = [sum(len(part) + 1 for part in parts[: count + 1]) - inside for count in range(len(parts) - 1)]
    assert last_end(chunk, inside=inside) == ((ends or [0])[-1], parts[-1].count(b'"') % 2 == 1)
    assert first_end(chunk, inside=inside) == (ends or [0])[0]


def test_many_line_breaks_at_the_end_of_a_chunk():
    chunk = b'1\n"' + b"\n" * 1000
    assert last_end(chunk, inside=False) == (2, True)
    assert last_end(chunk + b'"\n', inside=False) == (len(chunk) + 2, False)


def test_work_comes_back_in_order_and_errors_end_it():
    assert list(in_order(lambda number: number * number, range(100))) == [number * number for number in range(100)]

    def fail(number: int) -> int:
        if number == 3:
            raise ValueError
        return number

    begun = in_order(fail, range(10_000))
    assert [next(begun), next(begun), next(begun)] == [0, 1, 2]
    with pytest.raises(ValueError):  # noqa: PT011
        next(begun)


def test_a_reader_that_lets_quotes_run_on_is_noticed():
    """The negative control: Python's own reader gives other records for a line more."""
    import csv

    given_lines = ["1,2", "3,4", "5,6"]
    before = Counter(map(tuple, csv.reader(given_lines)))
    after = Counter(map(tuple, csv.reader([given_lines[0], '"', *given_lines[1:]])))
    assert sum((before - after).values()) == 2
