"""Schemathesis reads the OpenAPI description and tries to make the service break its word: no answer but the described.

The service runs in a thread of this process, on loopback. Mangled reports start from good ones, so that they
reach what lies behind the first checks.
"""

from __future__ import annotations

import json
import threading
import time

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    positive_data_acceptance,
    response_schema_conformance,
    status_code_conformance,
)
from service_fixtures import NAMES, made_reports, write_plan

from sidelight.experts.service.answers import STATUS
from sidelight.experts.service.app import service_app
from sidelight.experts.service.store import Tokens

DESCRIBED = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
LIMITS = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    plan = write_plan(tmp_path_factory.mktemp("schema"))
    (token,) = Tokens(plan.tokens).issue(NAMES[0])
    server = uvicorn.Server(uvicorn.Config(service_app(plan), port=0, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}", {"Authorization": f"Bearer {token}"}, plan
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def described(running):
    return schemathesis.openapi.from_url(f"{running[0]}/openapi.json")


OPERATIONS = [
    ("/", "GET"),
    ("/health", "GET"),
    ("/v1/terms", "GET"),
    ("/v1/round", "GET"),
    ("/v1/rounds", "GET"),
    ("/v1/reports", "POST"),
]


def test_every_operation_is_tried(described):
    known = [(found.ok().path, found.ok().method.upper()) for found in described.get_all_operations()]
    assert sorted(known) == sorted(OPERATIONS)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
@LIMITS
@given(data=st.data())
def test_good_requests_get_a_described_answer(running, described, path, method, data):
    case = data.draw(described[path][method].as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE))
    # JSON Schema takes 17.0 for an integer and has no word for printable text; reports are read more strictly
    strict = [positive_data_acceptance] if method == "POST" else []
    case.call_and_validate(headers=running[1] if method == "POST" else {}, excluded_checks=strict)


@pytest.mark.parametrize(("path", "method"), [("/v1/rounds", "GET"), ("/v1/reports", "POST")])
@LIMITS
@given(data=st.data())
def test_bad_requests_are_refused_as_described(running, described, path, method, data):
    case = data.draw(described[path][method].as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE))
    case.call_and_validate(headers=running[1] if method == "POST" else {})


FLOATS = st.floats(allow_nan=False, allow_infinity=False)  # what is not finite: test_service_app
MANGLED = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    FLOATS,
    st.text(max_size=20),
    st.lists(st.one_of(st.integers(-(10**30), 10**30), FLOATS), max_size=5),
    st.sampled_from(["vector", "coordinate", "a", "b", "os", "seeded", "1"]),
)


@LIMITS
@given(data=st.data())
def test_mangled_reports_get_a_described_answer(running, described, data):
    _, headers, plan = running
    body = json.loads(made_reports(plan.reporting, 3)[data.draw(st.integers(1, 3)), "a"].to_json())
    for name in data.draw(st.lists(st.sampled_from(sorted(body)), max_size=2)):
        body[name] = data.draw(MANGLED)
    case = described["/v1/reports"]["POST"].Case(body=body, media_type="application/json")
    answer = case.call(headers=headers)
    case.validate_response(answer, checks=DESCRIBED)
    if answer.status_code >= 300:
        assert STATUS[answer.json()["code"]] == answer.status_code
