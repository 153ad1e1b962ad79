"""Rounds over HTTP: a service that takes noisy reports and loses none, and the client that sends them.

The libraries of the extra `[service]` are loaded when a service or a client starts, not before.
"""

from __future__ import annotations

from importlib.util import find_spec

from sidelight.errors import MissingPackageError


def need_service(*modules: str) -> None:
    """Raise `MissingPackageError` unless these libraries of the extra `[service]` are there."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise MissingPackageError(
            f"experts over HTTP need {', '.join(missing)}; install the extra: pip install 'sidelight[service]'"
        )
