"""How targets are measured: side by side no script hides another, and attacks have runs enough to refute."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from benchmarks.target import Target
from target_scripts import alone, dies, fails, slow, told

from benchmarks import membership, targets


@pytest.mark.parametrize("side_by_side", [True, False])
def test_a_script_that_fails_or_dies_hides_no_other(monkeypatch: pytest.MonkeyPatch, *, side_by_side: bool) -> None:
    group = ModuleType("group")
    scripts = [told, fails, *([dies] if side_by_side else [])]
    group.TARGETS = [Target(f"{script.__name__}-{figure}", script, figure, "<=", 1) for script in scripts
                     for figure in ("one", "process")]  # fmt: skip
    group.SIDE_BY_SIDE = side_by_side
    monkeypatch.setattr(targets, "import_module", lambda name: group)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with ExitStack() as stack:
        figures = targets.runs_of("tried", (), stack)
        found = {script: figures[script]() for script in scripts}
        assert figures[told]()["process"] == found[told]["process"]  # once
        assert not targets.runs_of("tried", figures, stack)
    assert found[told]["one"] == (1 if side_by_side else 2)  # thread of a library, where two scripts share two cores
    assert "OMP_NUM_THREADS" not in os.environ
    assert (found[told]["process"] != os.getpid()) == side_by_side
    assert not any(found[script] for script in scripts[1:])


def test_what_measures_seconds_runs_alone_afterwards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    group = ModuleType("group")
    group.TARGETS = [Target(script.__name__, script, "one", "<=", 1) for script in (alone, slow)]
    group.SIDE_BY_SIDE, group.ALONE = True, (alone,)
    monkeypatch.setattr(targets, "import_module", lambda name: group)
    with ExitStack() as stack:
        figures = targets.runs_of("tried", (), stack)
        assert figures[alone]() == {"one": 2.0, "after": 1.0}
        assert figures[slow]()["one"] == 1


@pytest.mark.parametrize(
    ("attack", "query"), [(membership.our_model, membership.MODEL), (membership.our_table, membership.TABLE)]
)
def test_shadow_models_are_enough_to_refute_what_always_tells(attack: membership.Attack, query: object) -> None:
    """A check that cannot fail is none: with 40 runs nothing at all was refuted with a confidence of 1 - 1e-7."""

    def tells(columns: dict[str, Any], seed: int) -> float:
        return float(len(columns["a"]) > membership.ROWS)

    claims = membership.claims_of(query)
    found = membership.shadowed(tells, claims, runs=membership.RUNS[attack])
    assert found.surely > found.claimed
    assert membership.shadowed(tells, claims, runs=40).surely < found.claimed
