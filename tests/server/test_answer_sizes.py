"""The limit on the size of an answer: known from public numbers before the charge, and never looked at after it."""

from __future__ import annotations

import asyncio
import json
import warnings
from contextlib import suppress
from multiprocessing import Pipe
from threading import Thread
from types import SimpleNamespace

import pytest

import sidelight as sl
from analyst_server import write_survey
from sidelight.accuracy.forecast import as_cells, generated
from sidelight.guarantees import Claims, PureDP
from sidelight.registry import PLAN_KINDS
from sidelight.server import pricing, worker
from sidelight.server.budgets import Budgets
from sidelight.server.calibration_probes import prices_of, probe_query, probes_of
from sidelight.server.config_file import read_config
from sidelight.server.cost import _marginal_cells, answer_bytes
from sidelight.server.pricing import answer_job
from sidelight.session.query import prepare_query
from sidelight.testing import seeded_release
from sidelight.wire import LIMITS, ProblemError

PAIR = {
    "currency": "epsilon and delta", "budget": "{epsilon = 3, delta = 3e-5}", "strict": "false",
    "share": "{epsilon = 1, delta = 1e-5}", "largest": "{epsilon = 0.5, delta = 1e-6}",
    "smallest": "{epsilon = 0.001, delta = 1e-12}",
}  # fmt: skip
#: Kinds without a generated prediction.
UNTRIED = ("gaussian", "gaussian_mixture")


def survey(folder, *, labels=40, together="false"):
    """Return a file with all kinds, and a category with many labels."""
    file = write_survey(folder, **PAIR, more=f"together = {together}")
    names = json.dumps([f'the "{place}"th city' for place in range(labels)])
    sex = '{name = "sex", kind = "category", categories = ["f", "m"], other = false}'
    more = (
        f'{{name = "pay", lower = 0, upper = 1e6}}, {sex}, {{name = "city", kind = "category", categories = {names}}}'
    )
    text = file.read_text().replace('"clerk"]},\n]', f'"clerk"]}}, {more}\n]')
    file.write_text(text.replace('"top_k"]', f'"top_k", {json.dumps(list(PLAN_KINDS))[1:]}'))
    return read_config(file)


@pytest.mark.parametrize("kind", [kind for kind in PLAN_KINDS if kind not in UNTRIED])
def test_no_answer_is_larger_than_was_said(tmp_path, kind):
    config = survey(tmp_path)
    table = config.tables["people"]
    rows = sl.Table(as_cells(generated(table.schema, 500), table.schema), schema=table.schema, name="people")
    tried = 0
    for _, probe in probes_of(config, table, kind):
        for price in prices_of(table, kind):  # a small one gives long numbers
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    query = probe_query(config, table, {**probe, **price})
                    prepared = prepare_query(query, table.schema)
                    outcome = seeded_release(query, rows, seed="sizes of answers")
                except sl.errors.SidelightError:  # the smallest price is not enough for it
                    continue
            tried += 1
            assert len(outcome.to_json().encode()) <= answer_bytes(prepared), probe
    assert tried


@pytest.mark.parametrize(
    "select",
    [
        f"SELECT city, {', '.join(['COUNT(*)'] * 200)} FROM people GROUP BY city",
        f"SELECT {', '.join(['AVG(age)', 'SUM(age)', 'COUNT(*)'] * 60)} FROM people WHERE age > 3",
        'SELECT AVG(age) AS a, SUM(age) AS "{}" FROM people'.format("\x01" * 1900),
    ],
)
def test_a_statement_may_ask_one_number_often_and_give_it_a_long_name(tmp_path, select):
    schema = survey(tmp_path).tables["people"].schema
    rows = sl.Table(as_cells(generated(schema, 500), schema), schema=schema, name="people")
    query = sl.SQL(select, epsilon="0.1")
    outcome = seeded_release(query, rows, seed="sizes of answers")
    assert len(outcome.to_json().encode()) <= answer_bytes(prepare_query(query, schema))


@pytest.mark.parametrize(("kind", "name"), [("count", "where"), ("proportion", "condition"), ("sql", "select")])
def test_expressions_of_a_request_have_one_limit(tmp_path, kind, name):
    query = {"kind": kind, name: "age > 3".ljust(LIMITS["expression"] + 1), "epsilon": "0.1"}
    problem = answer_job(read_config(write_survey(tmp_path)), _job(query))["problem"]
    assert (problem["code"], problem["text"]) == ("too-dear", f"{name} has at most 2000 characters")


def _job(query, **more):
    return {
        "do": "price",
        "table": "people",
        "query": json.dumps(query),
        "kind": query["kind"],
        "forecast": False,
        **more,
    }


def test_a_large_answer_is_refused_with_its_price(tmp_path):
    """The worker is never asked, so nothing is charged; what a batch would answer counts together."""
    config = survey(tmp_path, labels=3000, together="true")
    narrow = {"kind": "mean", "column": "age", "by": ["city"], "epsilon": "0.1"}
    wide = {**narrow, "by": ["city", "job", "sex"]}
    found = answer_job(config, _job(narrow))["answer"]
    assert 100_000 < found["answer_bytes"] <= LIMITS["answer_bytes"]
    problem = answer_job(config, _job(wide))["problem"]
    assert problem["code"] == "too-dear"
    assert str(LIMITS["answer_bytes"]) in problem["text"]
    many = {"kind": "together", "queries": [narrow] * 5, "delta": "1e-9"}
    assert answer_job(config, _job(many))["problem"]["code"] == "too-dear"
    few = {"kind": "together", "queries": [narrow] * 2, "delta": "1e-9"}
    assert answer_job(config, _job(few))["answer"]["answer_bytes"] == 2 * found["answer_bytes"]


def test_after_the_charge_no_size_is_looked_at():
    """What comes out may be larger than its public shape, where labels are found in the rows; it is paid, and given."""
    assert "answer_bytes" not in vars(worker)
    assert "check_answer" not in vars(worker)


def test_marginals_of_many_columns_are_counted_at_once():
    columns = [{"name": f"c{place}", "labels": ["a"] * 3} for place in range(50)]
    request = {"columns": columns, "queries": [{"marginals": "25", "columns": [each["name"] for each in columns]}]}
    assert _marginal_cells(request) == 126410606437752 * 3**25
    for query, cells in (
        ({"marginals": "2", "columns": ["c0", "c1", "c2"]}, 27),
        ({"marginals": [["c0", "c1"], ["c2"]]}, 12),
        ({"ranges": "c4"}, 3),
        ({"linear_queries": "7", "columns": ["c0", "c1"]}, 9),
    ):
        assert _marginal_cells({**request, "queries": [query]}) == cells


def test_a_page_of_the_history_ends_where_its_outcomes_are_large(tmp_path, monkeypatch):
    config = read_config(write_survey(tmp_path))
    budgets = Budgets(config, create=True)
    budgets.open_scopes()
    table = config.tables["people"]
    account = table.accounts[0]
    for place in range(25):
        reservation = budgets.reserve(
            table, account, Claims.of(PureDP("0.001")), moment=0.0, request={"kind": "count"}, key=f"key {place}"
        )
        reservation.release(json.dumps({"place": place, "filled": "x" * 1000}))

    def keys(limit, after=None):
        return [entry.key for entry in budgets.history(table, account, limit=limit, after=after)]

    try:
        assert keys(100) == [f"key {place}" for place in range(25)]
        assert keys(12) == keys(100)[:12]
        assert keys(12, after="key 11") == keys(100)[12:24]
        assert keys(5, after="key 24") == []
        monkeypatch.setitem(LIMITS, "answer_bytes", 10_000)
        assert keys(100) == [f"key {place}" for place in range(10)]
        monkeypatch.setitem(LIMITS, "answer_bytes", 2500)
        assert keys(100, after="key 3") == ["key 4", "key 5", "key 6"]  # few large ones would be more than clients read
        monkeypatch.setitem(LIMITS, "answer_bytes", 10_000)
        assert keys(100, after="key 9") == [f"key {place}" for place in range(10, 20)]
    finally:
        budgets.close()


class Answering:
    """A zygote whose children answer each job with a number of bytes."""

    def __init__(self, size):
        self.size, self.children = size, []

    def fork(self, target):
        ours, theirs = Pipe()
        child = SimpleNamespace(connection=ours, end=ours.close)
        self.children.append(child)

        def answer():
            theirs.recv_bytes()
            with suppress(OSError):  # nobody reads the rest of an answer that is too large
                theirs.send_bytes(json.dumps({"answer": "x" * self.size}).encode())

        Thread(target=answer, daemon=True).start()
        return child


@pytest.mark.parametrize(("size", "fits"), [(1000, True), (100_000, False)])
def test_the_listening_process_reads_no_answer_beyond_its_limit(monkeypatch, size, fits):
    """A pricing process is closed with what it wrote, as after other failures, and the request is refused."""
    monkeypatch.setattr(pricing, "_MOST_ANSWER", 50_000)
    zygote = Answering(size)

    async def asked():
        processes = pricing.Pricing(zygote, 1)
        try:
            return await processes.ask({"do": "price"})
        finally:
            processes.stop()

    if fits:
        assert asyncio.run(asked()) == "x" * size
    else:
        with pytest.raises(ProblemError) as refused:
            asyncio.run(asked())
        assert refused.value.code == "too-dear"
        assert all(child.connection.closed for child in zygote.children)


def test_numbers_of_a_statement_have_the_limit_of_answers(tmp_path):
    """A label of 26,000 signs in 160 lines and in their CSV: a body of 100 MB for a statement of 1.5 KB."""
    ages = " ".join(f"WHEN age < {age} THEN '{age}'" for age in range(1, 40))
    select = (
        f"SELECT '{'😀' * 330}' AS a, {'||'.join(['a'] * 80)} AS b, CASE {ages} ELSE 'z' END AS g, job, COUNT(*) AS n "
        "FROM people GROUP BY g, job"
    )
    config = read_config(write_survey(tmp_path, strict="false"))
    query = {"kind": "sql", "select": select, "epsilon": "0.1"}
    made = answer_job(config, _job(query, do="dry-run"))["answer"]
    numbers = made["numbers"]
    assert len(json.dumps(numbers)) <= LIMITS["answer_bytes"] + 1000
    assert (len(numbers["lines"]) + numbers["more"], numbers["csv"]) == (160, "")
    assert 0 < len(numbers["lines"]) < 160
    text = json.dumps(made["outcome"])
    assert answer_job(config, {"do": "numbers", "texts": [text]})["answer"] == numbers
