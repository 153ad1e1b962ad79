"""How many megabytes `pip install sidelight` puts on a disk, and that the everyday path needs nothing else.

    python -m benchmarks.install_size

The requirements are those of `pyproject.toml`, without extras, with their own; the files are those that are installed
here, as pip lists them. The README's first section is run with every other library of ours blocked.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from benchmarks.measuring import sized

ROOT = Path(__file__).parent.parent
_BLOCKED = """
import importlib.util, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in {blocked!r} else find(name, *more)  # asked, not imported
from sidelight.cli import main
sys.argv[0] = "sidelight"
main()
"""
_COMMANDS = (
    "init visits.csv --person patient --max-rows 5 --number age:0:110:1 --category sex:F,M:1 "
    "--date visit:2020-01-01:2025-12-31",
    "check plan.toml",
    "plan plan.toml",
    "run plan.toml",
)[: sized(4, 1)]


def closure(requirements: Iterable[str], found: dict[str, float] | None = None) -> dict[str, float]:
    """Return the megabytes of each package that these requirements install, their own requirements included."""
    sizes = {} if found is None else found
    for text in requirements:
        requirement = Requirement(text)
        name = requirement.name.lower()
        if name in sizes or (requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})):
            continue
        files = [Path(str(each.locate())) for each in metadata.files(name) or ()]
        sizes[name] = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
        closure(metadata.requires(name) or (), sizes)
    return sizes


def first_section(blocked: Iterable[str]) -> list[str]:
    """Return the commands of the README's first section that fail where these libraries are absent."""
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        rows = [f"p{row // 2},{row % 97},{'FM'[row // 2 % 2]},202{row % 5}-01-1{row % 9}" for row in range(400)]
        (Path(folder) / "visits.csv").write_text("\n".join(["patient,age,sex,visit", *rows]) + "\n")
        for command in _COMMANDS:
            code = _BLOCKED.format(blocked=set(blocked))
            ran = subprocess.run([sys.executable, "-c", code, *command.split()], cwd=folder, capture_output=True)
            if ran.returncode:
                failed.append(command.partition(" ")[0])
    return failed


def measure() -> Mapping[str, float]:
    """Measure the megabytes of an install without extras, ours included."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = sum(file.stat().st_size for file in (ROOT / "src").rglob("*") if file.is_file()) / 1e6
    optional = {"matplotlib", "sklearn", "joblib", "pandas", "polars", "psycopg", "starlette", "httpx"}
    return {
        "megabytes": own + sum(closure(declared["dependencies"]).values()),
        "failed": float(len(first_section(optional))),
    }


if __name__ == "__main__":
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, size in sorted(closure(declared["dependencies"]).items(), key=lambda each: -each[1]):
        print(f"{size:8.1f} MB {name}")
    print(measure())
