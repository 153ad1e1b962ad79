"""Schemathesis reads the OpenAPI document and tries to make a running server break its word."""

from __future__ import annotations

import json

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from server_fixtures import *  # noqa: F403 - fixtures

DESCRIBED = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
LIMITS = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
TABLE = "/v1/tables/{table}"
FREE = [
    *("/health/live", "/health/ready", "/v1/query-schema", "/v1/me", "/v1/tables", TABLE, f"{TABLE}/dummy"),
    *("/v1/releases", "/v1/releases/{id}"),
    *(f"/v1/releases/{{id}}/{name}" for name in ("report", "chart.svg", "numbers", "proof")),
]
POSTED = [f"{TABLE}/{name}" for name in ("price", "accuracy", "dry-run", "releases")]
OPERATIONS = [*((path, "GET") for path in FREE), *((path, "POST") for path in POSTED)]
MODES = ["POSITIVE", "NEGATIVE"]


@pytest.fixture(scope="module")
def described(live):
    return schemathesis.openapi.from_url(f"{live.url}/openapi.json")


def test_every_operation_is_tried(described):
    known = [(found.ok().path, found.ok().method.upper()) for found in described.get_all_operations()]
    assert sorted(known) == sorted(OPERATIONS)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_answers_are_those_that_the_document_names(live, described, path, method, mode):
    operation = described[path][method]

    @LIMITS
    @given(data=st.data())
    def tried(data):
        case = data.draw(operation.as_strategy(generation_mode=getattr(schemathesis.GenerationMode, mode)))
        if data.draw(st.booleans()):  # a table that is there, or nothing behind its name is ever reached
            case.path_parameters = {
                **(case.path_parameters or {}),
                **({"table": "people"} if "{table}" in path else {}),
            }
        case.call_and_validate(headers={"Authorization": f"Bearer {live.tokens['ada']}"}, checks=DESCRIBED)

    try:
        tried()
    except Exception as error:
        if type(error).__name__ in ("Unsatisfiable", "SkipTest", "NegativeDataNotPossible"):
            pytest.skip("no wrong request can be made of this operation")
        raise


QUERIES = st.fixed_dictionaries(
    {"kind": st.sampled_from(["count", "mean", "sum", "histogram", "quantiles", "summary", "sql", "top_k", "x"])},
    optional={
        "epsilon": st.sampled_from(["0.1", 0.1, "1e-300", 1e300, -1, None, "nan", [], {"epsilon": 1}]),
        "column": st.sampled_from(["age", "job", "", "x", 1, None, ["age"]]),
        "by": st.lists(st.sampled_from(["job", "age", "x", ""]), max_size=3) | st.text(max_size=5),
        "where": st.sampled_from(["age > 3", "age >", "(" * 60, "job = 'cook'", "x = 1", 5]),
        "levels": st.lists(st.sampled_from(["0.5", 0.5, "2", None]), max_size=3),
        "select": st.sampled_from(["SELECT COUNT(*) FROM people", "SELECT * FROM people", "DROP TABLE people", ""]),
        "bins": st.sampled_from([10, 0, -1, 10**9, [1, 2, 3], [3, 2], "x"]),
        "k": st.sampled_from([1, 2, 0, 10**12]),
        "prediction": st.sampled_from(
            [{"family": "cauchy", "location": 1, "scale": 1}, {"release": "0" * 64}, {"public": "/etc/passwd"}, [], 1]
        ),
    },
)


@settings(LIMITS, max_examples=150)
@given(query=QUERIES, where=st.sampled_from(["price", "dry-run", "accuracy"]))
def test_queries_that_are_nearly_right_get_a_described_answer(live, query, where):
    more = {"within": 1} if where == "accuracy" else {}
    answer = live.bob.post(f"/v1/tables/people/{where}", content=json.dumps({"query": query, **more}).encode(),
                           headers={"Content-Type": "application/json"})  # fmt: skip
    assert answer.status_code in (200, 400, 403, 422, 429), answer.text
    assert "unexpected" not in answer.json(), (query, answer.text)
    assert answer.status_code == 200 or answer.headers["content-type"] == "application/problem+json"
