"""Libraries that only a part of sidelight needs, imported where it is used; who lacks one reads which extra has it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from sidelight.errors import MissingPackageError

#: The extra that installs a library, by the name that it is imported by.
EXTRAS: Mapping[str, str] = {"sklearn": "models", "matplotlib": "plots", "psycopg": "postgres"}


def import_with_extras(module: str) -> ModuleType:
    """Import a module; where it needs a library of an extra that is absent, say which extra.

    Args:
        module: Its full name, ours or that of such a library.

    Returns:
        The module.

    >>> import_with_extras("sidelight.quantiles").__name__
    'sidelight.quantiles'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRAS:
            raise
    needs = f"{missing} is" if module.startswith(missing) else f"{module} needs {missing}, which is"
    raise MissingPackageError(f'{needs} not installed; pip install "sidelight[{EXTRAS[missing]}]"')
