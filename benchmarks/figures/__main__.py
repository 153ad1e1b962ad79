"""`make figures`: every figure at its quick size. Exit status 1 when a trend does not show."""

import sys
from importlib import import_module
from pkgutil import iter_modules

from benchmarks import figures


def main() -> int:
    """Run every module of this folder that has a `FIGURE`, in the order of their names; arguments are those of each."""
    modules = [
        import_module(f"benchmarks.figures.{module.name}")
        for module in iter_modules(figures.__path__)
        if module.name != "__main__"
    ]
    return max([module.FIGURE.run() for module in modules if hasattr(module, "FIGURE")])


if __name__ == "__main__":
    sys.exit(main())
