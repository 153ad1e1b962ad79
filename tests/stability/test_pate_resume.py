"""A run that is interrupted: what stays in the work folder, who may read it, and when it is used again."""

from __future__ import annotations

import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

import sidelight as sl
from sidelight.errors import RangeError, SourceError, TeacherError
from sidelight.testing import SeededSession

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, 300)
X = RNG.normal(size=(300, 2)) + 4.0 * Y[:, None]
IDS = [f"row {place}" for place in range(300)]
QUERIES = RNG.normal(size=(25, 2)) * 2 + 2


class _Tree(DecisionTreeClassifier):
    """Counts what is trained, and is interrupted when enough is."""

    trained = 0
    patience = 10**9

    def fit(self, x: np.ndarray, y: np.ndarray) -> _Tree:
        if not np.isin(x, QUERIES).all():  # the rehearsal with public rows is not counted
            if _Tree.trained >= _Tree.patience:
                raise KeyboardInterrupt
            _Tree.trained += 1
        return super().fit(x, y)


@pytest.fixture(autouse=True)
def _start_again() -> None:
    _Tree.trained, _Tree.patience = 0, 10**9


def run(folder: Path | None, *, session: object = None, **rest: object) -> sl.PATE:
    model = sl.PATE(
        _Tree(), DecisionTreeClassifier(), teachers=12, classes=[0, 1], noise_scale=5, n_jobs=1, session=session
    )
    model.set_params(**{name: rest.pop(name) for name in list(rest) if name in model.get_params()})
    return model.fit(**{"X": X, "y": Y, "record_ids": IDS, "queries": QUERIES, "work_folder": folder, **rest})


def stored(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.glob("teacher-*.npy")}


def seeded() -> SeededSession:
    return SeededSession(sl.Table({"row": [0.0]}, schema=[sl.Number("row")]), budget=sl.GDP(5), seed="resume")


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """The same ballots and, under the same noise, the same labels as a run without an interruption."""
    key = b"the same shares for both"
    whole = run(tmp_path / "whole", partition_key=key, session=seeded())
    _Tree.trained, _Tree.patience = 0, 5
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts", partition_key=key)
    assert len(stored(tmp_path / "parts")) == 5
    _Tree.patience = 10**9
    parts = run(tmp_path / "parts", session=seeded())  # the key is in the folder
    assert _Tree.trained == 12
    assert stored(tmp_path / "parts") == stored(tmp_path / "whole")
    assert parts.labels_.tolist() == whole.labels_.tolist()


def test_a_killed_process_leaves_whole_ballots(tmp_path: Path) -> None:
    """Killed in the middle of the fourth teacher, without a chance to tidy up."""
    program = f"""
        import os, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import test_pate_resume as own

        def die(self, x, y, fit=own.DecisionTreeClassifier.fit):
            own._Tree.trained += not own.np.isin(x, own.QUERIES).all()
            if own._Tree.trained == 4:
                os.kill(os.getpid(), 9)
            return fit(self, x, y)

        own._Tree.fit = die
        own.run({str(tmp_path / "work")!r})
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr.decode()
    before = stored(tmp_path / "work")
    assert len(before) == 3
    model = run(tmp_path / "work")
    assert _Tree.trained == 9
    assert before.items() <= stored(tmp_path / "work").items()
    assert model.labels_.shape == (25,)


def test_asking_again_draws_no_new_noise(tmp_path: Path) -> None:
    first, again = run(tmp_path), run(tmp_path)
    assert _Tree.trained == 12
    assert first.release_.to_json() == again.release_.to_json()
    louder = run(tmp_path, noise_scale=6)  # another request is another release, with the same teachers
    assert _Tree.trained == 12
    assert louder.release_.query["noise_scale"] == "6"


def test_seeded_releases_are_not_kept(tmp_path: Path) -> None:
    run(tmp_path, session=seeded())
    assert not list(tmp_path.glob("outcome-*"))


@pytest.mark.parametrize(
    "change",
    [
        {"X": X + 1e-9},
        {"y": 1 - Y},
        {"record_ids": [f"another {place}" for place in range(300)]},
        {"queries": QUERIES[:24]},
        {"classes": [0, 1, 2]},
        {"teachers": 13},
        {"teacher": _Tree(max_depth=2)},
        {"partition_key": b"another key of enough bytes"},
    ],
)
def test_ballots_of_another_plan_are_not_used(tmp_path: Path, change: dict) -> None:
    run(tmp_path)
    with pytest.raises(RangeError, match="work_folder"):
        run(tmp_path, **change)


def test_ballots_of_a_teacher_with_other_code_are_not_used(tmp_path: Path) -> None:
    """Two functions that are written into a pipeline have one `repr`, but for their places in memory."""
    run(tmp_path, teacher=make_pipeline(FunctionTransformer(lambda x: x), DecisionTreeClassifier()))
    with pytest.raises(RangeError, match="work_folder"):
        run(tmp_path, teacher=make_pipeline(FunctionTransformer(lambda x: -x), DecisionTreeClassifier()))


def test_what_is_no_ballot_is_trained_again(tmp_path: Path) -> None:
    run(tmp_path, session=seeded())
    before = stored(tmp_path)
    (tmp_path / "teacher-00003.npy").write_bytes(b"half a fi")
    np.save(tmp_path / "teacher-00004.npy", np.full(25, 7, np.int32))
    run(tmp_path, session=seeded())
    assert _Tree.trained == 14
    assert stored(tmp_path) == before


def test_files_are_for_their_owner_only_and_without_a_folder_there_are_none(tmp_path: Path) -> None:
    run(tmp_path / "new" / "work")
    assert stat.S_IMODE((tmp_path / "new" / "work").stat().st_mode) == 0o700
    files = list((tmp_path / "new" / "work").iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert not [file for file in files if file.suffix == ".part"]
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match="name a folder"):
        run(tmp_path / "file")


def test_the_cause_of_a_failure_is_for_the_owner(tmp_path: Path) -> None:
    def broken(self: _Tree, x: np.ndarray, y: np.ndarray) -> _Tree:
        raise ValueError(f"private {x[0, 0]}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Tree, "fit", broken)
        with pytest.warns(sl.NotPrivateWarning), pytest.raises(TeacherError, match="for your eyes only") as error:
            run(tmp_path, on_failure="raise")
    assert "private 0" not in str(error.value)
    (file,) = tmp_path.glob("*-failed.txt")
    assert "ValueError: private" in file.read_text()
    assert run(tmp_path).labels_.shape == (25,)  # mended: nothing of the failure is in the way
