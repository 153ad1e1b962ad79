"""How many megabytes `pip install sidelight` puts on a disk, and that the README's first steps need nothing else.

    python -m benchmarks.install_size

The requirements are those of `pyproject.toml`, without extras, with their own; the files are those that are installed
here, as pip lists them. The README's first section runs where no other library can be imported, its section about a
file where only those of the extra `files` can be besides. Which commands and lines these are, the README says.
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
from packaging.utils import canonicalize_name

from benchmarks.measuring import sized

ROOT = Path(__file__).parent.parent
FIRST, OWN_FILE = "A first median", "Your own file, in five minutes"
_BLOCKED = """
import importlib.util, sys
blocked = set({blocked!r})
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name.partition(".")[0] in blocked else find(name, *more)
"""
_COMMAND = """
from sidelight.cli import main
sys.argv[0] = "sidelight"
main()
"""
_EXAMPLES = """
import doctest
flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
example = doctest.DocTestParser().get_doctest({text!r}, {{}}, "README", None, 0)
sys.exit(doctest.DocTestRunner(optionflags=flags).run(example).failed or not example.examples)
"""


def closure(requirements: Iterable[str], found: dict[str, float] | None = None) -> dict[str, float]:
    """Return the megabytes of each package that these requirements install, their own requirements included."""
    sizes = {} if found is None else found
    for text in requirements:
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if name in sizes or (requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})):
            continue
        files = [Path(str(each.locate())) for each in metadata.files(name) or ()]
        sizes[name] = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
        closure(metadata.requires(name) or (), sizes)
    return sizes


def declared() -> tuple[list[str], dict[str, list[str]]]:
    """Return the requirements of `pyproject.toml`, and those of each extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["dependencies"], project["optional-dependencies"]


def optional(requirements: Iterable[str]) -> set[str]:
    """Return every module installed here that these requirements do not bring, and that is not ours."""
    brought = {*closure(requirements), "sidelight"}
    homes = metadata.packages_distributions()
    return {module for module, names in homes.items() if brought.isdisjoint(map(canonicalize_name, names))}


def section(title: str) -> str:
    """Return the text of a section of the README."""
    _, found, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition(f"\n## {title}\n")
    if not found:
        raise ValueError(f"the README has no section {title!r}")
    return rest.partition("\n## ")[0]


def runs(code: str, blocked: Iterable[str], *arguments: str, folder: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Python code, in which `sys` is imported, where these modules are absent."""
    whole = _BLOCKED.format(blocked=sorted(blocked)) + code
    return subprocess.run([sys.executable, "-c", whole, *arguments], cwd=folder, capture_output=True, text=True)


def failed_examples(blocked: Iterable[str]) -> list[str]:
    """Return what the Python of the README's first section says where these modules are absent; nothing if it runs."""
    with tempfile.TemporaryDirectory() as folder:
        ran = runs(_EXAMPLES.format(text=section(FIRST)), blocked, folder=folder)
    return [ran.stdout + ran.stderr] if ran.returncode else []


def failed_commands(blocked: Iterable[str]) -> list[str]:
    """Return the commands of the README's section about a file that fail where these modules are absent, and why."""
    lines = [line.partition("#")[0].split() for line in section(OWN_FILE).splitlines() if line.startswith("sidelight ")]
    failed = [] if lines else ["no command"]
    with tempfile.TemporaryDirectory() as folder:
        rows = [f"p{row // 2},{row % 97},{'FM'[row // 2 % 2]},202{row % 5}-01-1{row % 9}" for row in range(400)]
        (Path(folder) / "visits.csv").write_text("\n".join(["patient,age,sex,visit", *rows]) + "\n")
        for command in lines[: sized(len(lines), 1)]:
            ran = runs(_COMMAND, blocked, *command[1:], folder=folder)
            failed += [f"{command[1]}: {ran.stderr}"] if ran.returncode else []
    return failed


def measure() -> Mapping[str, float]:
    """Measure the megabytes of an install without extras, ours included, and which first steps need an extra."""
    requirements, extras = declared()
    own = sum(file.stat().st_size for file in (ROOT / "src").rglob("*") if file.is_file()) / 1e6
    return {
        "megabytes": own + sum(closure(requirements).values()),
        "with_files": own + sum(closure([*requirements, *extras["files"]]).values()),
        "failed": float(
            len(failed_examples(optional(requirements)))
            + len(failed_commands(optional([*requirements, *extras["files"]])))
        ),
    }


if __name__ == "__main__":
    for name, size in sorted(closure(declared()[0]).items(), key=lambda each: -each[1]):
        print(f"{size:8.1f} MB {name}")
    print(measure())
