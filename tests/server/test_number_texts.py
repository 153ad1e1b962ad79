"""Texts that Python reads as numbers, in every numeric field of a request: each is refused with a problem, at once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analyst_server import serving, tokens_of, write_survey
from sidelight.errors import ProblemError
from sidelight.server.together import read_together
from sidelight.wire.json_text import read_json

httpx = pytest.importorskip("httpx")
#: Digits of other scripts, exponents that fill the memory or that no decimal has, and what is no number.
TEXTS = (
    *(
        "１e９９９９９９９９９",
        "１e-９９９９９９９９９",
        "٣e٩٩٩٩٩٩٩٩٩٩٩٩٩٩٩٩٩٩٩٩",
        "1e99999999999999999999",
        "９" * 9000,
    ),
    *("1e999999999", "-1e-999999999", "1_0e9_999_999", "1/" + "９" * 5000, "sNaN", "-Infinity", "", "½", "0x10"),
)
COUNT = {"kind": "count", "by": ["job"], "epsilon": "0.1"}
PLACE = "/v1/tables/people"
#: Method, address and body of a request for each numeric field; the field is None.
FIELDS: dict[str, tuple[str, dict[str, Any]]] = {
    "delta of a batch": ("price", {"queries": [COUNT], "delta": None}),
    "epsilon in a batch": ("price", {"queries": [COUNT | {"epsilon": None}], "delta": "1e-7"}),
    "paid delta of a batch": ("releases", {"queries": [COUNT], "delta": None}),
    "paid epsilon": ("releases", {"query": COUNT | {"epsilon": None}}),
    "within": ("accuracy", {"query": COUNT, "within": None}),
    "epsilon of a dry run": ("dry-run", {"query": COUNT | {"epsilon": None}}),
    "epsilon": ("price", {"query": COUNT | {"epsilon": None}}),
    "delta": ("price", {"query": COUNT | {"delta": None, "noise": "gaussian"}}),
    "rho": ("price", {"query": {"kind": "count", "rho": None}}),
    "mu": ("price", {"query": {"kind": "count", "mu": None}}),
    "levels": ("price", {"query": {"kind": "quantiles", "column": "age", "levels": [None], "epsilon": "0.1"}}),
    "bins": ("price", {"query": {"kind": "histogram", "column": "age", "bins": [0, None], "epsilon": "0.1"}}),
    "number of bins": ("price", {"query": {"kind": "histogram", "column": "age", "bins": None, "epsilon": "0.1"}}),
    "k": ("price", {"query": {"kind": "top_k", "by": "job", "k": None, "epsilon": "0.1"}}),
    "scale of a prior": (
        "price",
        {
            "query": {"kind": "quantiles", "column": "age", "levels": ["0.5"], "epsilon": "0.1"}
            | {"prediction": {"family": "cauchy", "location": 40, "scale": None, "origin": "guess"}}
        },
    ),
}


def filled(value: Any, text: str) -> Any:
    """Return a body with a text in its place."""
    if isinstance(value, dict):
        return {key: filled(each, text) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, text) for each in value]
    return text if value is None else value


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pair = {
        "currency": "epsilon and delta",
        "budget": "{epsilon = 3, delta = 3e-5}",
        "share": "{epsilon = 1, delta = 1e-5}",
        "largest": "{epsilon = 0.5, delta = 1e-6}",
        "smallest": "{epsilon = 0.001, delta = 0}",
        "strict": "true\ntogether = true",
    }
    file: Path = write_survey(tmp_path_factory.mktemp("numbers"), **pair)
    token = tokens_of(file)["ada"]
    with (
        serving(file) as (url, _),
        httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as made,
    ):
        yield made


def answer_to(client: Any, address: str, body: Any) -> Any:
    """Send a request, again while it is refused for coming too soon."""
    for _ in range(100):
        found = client.post(f"{PLACE}/{address}", json=body, headers={"Idempotency-Key": "a number"})
        if found.status_code != 429:
            return found
        time.sleep(0.2)
    raise AssertionError("always too soon")


@pytest.mark.parametrize("field", FIELDS)
def test_a_text_that_is_no_amount_is_a_problem_of_the_request(client: Any, field: str) -> None:
    address, body = FIELDS[field]
    for text in TEXTS:
        found = answer_to(client, address, filled(body, text))
        assert found.status_code in (400, 403, 422), (text[:30], found.status_code, found.text)
        assert found.headers["content-type"] == "application/problem+json"
        assert "unexpected" not in found.text
    assert client.get(PLACE).json()["remaining"] == {"epsilon": "1", "delta": "0.00001"}


@pytest.mark.parametrize("text", TEXTS)
def test_numbers_in_addresses_are_read_as_strictly(client: Any, text: str) -> None:
    for address, name in ((f"{PLACE}/dummy", "rows"), ("/v1/releases", "limit")):
        for _ in range(100):
            found = client.get(address, params={name: text[:500], "table": "people"})
            if found.status_code != 429:
                break
            time.sleep(0.2)
        assert found.status_code in (400, 404, 422), (text[:30], found.status_code, found.text)
    assert client.get(PLACE, headers={"Prefer": f"wait={text[:20]}".encode()}).status_code == 200


@pytest.mark.parametrize("text", TEXTS)
def test_a_batch_is_read_at_once_whatever_its_delta(text: str) -> None:
    """Texts come to it through `read_json`, and must not rely on that."""
    start = time.process_time()
    assert read_together({"queries": [COUNT], "delta": text})["delta"] == text
    assert time.process_time() - start < 1


def test_digits_of_every_script_count_as_digits() -> None:
    for text in TEXTS[:6]:
        with pytest.raises(ProblemError, match="digits"):
            read_json(json.dumps({"delta": text}))
    assert read_json('{"label": "第３病棟"}') == {"label": "第３病棟"}


@pytest.mark.parametrize("delta", ["1e-9", "0.000000001", "1E-9", " 1e-9", "1/1000000000", "0.10e-8"])
def test_one_amount_in_other_words_is_one_batch(delta: str) -> None:
    assert read_together({"queries": [COUNT], "delta": delta})["delta"] == "0.000000001"
