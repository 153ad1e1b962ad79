"""What services over HTTP share: limits on connections, bodies and log lines, and the headers of every answer.

The libraries of the extra `[service]` are loaded when a service or a client starts, not before.
"""

from __future__ import annotations

from importlib.util import find_spec
from ipaddress import ip_address

from sidelight.errors import MissingPackageError


def need_service(*modules: str) -> None:
    """Raise `MissingPackageError` unless these libraries of the extra `[service]` are there."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise MissingPackageError(
            f"services over HTTP need {', '.join(missing)}; install the extra: pip install 'sidelight[service]'"
        )


def is_loopback(host: str) -> bool:
    """Whether an address never leaves this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
