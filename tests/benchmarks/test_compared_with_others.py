"""The comparison page as last measured, and isolation of libraries that fail or hang."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.peers import behind, environments, page
from benchmarks.peers.cases import Case, counts_error, generated, linear_error, pair_error
from benchmarks.peers.entrants import (
    ADD_OR_REMOVE,
    ENTRANTS,
    MOVED,
    REPLACE,
    TOLD,
    WITHIN,
    Entrant,
    entrants_of,
    ours,
)
from benchmarks.peers.environments import OURS, PEERS, Outcome, Peer, PeersError, prepare, run, save_data
from benchmarks.peers.page import NUMBERS, PAGE, ask, lists_in_one_line, with_ratios
from benchmarks.peers.page_text import render, standing
from benchmarks.peers.programs import trial
from benchmarks.peers.ratios import LEAST_TRIALS, Ratio, ratio_of_medians

NOW = json.loads(NUMBERS.read_text(encoding="utf-8"))


def test_the_page_is_made_from_the_last_numbers() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(NOW), "python -m benchmarks.peers.page --render"


def test_the_page_has_every_task_and_library() -> None:
    assert {case.name for case in generated()} <= set(NOW["cases"]), "make bench-peers"
    assert not any("," in case.name for case in generated())  # `--only` takes names with commas between
    told = PAGE.read_text(encoding="utf-8")
    for peer in PEERS.values():
        assert f"| {peer.title} |" in told
    assert "SliceQuantiles" in told
    for case in NOW["cases"].values():
        assert case["alone"]["failure"] is None
        assert case["predicted"]["failure"] is None


def test_ratios_are_those_of_the_errors() -> None:
    for case in NOW["cases"].values():
        for other in case["others"]:
            if "ratio" in other:
                theirs = [np.inf if error is None else error for error in other["errors"]]
                against = other["against"]
                mine = case["alone"] if against is None else case["told"][against]
                expected = np.median(mine["errors"]) / np.median(theirs)
                assert other["ratio"]["value"] == pytest.approx(expected, rel=1e-2)
                assert other["ratio"]["lower"] <= other["ratio"]["value"] <= other["ratio"]["upper"]


def test_a_ratio_of_medians_has_an_interval_and_a_verdict() -> None:
    rng = np.random.default_rng(3)
    small, large = rng.gamma(9, 1, 30), rng.gamma(9, 3, 30)
    assert ratio_of_medians(list(small), list(large)).verdict == "ahead"
    assert ratio_of_medians(list(large), list(small)).verdict == "behind"
    assert ratio_of_medians(list(small), list(small)).verdict == "level"
    assert ratio_of_medians([1.0] * 30, [9.0] * (LEAST_TRIALS - 1)).verdict == "too few trials"
    found = ratio_of_medians([2.0] * LEAST_TRIALS, [np.inf] * LEAST_TRIALS)  # never an answer
    assert (found.value, found.verdict) == (0.0, "ahead")
    assert ratio_of_medians([0.0] * LEAST_TRIALS, [0.0] * LEAST_TRIALS).verdict == "level"
    assert ratio_of_medians([0.0] * LEAST_TRIALS, [1.0] * LEAST_TRIALS).verdict == "ahead"
    assert ratio_of_medians([1.0] * LEAST_TRIALS, [0.0] * LEAST_TRIALS).verdict == "behind"


def test_where_we_are_behind_the_page_says_so() -> None:
    ratio = {"value": 1.5, "lower": 1.2, "upper": 1.9, "trials": 20}
    other = {"peer": "opendp", "call": "`x`", "promise": "ε = 2, one row replaced", "ratio": ratio}
    told = standing({"a": {"title": "Sums", "others": [other]}})
    assert "behind in 1" in told
    assert "Sums: OpenDP, `x` (ε = 2, one row replaced): an error 1.5 times theirs [1.2, 1.9]" in told
    better = {**other, "ratio": {"value": 0.5, "lower": 0.2, "upper": 0.9, "trials": 20}}
    assert "nowhere among these" in standing({"a": {"title": "Sums", "others": [better]}})


def test_only_methods_that_protect_replacement_get_twice_epsilon() -> None:
    everybody = [entrant for entrants in ENTRANTS.values() for entrant in entrants]
    assert {entrant.factor for entrant in everybody if entrant.neighbours in (REPLACE, WITHIN)} == {2}
    assert {entrant.factor for entrant in everybody if entrant.neighbours in (ADD_OR_REMOVE, MOVED)} == {1}
    for entrants in ENTRANTS.values():  # each has a name of its own, in the cases that it answers
        assert len({(entrant.name, entrant.only) for entrant in entrants}) == len(entrants)
    case = next(case for case in generated() if case.task == "logistic")
    (diffprivlib, *_), mine = list(entrants_of(case)), ours(case)
    assert diffprivlib.public(case)["epsilon"] == 2 * mine.public(case)["epsilon"] == 2
    assert diffprivlib.promise(case) == f"ε = 2, {REPLACE}"
    assert mine.promise(case) == f"ε = 1, δ = 1e-6, {ADD_OR_REMOVE}"


def test_every_entrant_has_a_program_with_its_method() -> None:
    for entrants in ENTRANTS.values():
        for entrant in entrants:
            program = Path(environments.__file__).parent / "programs" / f"{PEERS[entrant.peer].program}.py"
            assert f"def {entrant.method}(" in program.read_text(encoding="utf-8")


def test_the_truth_has_no_error_and_is_not_told() -> None:
    for case in generated():
        data = case.draw(0)
        if case.task == "counts":
            assert counts_error(data, data["true_counts"]) == 0
        if case.task == "linear":
            assert linear_error(data, data["truth"]) == 0
        if case.task == "marginals":
            sizes = case.public["sizes"]
            truth = trial.pair_counts(data["rows"], sizes)
            assert pair_error(sizes)(data, truth) == pytest.approx(0, abs=1e-12)
            assert pair_error(sizes)(data, np.ones_like(truth)) > 1


def _job(folder: Path, **job: Any) -> None:
    (folder / "data").mkdir()
    save_data(folder / "data", [{"x": np.arange(3.0)}, {"x": np.arange(4.0)}])
    told = {"method": "size", "data": str(folder / "data"), "trials": 3, "seconds": 60, **job}
    (folder / "job.json").write_text(json.dumps(told))


def test_a_program_writes_each_answer_and_goes_round_the_data(tmp_path: Path) -> None:
    _job(tmp_path)
    methods = {"size": lambda job: lambda data: [len(data["x"])]}
    trial.run(tmp_path, "numpy", methods, processor_seconds=lambda: 0.0)
    assert [int(np.load(tmp_path / f"answer-{place}.npy")[0]) for place in range(3)] == [3, 4, 3]
    assert len(json.loads((tmp_path / "result.json").read_text())["seconds"]) == 3


def test_a_slow_program_ends_after_its_seconds_with_one_answer_at_least(tmp_path: Path) -> None:
    _job(tmp_path, seconds=0)
    trial.run(tmp_path, "numpy", {"size": lambda job: lambda data: [0]}, processor_seconds=lambda: 0.0)
    assert len(json.loads((tmp_path / "result.json").read_text())["seconds"]) == 1


def test_a_slow_program_makes_enough_trials_for_a_verdict(tmp_path: Path) -> None:
    _job(tmp_path, seconds=0, trials=5, least=3)
    trial.run(tmp_path, "numpy", {"size": lambda job: lambda data: [0]}, processor_seconds=lambda: 0.0)
    assert len(json.loads((tmp_path / "result.json").read_text())["seconds"]) == 3


def test_what_fails_hangs_or_is_not_there_is_an_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_data(tmp_path, [{"x": np.arange(3.0)}])
    failed = run(OURS, "no such method", data=tmp_path, trials=1, seconds=1, program="quantile_tree")
    assert failed.failure is not None
    assert "KeyError" in failed.failure
    slow = run(OURS, "quantiles", data=tmp_path, trials=1, seconds=1, patience=0.01, program="quantile_tree")
    assert (slow.failure, slow.answers) == ("no answer in 0 s", [])
    fine = {"epsilon": 1.0, "bounds": [0.0, 4.0], "levels": [0.5]}
    whole = run(OURS, "quantiles", data=tmp_path, trials=2, seconds=60, program="quantile_tree", **fine)
    assert (whole.failure, len(whole.answers), len(whole.processor)) == (None, 2, 2)
    away = {"java's": Peer(title="Java's", program="with_tumult", install=[["x"]], needs=("no-such-command", "Java"))}
    assert run("java's", "counts", data=tmp_path, trials=1, seconds=1, known=away).failure == (
        "Java's needs Java, which is not on this machine"
    )
    monkeypatch.setattr(environments, "_shell", lambda command: "ERROR: no index" if "pip" in command else None)
    gone = {"gone": Peer(title="Gone", program="with_tumult", install=[["gone"]])}
    (tmp_path / "gone").mkdir()
    with pytest.raises(PeersError, match="pip install gone failed: ERROR: no index"):
        prepare("gone", known=gone, folder=tmp_path)


def test_a_failing_library_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = [case for case in generated() if case.name == "counts at epsilon 1"]
    small = Case(**{**{name: getattr(case, name) for name in case.__dataclass_fields__}, "trials": 2})
    everybody = [Entrant(peer=peer, method="counts", call="") for peer in ("opendp", "diffprivlib", "tumult")]
    monkeypatch.setattr(page, "entrants_of", lambda case: everybody)
    truth = [small.draw(trial)["true_counts"] for trial in range(2)]

    def fake(peer: str, method: str, **told: Any) -> Outcome:
        if peer == "opendp":
            return Outcome(failure="failed: OSError: broken")
        return Outcome(answers=[each + 1 for each in truth], seconds=[1, 1], processor=[1, 1], version="1")

    monkeypatch.setattr(page, "run", fake)
    with ThreadPoolExecutor(max_workers=2) as pool:
        found = ask(small, pool, {"tumult": "no Java"})
    opendp, diffprivlib, tumult = found["others"]
    assert (opendp["failure"], opendp["errors"], "ratio" in opendp) == ("failed: OSError: broken", [], False)
    assert diffprivlib["errors"] == pytest.approx([1, 1])
    assert Ratio(**diffprivlib["ratio"]).value == 1
    assert tumult["failure"] == "not installed"
    words = {name: getattr(small, name) for name in ("title", "rows", "measure", "epsilon", "delta")}
    told = render(
        {"version": "1", "machine": "", "missing": {"tumult": "no Java"}, "cases": {small.name: words | found}}
    )
    assert "failed: OSError: broken" in told
    assert "| Tumult Analytics | not measured | `benchmarks/peers/programs/with_tumult.py` | no Java." in told


def test_methods_with_more_information_are_compared_with_ours_given_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = [case for case in generated() if case.name == "means"]
    small = replace(case, trials=1)
    more = Entrant(peer="diffprivlib", method="means", call="`m`", against="with_sizes")
    slow = Entrant(peer="tumult", method="means", call="`t`", slow=True)
    monkeypatch.setattr(page, "entrants_of", lambda case: [more, slow])
    truth = small.draw(7)["true_means"]
    off = {"means": 4, "means_predicted": 3, "means_with_sizes": 1}

    def fake(peer: str, method: str, **told: Any) -> Outcome:
        answer = truth + (off[method] if peer == OURS else 2)
        return Outcome(answers=[answer], seconds=[1], processor=[1], version="1")

    monkeypatch.setattr(page, "run", fake)
    with ThreadPoolExecutor(max_workers=1) as pool:
        found = ask(small, pool, {}, quick=True, first=7)
        assert ask(small, pool, {}, calls=[(slow.call, slow.promise(small))])["others"][0]["call"] == "`t`"
    (other,) = found["others"]  # without the slow one
    assert (other["ratio"]["value"], other["predicted ratio"]["value"]) == pytest.approx((0.5, 1.5))
    words = {name: getattr(small, name) for name in ("title", "rows", "measure", "epsilon", "delta")}
    told = render({"cases": {small.name: words | found}})
    assert "`m`; compared with ours with declared sizes" in told
    assert f"| **sidelight**, with declared sizes | {TOLD['with_sizes'][0]} | ε = 1, {TOLD['with_sizes'][1]} |" in told


def test_behind_counts_only_who_is_behind_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    worse, level = ({"value": 2.0, "lower": low, "upper": 3.0, "trials": 20} for low in (1.5, 0.5))
    named = {"peer": "opendp", "promise": "ε = 1"}
    twice = {"call": "a", "ratio": worse, "processor ratio": worse, **named}
    once = [{"call": "b", "ratio": first, "processor ratio": level, **named} for first in (worse, level)]
    asked = []

    def fake(case: Case, *rest: Any, quick: bool, first: int = 0, calls: Any = None) -> dict[str, Any]:
        asked.append((case.trials, quick, first, calls))
        return {"others": [twice, once[bool(first)]]}

    monkeypatch.setattr(behind, "ask", fake)
    with ThreadPoolExecutor(max_workers=1) as pool:
        assert behind.behind(generated()[0], pool) == ["accuracy", "time"]
    again = {(each, "ε = 1") for each in "ab"}
    assert asked == [(behind.TRIALS, True, 0, None), (behind.TRIALS, True, behind.AGAIN, again)]
    monkeypatch.setattr(behind, "missing_peers", lambda asked, quick: {"opendp": "no index"})
    with pytest.raises(PeersError, match="opendp: no index"):
        behind.measure()


def test_lists_are_written_in_one_line(tmp_path: Path) -> None:
    place = tmp_path / "numbers.json"
    numbers = {"a": [1.5, None, 2], "b": {"c": [], "d": "[\n1\n]"}, "e": [{"f": [1]}]}
    place.write_text(json.dumps(numbers, indent=1))
    lists_in_one_line(place)
    assert json.loads(place.read_text()) == numbers
    assert "[1.5, null, 2]" in place.read_text()


def test_a_nan_answer_is_the_worst_error() -> None:
    mine: dict[str, Any] = {"errors": [1.0] * 9, "processor": [1.0] * 9}
    found = with_ratios(mine, mine, {"errors": [None] * 9, "processor": [2.0] * 9})
    assert found["ratio"]["value"] == 0
    assert found["processor ratio"]["value"] == 0.5
