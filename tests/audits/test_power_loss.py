"""Power lost at any moment: what was charged, stored or acknowledged before is there (`benchmarks.power_loss`)."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.power_loss import CUTS, Step, after_power_loss, cut, measure, recorded

NOTHING = {"lost": 0.0, "doubled": 0.0, "broken": 0.0}
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


@pytest.fixture(scope="module", params=["ledger", "journal"])
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Step]]:
    folder = tmp_path_factory.mktemp("power") / "disk"
    folder.mkdir()
    try:
        return request.param, recorded(folder, request.param)
    except RuntimeError as error:  # containers may forbid to watch a process
        pytest.skip(str(error))


@needs_strace
def test_nothing_is_lost(story: tuple[str, list[Step]], tmp_path: Path) -> None:
    name, steps = story
    assert sum(step.kind == "mark" for step in steps) > 10
    assert cut(steps, name, tmp_path, 12, seed=1) == {"cuts": 12} | NOTHING


@needs_strace
@pytest.mark.planted("a ledger or a journal that does not wait for the disk")
@pytest.mark.parametrize("left_out", ["sync", "sync names"])
def test_without_waiting_for_the_disk_it_would_be(story: tuple[str, list[Step]], tmp_path: Path, left_out: str) -> None:
    name, steps = story
    found = cut([step for step in steps if step.kind != left_out], name, tmp_path, 20, seed=1)
    assert found["lost"] + found["broken"] > 0


@needs_strace
@pytest.mark.slow
def test_nothing_is_lost_at_many_moments(record_property: Callable[[str, object], None]) -> None:
    found = measure()
    record_property(
        "audit", f"power loss: cut at {found['cuts']:.0f} moments of two programs; {found['lost']:.0f} lost"
    )
    assert found == {"cuts": 2 * CUTS} | NOTHING


def test_what_a_cut_leaves() -> None:
    made = [Step(kind="create", name="a"), Step(kind="sync names")]
    steps = [*made, Step(kind="write", name="a", data=b"x" * 1000), Step(kind="sync", name="a")]
    later = [*steps, Step(kind="write", name="a", offset=0, data=b"y" * 1000), Step(kind="create", name="b")]
    found = [after_power_loss(later, random.Random(seed)) for seed in range(400)]
    contents = {each["a"] for each in found}
    assert {b"x" * 1000, b"y" * 1000} < contents
    assert b"y" * 512 + b"x" * 488 in contents
    assert {len(each) for each in found} == {1, 2}  # the name of the second file may be gone
    assert all(after_power_loss(steps, random.Random(seed)) == {"a": b"x" * 1000} for seed in range(20))
    gone = [*steps, Step(kind="rename", name="a", to="c"), Step(kind="sync names"), Step(kind="unlink", name="c")]
    assert {tuple(after_power_loss(gone, random.Random(seed))) for seed in range(40)} == {("c",), ()}
