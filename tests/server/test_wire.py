"""Requests as data: strict JSON, limits before anything is computed, names in place of paths, and round trips."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sidelight as sl
from sidelight.errors import PlanError, SidelightError
from sidelight.plans import query_table
from sidelight.session.query import prepare_query
from sidelight.wire import (
    CODES,
    ProblemError,
    WireResolver,
    check_limits,
    error_of,
    problem_json,
    problem_of,
    query_digest,
    read_json,
    read_wire_query,
    release_ids,
    write_json,
    write_wire_query,
)
from sidelight.wire.json_text import MOST_BYTES

SCHEMA = sl.Schema(
    [
        sl.Number("age", lower=0, upper=120, granularity=1),
        sl.Number("wage", lower=0, upper=1000),
        sl.Category("job", ["cook", "nurse"]),
    ]
)
QUERIES = [
    sl.Count(by="job", epsilon="0.1", where="age >= 18"),
    sl.Mean("age", by="job", epsilon=0.1),
    sl.Mean("age", epsilon="1/10"),
    sl.Sum("wage", epsilon="0.1"),
    sl.Histogram("age", bins=[0, 40, 80, 120], epsilon="0.1"),
    sl.Quantiles([0.25, 0.5], column="age", epsilon="0.1", prediction=sl.priors.Cauchy(40, 10)),
    sl.Quantiles(
        [0.5],
        column="age",
        epsilon="0.1",
        prediction=sl.hedge(sl.priors.Laplace(40, 10), with_=sl.priors.Uniform(0, 120), weight=0.25),
    ),
    sl.Summary("age", epsilon="0.1"),
    sl.SQL("SELECT job, AVG(age) FROM people GROUP BY job", epsilon="0.1"),
    sl.Count(epsilon="0.5", delta="1e-9"),
    sl.Covariance(columns=["age", "wage"], radius=100, rho="0.1"),
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: type(query).__name__)
def test_what_is_written_is_read_as_the_same_query(query):
    text = write_json({"query": write_wire_query(query)})
    values = read_json(text)["query"]
    again = read_wire_query(values, kinds=[values["kind"]], resolver=WireResolver())
    mine, theirs = prepare_query(query, SCHEMA), prepare_query(again, SCHEMA)
    assert (mine.request, mine.claims) == (theirs.request, theirs.claims)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"1",
        b"{",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1, "a": 2}',
        b'{"a": 1e301}',
        b'{"a": 1e12000000}',
        b'{"a": "1e12000000"}',
        b'{"a": ["1e3000000"]}',
        b'{"1e3000000": 1}',
        b'{"a": "1_0e9_99"}',
        b'{"a": ' + b"9" * 50 + b"}",
        b'{"a": ' + b"9" * 41 + b"}",
        b'{"a": "' + b"9" * 200 + b'"}',
        b'{"a": "' + b"x" * 10_001 + b'"}',
        b'{"a": "\\ud800"}',
        b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xff",
        b" " * (MOST_BYTES + 1),
    ],
)
def test_bad_bodies_are_refused_at_once(body):
    began = time.perf_counter()
    with pytest.raises(ProblemError) as refused:
        read_json(body)
    assert refused.value.code in ("malformed", "too-large")
    assert time.perf_counter() - began < 1


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(max_size=8).filter(str.isalpha),
        lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=4), each, max_size=3),
        max_leaves=12,
    )
)
def test_json_is_written_by_value(value):
    try:
        text = write_json({"a": value})
        assert read_json(text) == {"a": value}
    except ProblemError:
        return
    assert json.loads(text) == {"a": value}


@pytest.mark.parametrize("text", ["1" * 9_999 + "x", "_" * 9_999 + ".", " " * 9_999 + "x", "1e" + "1" * 9_990 + "/x"])
def test_long_texts_that_are_nearly_numbers_take_no_time(text):
    began = time.perf_counter()
    with suppress(ProblemError):
        read_json(json.dumps({"q": [text] * 20}))
    assert time.perf_counter() - began < 2


def test_all_digits_of_a_number_count():
    long = "0.1000000000000000000000000000000000001"
    assert write_json(read_json(f'{{"a": {long}}}')) == f'{{"a":{long}}}'
    assert query_digest(read_json(f'{{"a": {long}}}')) != query_digest(read_json('{"a": 0.1}'))


def test_the_digest_is_of_values_and_not_of_their_spelling():
    assert query_digest(read_json('{"a": 0.10, "b": 2}')) == query_digest(read_json('{"b": 2.0, "a": 1e-1}'))
    assert query_digest({"a": Decimal("0.1")}) != query_digest({"a": Decimal("0.2")})
    assert query_digest({"a": "1"}) != query_digest({"a": 1})


def test_names_are_looked_up_and_never_opened(tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    (tmp_path / "rows.csv").write_text("job,count\ncook,10\nnurse,20\n")
    resolver = WireResolver({"census": tmp_path / "rows.csv"}, {"a" * 64: secret})
    opened: list[str] = []
    sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
    texts = set()
    hostile = [str(secret), "../secret.json", "rows.csv", "http://example.org/x", "", ".", "a" * 64, "b" * 64, "CENSUS"]
    for name in hostile:
        for kind in ("public", "release"):
            if (kind, name) == ("public", "a" * 64):  # one's own release, read as a table: of no use, and no secret
                continue
            given_ = {kind: name} | ({"origin": "x"} if kind == "public" else {})
            values = {"kind": "count", "by": ["job"], "epsilon": "0.1", "prediction": given_}
            with pytest.raises(SidelightError) as refused:
                read_wire_query(values, kinds=["count"], resolver=resolver)
            if name:
                texts.add(str(refused.value).replace(repr(name), "NAME").replace(f"{kind} names", "KIND names"))
    assert len(texts) == 1
    assert [each for each in opened if each.endswith("secret.json")] == [str(secret)] * opened.count(str(secret))
    assert not any("example.org" in each or each.endswith("rows.csv") for each in opened)
    good = {"kind": "count", "by": ["job"], "epsilon": "0.1", "prediction": {"public": "census", "origin": "x"}}
    assert read_wire_query(good, kinds=["count"], resolver=resolver) is not None


def test_what_cannot_travel_is_refused_by_the_client(tmp_path):
    (tmp_path / "points.csv").write_text("age,wage\n10,20\n30,50\n")
    release = sl.Count(by="job", epsilon=1).release(sl.Table({"job": ["cook"]}, schema=[SCHEMA.columns[2]]))
    for query in (
        sl.Count(by="job", epsilon=1, prediction=sl.Predicted(release)),  # made elsewhere: its claims are a word
        sl.Covariance(
            columns=["age", "wage"], radius=100, rho=1, prediction=sl.PublicData(tmp_path / "points.csv", "x")
        ),
    ):
        with pytest.raises(PlanError):
            write_wire_query(query)


def test_kinds_and_sizes_are_limited():
    long_cut = f"cut(age, [{', '.join(map(str, range(600)))}])"
    with pytest.raises(ProblemError, match="does not answer"):
        read_wire_query({"kind": "count", "epsilon": 1}, kinds=["mean"], resolver=WireResolver())
    for values in (
        {"levels": [Decimal("0.5")] * 1001},
        {"bins": 10_001},
        {"k": 10**9},
        {"where": "age > 1 and " * 300},
        {"prediction": {"priors": [{}] * 51}},
        {"by": long_cut},
        {"by": [long_cut]},
        {"by": ["job", f"{long_cut[:1200]}])", f"{long_cut[:1199]}])"]},
        {"by": {"levels": ["region"], "impossible": long_cut}},
    ):
        with pytest.raises(ProblemError) as refused:
            check_limits(values, SCHEMA)
        assert refused.value.code == "too-dear"
    wide = sl.Schema([sl.Category(f"c{n}", [str(each) for each in range(100)]) for n in range(3)])
    with pytest.raises(ProblemError, match="groups"):
        check_limits({"by": ["c0", "c1", "c2"]}, wide)
    check_limits({"by": ["c0", "c1"]}, wide)
    check_limits({"by": ["job", f"{long_cut[:1800]}])"], "column": ["a column of a long name"] * 200}, SCHEMA)


def test_ids_of_releases_are_found_wherever_they_stand():
    name = "0" * 64
    assert list(release_ids({"a": [{"prediction": {"release": name}}], "release": "x"})) == [name]


def test_every_problem_becomes_the_error_of_the_same_mistake():
    for code, known in CODES.items():
        error = error_of(problem_json(ProblemError(code, requested="1", remaining="0", difference="1")))
        assert type(error) is known.error
    assert problem_of(PlanError("x")).code == "query"
    assert isinstance(error_of({"type": "urn:other"}), SidelightError)
    assert isinstance(error_of(None), SidelightError)


def test_every_kind_of_plan_has_a_table():
    from sidelight.wire.queries import KINDS

    assert all(query_table(kind).keys for kind in KINDS)
    assert Path(__file__).exists()
