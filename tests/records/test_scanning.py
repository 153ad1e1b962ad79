"""The scan of CSV files: what is refused, and with which line; and that what passes is read as others read it."""

from __future__ import annotations

import csv
import gzip
import io

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidelight.errors import SourceError
from sidelight.records.engines.csv import STRAY, TRAILING, UNCLOSED, first_fault, scan
from sidelight.records.engines.csv_records import blocks_of, split

PIECES = [
    b'"',
    b'"',
    b'""',
    b",",
    b"\n",
    b"\r\n",
    b"\r",
    b"a",
    b"7",
    b" ",
    b";",
    b"\0",
    b"\xff",
    b'"a\nb"',
    b',"x"\r\n',
]
contents = st.lists(st.sampled_from(PIECES), max_size=25).map(b"".join)
WIDTH = 6


def fault_by_bytes(content: bytes, delimiter: int = ord(",")) -> tuple[int, str] | None:
    """Return the first fault as an automaton finds it, byte by byte: the grammar of RFC 4180, written down again."""
    state, opened = "start", -1
    for place, byte in enumerate(content):
        following = content[place + 1 : place + 2]
        if state == "quoted":
            state = "behind" if byte == ord('"') else "quoted"
        elif byte == ord('"'):
            if state == "plain":
                return place, STRAY
            state, opened = "quoted", place
        elif byte in (delimiter, ord("\n")):
            state = "start"
        elif state == "behind" and not (byte == ord("\r") and following in (b"\n", b"")):
            return place - 1, TRAILING
        elif state == "start":
            state = "plain"
    return (opened, UNCLOSED) if state == "quoted" else None


def found(content: bytes, size: int = 1 << 20) -> tuple[int, str] | None:
    fault = first_fault(io.BytesIO(content), ",", size=size)
    return None if fault is None else (fault.offset, fault.words)


@given(contents)
@example(b'"a"\r')
@example(b'"a"\r\n')
@example(b'"a"\rb')
@example(b'a\r"b"')
@example(b'"')
@example(b'""""')
@settings(max_examples=300, deadline=None)
def test_windows_find_what_the_grammar_forbids(content):
    expected = fault_by_bytes(content)
    for size in (3, 4, 5, 1 << 20):
        assert found(content, size) == expected


def test_every_place_of_a_window_border():
    content = b'a,b\r\n"x ""y""\r\n\n,",2\r\n3,"4"\r\n,"""",\r\n'
    for size in (3, 4, 5, 7):
        assert found(content, size) is None
        for place in range(len(content)):
            for more in (b'"', b'x"', b'"x'):
                broken = content[:place] + more + content[place:]
                assert found(broken, size) == fault_by_bytes(broken)


def ours(content: bytes) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for block in blocks_of(io.BytesIO(content), size=11):
        batch = split(block, ",", range(WIDTH))
        rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return rows


def pythons(content: bytes) -> list[tuple[str, ...]] | None:
    """Return what Python's own reader, in its strict way, makes of the records; None if it refuses."""
    lines = [line + "\n" for line in content.decode("latin-1").split("\n")]
    lines[-1] = lines[-1].removesuffix("\n")
    try:
        return [tuple((row + [""] * WIDTH)[:WIDTH]) for row in csv.reader(lines, strict=True) if row]
    except csv.Error:
        return None


@given(st.one_of(contents, st.binary(max_size=30)))
@settings(max_examples=600, deadline=None)
def test_what_passes_is_read_as_python_reads_it(content):
    """Python's strict reader takes a quotation mark inside a plain field, and refuses a lone carriage return."""
    content = bytes(byte for byte in content if byte < 0x80 and byte != ord("\r"))
    fault, read = found(content), pythons(content)
    if fault is None:
        assert read is not None
        assert ours(content) == read
    elif fault[1] != STRAY:
        assert read is None


WRONG = {
    "stray": (b'a,b\n1,"x\ny"\n2,geheim"7\n', 4, STRAY),
    "stray at the end": (b'a,b\n1,"x\ny"\n2,geheim"', 4, STRAY),
    "space before": (b'a,b\n1,2\n3, "geheim"\n', 3, STRAY),
    "text behind": (b'a,b\n1,"x"geheim\n3,4\n', 2, TRAILING),
    "space behind": (b'a,b\n1,2\n\n"geheim" ,3\n', 4, TRAILING),
    "return behind": (b'a,b\r\n1,"geheim"\r2\r\n', 2, TRAILING),
    "never closed": (b'a,b\n1,2\n3,"geheim\n5,6\n', 3, UNCLOSED),
    "never closed, last": (b'a,b\n1,2\n3,"', 3, UNCLOSED),
    "one mark": (b'a,b\n"', 2, UNCLOSED),
    "three marks": (b'a,b\n1,"""\n2,3\n', 2, UNCLOSED),
    "behind a byte order mark": (b'\xef\xbb\xbf"a",b\n1,geheim"\n', 2, STRAY),
}


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
@pytest.mark.parametrize("kind", list(WRONG))
def test_what_no_standard_writer_writes_is_refused_with_its_line_and_no_cell(tmp_path, kind, suffix):
    content, line, words = WRONG[kind]
    path = tmp_path / f"t.{suffix}"
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    with pytest.raises(SourceError) as caught:
        scan(str(path), ",", size=4)
    assert f"line {line}: {words}." in str(caught.value)
    assert "geheim" not in str(caught.value)
    assert 'records="lines"' in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


@pytest.mark.parametrize(
    "content",
    [
        b"a,b",
        b"a,b\n",
        b'a,"b\nc"\n',
        b'\xef\xbb\xbf"a",b\n"1",2',
        b'a,b\r\n"1","2"\r\n\r\n3,4',
        b'a,b\n"1",""\r',
        b'a,b\n1\r2,\r\n""""""\n',
        b"a,b\n1,2,3\n4\n\0,\xff\n",
    ],
)
def test_what_standard_writers_write_passes(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    scan(str(path), ",", size=4)


def test_other_delimiters(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'a;b\n"1";"2"\n')
    scan(str(path), ";")
    with pytest.raises(SourceError, match=f"line 2: {TRAILING}"):
        scan(str(path), ",")


@pytest.mark.parametrize(
    "harm", [lambda content: content[:-9], lambda content: content[:60] + b"\0" * 9 + content[69:]]
)
def test_a_compressed_file_that_is_broken_is_refused_before_any_charge(tmp_path, harm):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(harm(gzip.compress(b"x\n" + b"".join(b"%d\n" % (number * number) for number in range(1000)))))
    with pytest.raises(SourceError, match="cannot be read to its end"):
        scan(str(path), ",")
