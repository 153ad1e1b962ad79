"""Durations and costs from generated rows: the source is never opened, and what would not end in time is refused."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

import sidelight as sl
from analyst_server import write_survey
from sidelight.errors import PlanError
from sidelight.registry import PLAN_KINDS
from sidelight.server import calibrate as calibration
from sidelight.server.calibrate import CalibratedKind, calibrate, fitted, proposal
from sidelight.server.calibration_probes import prices_of, probes_of, write_shapes
from sidelight.server.config_file import read_config
from sidelight.server.cost import KindCost, request_size
from sidelight.server.pricing import answer_job
from sidelight.session.query import prepare_query

COST = 'costs = {count = {seconds = 0.2, seconds_per_cell = 0.3, memory = "10 MiB", memory_per_cell = 1000}}'


def price(config, query):
    job = {"do": "price", "table": "people", "kind": query["kind"], "query": json.dumps(query), "forecast": False}
    return answer_job(config, job)


def test_a_request_beyond_a_quarter_of_its_slot_is_refused_by_public_numbers(tmp_path):
    config = read_config(write_survey(tmp_path, more=COST))
    small = price(config, {"kind": "count", "epsilon": "0.1"})["answer"]
    assert small["cost"] == {"seconds": 0.2, "bytes": 10 * 2**20, "most_seconds": 1.0, "most_bytes": 2**30}
    refused = price(config, {"kind": "count", "by": ["job"], "epsilon": "0.1"})["problem"]  # 0.2 + 3 * 0.3 s
    assert refused["code"] == "too-dear"
    assert "4 cells, for which 1.1 s" in refused["text"]
    assert price(config, {"kind": "mean", "column": "age", "epsilon": "0.1"})["answer"]["cost"] is None


def test_a_request_beyond_half_of_a_workers_memory_is_refused(tmp_path):
    large = COST.replace("memory_per_cell = 1000", "memory_per_cell = 4e8").replace("0.3", "0")
    config = read_config(write_survey(tmp_path, more=large))
    assert "answer" in price(config, {"kind": "count", "epsilon": "0.1"})
    assert price(config, {"kind": "count", "by": ["job"], "epsilon": "0.1"})["problem"]["code"] == "too-dear"


@pytest.mark.planted("a cost that nobody checks")
def test_a_cost_that_nobody_checks_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr("sidelight.server.pricing.check_cost", lambda *given, **more: None)
    with pytest.raises(KeyError):
        test_a_request_beyond_half_of_a_workers_memory_is_refused(tmp_path)


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ("costs = {counts = {seconds = 1, memory = '1 MiB'}}", "did you mean 'count'"),
        ("costs = {count = {seconds = -1, memory = '1 MiB'}}", "not negative"),
        ("costs = {count = {seconds = 1}}", "'memory' is missing"),
    ],
)
def test_costs_that_mean_nothing_are_refused(tmp_path, costs, message):
    with pytest.raises(PlanError, match=message):
        read_config(write_survey(tmp_path, more=costs))


@pytest.mark.parametrize(
    ("query", "size"),
    [
        (sl.Count(epsilon=1), 1),
        (sl.Count(by=["job", "sex"], epsilon=1), 12),
        (sl.Histogram("age", bins=10, by="job", epsilon=1), 40),
        (sl.Quantiles([0.25, 0.5], column="age", epsilon=1), 2),
        (sl.Quantiles([0.25, 0.5], column="age", by="job", epsilon=1), 8),
        (sl.TopK("job", k=2, epsilon=1), 2),
        (sl.SQL("SELECT job, COUNT(*), SUM(age) FROM people GROUP BY job", epsilon=1), 8),
        (sl.Covariance(columns=["age", "pay"], radius=1, rho=1), 3),
    ],
)
def test_sizes_count_what_is_computed(query, size):
    age = sl.Number("age", lower=0, upper=120, granularity=1)
    columns = [
        age,
        sl.Number("pay", lower=0, upper=9),
        sl.Category("job", ["a", "b", "c"]),
        sl.Category("sex", ["f", "m"]),
    ]
    assert request_size(prepare_query(query, sl.Schema(columns))) == size


def test_what_is_proposed_lies_above_what_was_measured_and_is_read_back(tmp_path):
    measured = {1: (0.0412345, 3_000_000), 4: (0.05, 2_000_000), 400: (1.234, 90_000_000)}
    found = fitted("count", measured)
    assert found.cost is not None
    assert found.duration == 6.2
    for size, (seconds, memory) in measured.items():
        assert found.cost.of(size)[0] >= seconds
        assert found.cost.of(size)[1] >= memory
    text = proposal([found, CalibratedKind(kind="sql", problem="none")])
    durations, costs = text.splitlines()
    assert durations == 'durations = {default = "6.2 s", count = "6.2 s"}'
    file = write_survey(tmp_path, more=costs)
    file.write_text(file.read_text().replace('durations = {default = "4 s"}', durations))
    table = read_config(file).tables["people"]
    assert table.durations == {"default": 6.2, "count": 6.2}
    assert table.costs["count"].seconds == found.cost.seconds
    assert table.costs["count"].memory >= found.cost.memory


def test_shapes_are_generated_and_as_large_as_declared(tmp_path):
    age = sl.Number("age", lower=0, upper=120, granularity=1)
    schema = sl.Schema([sl.PersonId("who", max_rows=3), age, sl.Category("job", ["cook", "nurse"])])
    import pyarrow.parquet as pq

    spread, ordered, few, one = (pq.read_table(file).to_pydict() for file in write_shapes(schema, 600, tmp_path))
    assert {len(each["age"]) for each in (spread, ordered, few, one)} == {600}
    assert len(set(spread["age"])) > 50
    assert ordered["age"] == sorted(spread["age"])
    assert len(set(few["age"])) <= 3
    assert np.mean(np.array(one["who"]) == one["who"][0]) >= 0.9
    assert all(value == round(value) for value in spread["age"])


def test_every_kind_that_needs_no_prediction_has_a_probe(tmp_path):
    pair = {
        "currency": "epsilon and delta", "budget": "{epsilon = 3, delta = 3e-5}", "strict": "false",
        "share": "{epsilon = 1, delta = 1e-5}", "largest": "{epsilon = 0.5, delta = 1e-6}",
        "smallest": "{epsilon = 0.001, delta = 1e-12}",
    }  # fmt: skip
    file = write_survey(tmp_path, **pair)
    sex = '{name = "sex", kind = "category", categories = ["f", "m"], other = false}'
    more = f'{{name = "pay", lower = 0, upper = 1000}}, {sex}'
    text = file.read_text().replace('"clerk"]},\n]', f'"clerk"]}}, {more}\n]')
    file.write_text(text.replace('"top_k"]', f'"top_k", {json.dumps(list(PLAN_KINDS))[1:]}'))
    config = read_config(file)
    table = config.tables["people"]
    assert next(prices_of(table, "count")) == {"epsilon": "0.5", "delta": "0.000001"}
    missing = []
    for kind in PLAN_KINDS:
        try:
            sizes = [size for size, _ in probes_of(config, table, kind)]
        except sl.errors.SidelightError:
            missing.append(kind)
        else:
            assert sizes
    assert missing == ["gaussian", "gaussian_mixture"]  # without a generated prediction


def test_nothing_of_the_source_is_opened(tmp_path, monkeypatch):
    """The source is not there at all, and each kind is run as often as is said, on every shape."""
    asked = []

    def taken(zygote, job):
        asked.append(job)
        return {"seconds": 0.1, "bytes": 1000}

    silent = SimpleNamespace(start=lambda: None, stop=lambda: None)
    monkeypatch.setattr(calibration, "Zygote", lambda config: silent)
    monkeypatch.setattr(calibration, "_taken", taken)
    config = read_config(write_survey(tmp_path))
    (tmp_path / "people.parquet").unlink()
    found = calibrate(config, config.tables["people"], runs=2)
    assert [each.kind for each in found] == list(config.tables["people"].kinds)
    assert {each.duration for each in found} == {1.0}
    counts = [job for job in asked if job["query"]["kind"] == "count" and "by" not in job["query"]]
    assert len(counts) == 2 * 4
    assert {job["query"]["epsilon"] for job in counts} == {"0.5", "0.001"}  # both ends of the price
    assert not any(str(tmp_path) in job["path"] for job in asked)


@pytest.mark.slow
def test_a_calibration_runs(tmp_path):
    file = write_survey(tmp_path)
    file.write_text(file.read_text().replace("10_000", "500"))
    (tmp_path / "people.parquet").unlink()
    config = read_config(file)
    found = calibrate(config, config.tables["people"], runs=1)
    assert [each.problem for each in found if each.problem] == []
    assert all(isinstance(each.cost, KindCost) and each.cost.seconds > 0 for each in found)
    file.write_text(file.read_text().replace('durations = {default = "4 s"}', proposal(found)))
    assert set(read_config(file).tables["people"].costs) == set(config.tables["people"].kinds)
