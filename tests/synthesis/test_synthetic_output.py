"""What comes out of a release: answers in the order asked, in files without pandas, with bounds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

import sidelight as sl
from sidelight.testing import seeded_release

SCHEMA = [
    sl.Category("sex", ["F", "M"], other=None),
    sl.Category("job", ["nurse", "cook, or baker"]),
    sl.Number("age", lower=0, upper=99, granularity=1),
]


def released(**given: Any) -> sl.Release:
    rng = np.random.default_rng(0)
    data = {
        "sex": rng.choice(["F", "M"], 400, p=[0.7, 0.3]).tolist(),
        "job": rng.choice(["nurse", "cook, or baker", "clown"], 400).tolist(),
        "age": rng.integers(20, 60, 400).tolist(),
    }
    query = sl.SyntheticTable(**{"bins": {"age": [0, 30, 50, 65, 100]}, "rho": 2, "missing": ["job"]} | given)
    release = seeded_release(query, sl.Table(data, schema=SCHEMA), seed=1)
    assert isinstance(release, sl.Release)
    return release


def test_the_axes_of_an_answer_are_in_the_order_asked() -> None:
    made = sl.Synthetic(released(workload=sl.marginals(3), rounds=1))
    straight, turned = made.answer(["sex", "job", "age"]), made.answer(["age", "sex", "job"])
    assert not isinstance(straight, list)
    assert not isinstance(turned, list)
    assert turned.columns == ("age", "sex", "job")
    assert turned.counts.shape == (4, 2, 4)
    assert (turned.counts == np.transpose(straight.counts, (2, 0, 1))).all()
    assert turned.errors is not None
    assert turned.errors.shape == (4, 2, 4)
    assert turned.shares.sum() == pytest.approx(1)
    assert (turned.bound, turned.bound_of_sum) == (straight.bound, straight.bound_of_sum)
    assert made.answer(sl.marginals(sets=[["age", "sex"]])).columns == ("sex", "age")  # type: ignore[union-attr]


WITHOUT_FRAMES = """
import sys
from pathlib import Path

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pandas", "polars"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
import sidelight as sl
from sidelight.errors import MissingPackageError

made = sl.Synthetic(sl.Release.from_json(Path("release.json").read_text()))
made.write("o.csv", 300)
made.write("o.parquet", 300, seed=0)
for library in ("pandas", "polars"):
    try:
        made.table(library=library)
    except MissingPackageError as error:
        print(error)
print(made.table(10, library="pyarrow").num_rows)
"""


def test_files_are_written_without_pandas(tmp_path: Path) -> None:
    release = released()
    (tmp_path / "release.json").write_text(release.to_json())
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_FRAMES], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    first, second, rows = ran.stdout.splitlines()
    for line, library in ((first, "pandas"), (second, "polars")):
        assert f"pip install {library}" in line
        assert 'library="pyarrow"' in line
    assert rows == "10"
    frame = sl.Synthetic(release).table(300, library="pyarrow")
    text, file = pyarrow.csv.read_csv(tmp_path / "o.csv"), pyarrow.parquet.read_table(tmp_path / "o.parquet")
    assert text.column_names == file.column_names == ["sex", "job", "age"]
    assert file.column("age").to_pylist() == text.column("age").to_pylist() == frame.column("age").to_pylist()
    assert file.column("sex").cast("string").to_pylist() == text.column("sex").to_pylist()
    assert set(text.column("job").to_pylist()) <= {"nurse", "cook, or baker", "other", ""}


def test_a_parquet_file_keeps_the_enumeration_of_labels(tmp_path: Path) -> None:
    import pandas as pd

    made = sl.Synthetic(released())
    made.write(tmp_path / "o.parquet", 50)
    read = pd.read_parquet(tmp_path / "o.parquet")
    assert read["sex"].dtype == "category"
    assert set(read["job"].cat.categories) <= {"nurse", "cook, or baker", "other"}
    assert read["age"].dtype == np.int64
    assert read["sex"].astype(str).tolist() == made.table(50)["sex"].astype(str).tolist()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_library_that_is_named_writes(tmp_path: Path, ending: str) -> None:
    made = sl.Synthetic(released())
    for library in ("pandas", "polars", "pyarrow"):
        made.write(tmp_path / f"{library}.{ending}", 20, library=library)
        assert (tmp_path / f"{library}.{ending}").stat().st_size > 0
    made.write(tmp_path / f"like.{ending}", 20, like=made.table(1))


def test_the_docstring_leads_to_the_bounds() -> None:
    answer = sl.Synthetic(released()).answer(["sex", "age"])
    assert not isinstance(answer, list)
    assert answer.bound is not None
    assert "`bound`" in (sl.SyntheticTable.__doc__ or "")
