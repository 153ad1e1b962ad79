"""How many files of the library one question passes through: a reader who follows `sidelight run` opens as many.

A file counts if a function (or a method, lambda, comprehension or generator) that it defines is called while the run
goes on. What an import runs does not count (bodies of modules and classes, decorators, registries): it runs whether it
is needed or not. Imports count by themselves, as the modules of the library that are loaded at the end.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

#: Files with a function that is called, with extras, statements of what is idealized, exact totals, the meter, shared
#: budgets, periods, errors of ties, units, sources and their files, texts for people, charges apart from
#: accounts, extras of files, fields that are computed when they are read. Lower it where you can.
MOST_FILES = 106
#: Modules of the library that are loaded at the end.
MOST_MODULES = 214

PLAN = """
[source]
path = "people.csv"
[[column]]
name = "age"
granularity = 1
[budget]
epsilon = 1
[ledger]
url = "budget.db"
[[query]]
kind = "quantiles"
column = "age"
levels = [0.5]
epsilon = 0.5
"""

TRACE = """
import json, os, sys, threading
called = set()
def watch(frame, event, argument):
    code = frame.f_code
    # The body of a module or of a class has no local variables of its own (CO_OPTIMIZED): it runs at the import.
    if event == "call" and code.co_flags & 0x1 and code.co_filename not in called:
        above = frame.f_back
        while above is not None and above.f_code.co_name != "<module>":
            above = above.f_back
        # What an import calls (a decorator, a registry) has the body of the imported module above it.
        if above is None or above.f_globals["__name__"] == "__main__":
            called.add(code.co_filename)
threading.setprofile(watch)
sys.setprofile(watch)
sys.argv = ["sidelight", "run", "plan.toml"]
status = 0
try:
    from sidelight.cli import main
    main()
except SystemExit as end:
    status = end.code or 0
sys.setprofile(None)
import sidelight
root = os.path.dirname(sidelight.__file__) + os.sep
files = sorted(name[len(root):] for name in called if name.startswith(root))
modules = sorted(name for name in sys.modules if name.partition(".")[0] == "sidelight")
with open("trace.json", "w") as out:
    json.dump({"status": status, "files": files, "modules": modules}, out)
"""


def test_a_median_passes_through_few_files(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("age\n" + "".join(f"{20 + n % 50}\n" for n in range(300)), encoding="utf-8")
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", TRACE], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))
    assert found["status"] == 0, done.stdout + done.stderr
    assert (tmp_path / "budget.db").exists()  # it was a run, with a charge
    assert "quantiles/query.py" in found["files"]
    files, modules = found["files"], found["modules"]
    told = f"{len(files)} files with a function that was called:\n  " + "\n  ".join(files)
    loaded = f"{len(modules)} modules loaded:\n  " + "\n  ".join(modules)
    print(f"{told}\n{loaded}")
    assert len(files) <= MOST_FILES, told
    assert len(modules) <= MOST_MODULES, loaded
