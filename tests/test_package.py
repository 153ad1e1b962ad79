"""The package as a whole: its names, what importing costs, and what its shared small parts say."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import warnings
from collections import Counter
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sidelight as sl
from sidelight.errors import REMOVED, RangeError, SidelightWarning, nearest
from sidelight.grid import Grid

HEAVY = [
    "dp_accounting",
    "duckdb",
    "matplotlib",
    "narwhals",
    "pandas",
    "polars",
    "pyarrow",
    "scipy",
    "sklearn",
    "sqlalchemy",
]

#: Categories that `warnings.warn` may name: ours, and one of scikit-learn's that its estimator checks ask for.
OUR_WARNINGS = {
    "DataConversionWarning",
    "HedgeWarning",
    "NotPrivateWarning",
    "PrivacyWarning",
    "SidelightWarning",
    "WeakFitWarning",
}


def test_every_public_name_is_there() -> None:
    for name in sl.__all__:
        assert getattr(sl, name) is not None
    assert set(sl.__all__) <= set(dir(sl))


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match="Quantiles"):
        sl.Quantile  # noqa: B018


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, names in REMOVED.items() for name in names])
def test_a_parameter_of_earlier_versions_says_what_to_do(owner: str, name: str) -> None:
    made = getattr(sl, owner)
    with pytest.raises(TypeError, match=f"{owner} no longer has the parameter '{name}'; leave it out"):
        made(**{name: 2})
    assert name not in inspect.signature(made).parameters


@pytest.mark.parametrize("owner", ["Quantiles", "Distribution"])
@pytest.mark.parametrize("old", [{"lower": 0}, {"upper": 9}, {"lower": 0, "upper": 9}, {"lower": None}])
def test_an_old_parameter_is_refused_next_to_the_new_one(owner: str, old: dict[str, int | None]) -> None:
    made = getattr(sl, owner)
    given = {"levels": [0.5], "epsilon": 1} if owner == "Quantiles" else {"epsilon": 1}
    with pytest.warns(SidelightWarning, match=rf"{owner}: write bounds=\(lower, upper\)"):
        assert made(**given, **old).bounds == (old.get("lower"), old.get("upper"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # refused before anything else is said
        with pytest.raises(TypeError, match=f"{owner} got both 'bounds' and its old parameter .*; leave .* out"):
            made(**given, bounds=(1, 2), **old)


@pytest.mark.parametrize("name", ["LogisticRegression", "LinearSVC", "LinearRegression", "PoissonRegressor"])
def test_an_old_setting_is_refused_next_to_a_solver_that_has_settings(name: str) -> None:
    made = getattr(sl, name)
    for solver, old in ((sl.ObjectiveSettings(theta_norm=3), "theta_norm"), (sl.ObjectiveSettings(), "rows_at_most")):
        with pytest.raises(TypeError, match=f"{name} got both 'solver' and its old parameter '{old}'"):
            made(epsilon=1, delta=1e-6, solver=solver, **{old: 5})
    with pytest.warns(SidelightWarning, match="instead of theta_norm"):
        assert made(epsilon=1, delta=1e-6, solver="objective", theta_norm=5).solver.theta_norm == 5


def test_a_library_of_an_extra_that_is_absent_is_named_with_the_extra() -> None:
    code = """
import sys
sys.modules["sklearn"] = sys.modules["matplotlib"] = sys.modules["matplotlib.pyplot"] = None
import sidelight as sl
from sidelight.registry import load_query
release = sl.Quantiles([0.5, 0.7], epsilon=1).release(list(range(100)))
for asked in (lambda: sl.LogisticRegression, lambda: load_query("linear_regression"), release.plot):
    try:
        asked()
    except sl.errors.MissingPackageError as error:
        print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said = ran.stdout.splitlines()
    assert [line.rpartition("; ")[2] for line in said] == [
        'pip install "sidelight[models]"',
        'pip install "sidelight[models]"',
        'pip install "sidelight[plots]"',
    ]
    assert "sklearn" in said[0]
    assert said[2].startswith("matplotlib")


@pytest.mark.parametrize("name", sorted(set(sl.priors.__all__) - {"hedge", "Histogram"}))
def test_a_prior_is_found_where_it_lives(name: str) -> None:
    assert getattr(sl.priors, name) is getattr(sl.predictions, name)
    assert name not in dir(sl)
    with pytest.raises(AttributeError, match=rf"it is sl\.priors\.{name} now"):
        getattr(sl, name)


@pytest.mark.parametrize(
    "code", ["import sidelight", "import sidelight as sl; sl.Quantiles([0.5], epsilon=1).release([1.0])"]
)
def test_importing_is_light(code: str) -> None:
    check = f"{code}\nimport sys\nprint([name for name in {HEAVY} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_nearest_name_is_offered() -> None:
    assert nearest("xyz", ["age"]) == "known: age"
    assert nearest("agee", []) == "known: none"


@given(
    code=st.integers(-(2**60), 2**60),
    offset=st.integers(0, 2**20 - 1),
    step=st.fractions(min_value=Fraction(1, 10**6), max_value=10**6),
)
def test_a_released_index_drops_its_dither(code: int, offset: int, step: Fraction) -> None:
    grid = Grid(resolution=step)
    assert grid.value((code << 20) + offset) == float(code * step)


def test_grid_mistakes_are_named() -> None:
    with pytest.raises(RangeError, match="resolution"):
        Grid(resolution=Fraction(0))
    with pytest.raises(RangeError, match="first"):
        Grid(resolution=Fraction(1), first=1, last=0)
    with pytest.raises(RangeError, match="dither_bits"):
        Grid(resolution=Fraction(1), dither_bits=50)


def test_public_values_find_their_cell() -> None:
    grid = Grid(resolution=Fraction(1, 10), first=-5, last=1000, snap="nearest")
    assert grid.index_of(0.29) >> 20 == 3
    assert grid.index_of(-100) == grid.fine_first
    assert grid.index_of(1e9) >> 20 == 1000


@pytest.mark.parametrize("name", ["errors", "ledger", "stability", "testing"])
def test_packages_are_there_without_an_import_of_their_own(name: str) -> None:
    code = f"import sidelight as sl; print(sl.{name}.__name__)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == f"sidelight.{name}"


def test_an_error_is_found_where_it_lives() -> None:
    assert "errors" in dir(sl)
    with pytest.raises(AttributeError, match=r"it is sidelight\.errors\.BudgetError"):
        sl.BudgetError  # noqa: B018


def test_the_changelog_begins_with_this_version_and_names_what_there_is() -> None:
    text = (Path(__file__).parents[1] / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (\S+)", text, re.MULTILINE)[0] == sl.__version__
    named = set(re.findall(r"`sl\.(\w+)", text.partition("### What is there")[2].partition("### What changed")[0]))
    assert [name for name in sorted(named) if not hasattr(sl, name)] == []
    assert len(named) > 50


def test_every_test_that_the_security_page_names_is_there() -> None:
    folder = Path(__file__).parents[1]
    text = (folder / "SECURITY.md").read_text()
    named = re.findall(r"`((?:tests|benchmarks)/[\w/]+\.py)`", text)
    assert [name for name in named if not (folder / name).is_file()] == []
    entries = text.partition("## Defects before")[2].partition("\n## ")[0].split("\n### ")[1:]
    for entry in entries:
        for part in ("Could happen", "Affected", "Fixed", "Tests"):
            assert f"* **{part}:** " in entry, entry.splitlines()[0]
    assert len(entries) >= 15


def test_no_file_of_numbers_was_made_on_one_machine() -> None:
    """Stored floats differ between architectures; two files of them are compared with a tolerance, one with nothing."""
    folder = Path(__file__).parents[1]
    kinds = {".json", ".csv", ".npy", ".npz", ".parquet", ".pickle", ".pkl", ".txt", ".toml", ".bin", ".db"}
    stored = [
        path.relative_to(folder).as_posix()
        for part in ("tests", "src", "benchmarks")
        for path in sorted((folder / part).rglob("*"))
        if path.suffix in kinds
    ]
    assert stored == ["tests/privacy_page/cases.json", "tests/reference_bits.json", "tests/seconds.json"]


@cache
def broken_rules() -> dict[str, list[str]]:
    """Return where the code breaks each of four rules of the house, by one walk over all of it."""
    found: dict[str, list[str]] = {"warnings of ours": [], "errors in one file": [], "words of docstrings": []}
    homes: dict[str, list[str]] = {}
    for path in sorted(Path(sl.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr == "warn" and ast.unparse(called) == "warnings.warn":
                assert isinstance(node, ast.Call)
                category = ast.unparse(node.args[1]) if len(node.args) > 1 else "none"
                if category not in OUR_WARNINGS:
                    found["warnings of ours"].append(f"{path.name}:{node.lineno} {category}")
            bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(path.name)
            if path.name != "errors.py" and any(
                re.search(r"(Error|Warning|Exception|Exit|Interrupt)$", b) for b in bases
            ):
                found["errors in one file"].append(f"{path.name}:{node.lineno}")
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                words = (ast.get_docstring(node, clean=False) or "").split(maxsplit=1)
                if words and words[0] in ("Give", "Gives", "Say", "Says", "None."):
                    found["words of docstrings"].append(f"{path.name}:{node.lineno} {node.name}")
    return found | {"class names": [f"{name} in {places}" for name, places in homes.items() if len(places) > 1]}


def test_every_warning_is_one_of_ours() -> None:
    """The command line shows our warnings in its own words and no others: one without a category would be lost."""
    assert not broken_rules()["warnings of ours"]


def test_every_error_and_warning_lives_in_one_file() -> None:
    assert not broken_rules()["errors in one file"]


def test_docstrings_say_what_is_returned_or_done() -> None:
    """One verb for one thing: "Return ...", or the action; never "Give", "Say" or "None."."""
    assert not broken_rules()["words of docstrings"]


def test_no_two_test_files_share_a_name() -> None:
    """pytest imports test files by their names: the second of two is not run, and only a run of all of them says so."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("*.py") if path.name != "conftest.py")
    assert [name for name, times in names.items() if times > 1 and name != "__init__.py"] == []


def test_a_class_name_means_one_thing() -> None:
    assert not broken_rules()["class names"]


def test_no_file_is_longer_than_400_lines() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in Path(sl.__file__).parent.rglob("*.py")}
    assert {name: length for name, length in lengths.items() if length > 400} == {}
