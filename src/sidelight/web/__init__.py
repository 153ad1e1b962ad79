"""Common parts of HTTP services: limits on connections, bodies and log lines, and the headers of answers.

The libraries of the extra `[service]` are loaded when a service or a client starts, not before.
"""

from __future__ import annotations

from importlib.util import find_spec
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from sidelight.errors import MissingPackageError, RangeError


def need_service(*modules: str) -> None:
    """Raise `MissingPackageError` unless these libraries of the extra `[service]` are installed."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise MissingPackageError(
            f"services over HTTP need {', '.join(missing)}; install the extra: pip install 'sidelight[service]'"
        )


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def http_client(
    url: str, token: str, *, patience: float, timeout: float, verify: Any, transport: Any, awaited: bool = False
) -> Any:
    """Return an httpx client that sends a token to one address, by https or within this machine.

    `awaited` chooses `httpx.AsyncClient`.

    Raises:
        RangeError: the address, the token or the patience is invalid.
    """
    need_service("httpx")
    import httpx

    try:
        parts = urlsplit(url)
        _ = parts.port, httpx.URL(url)
    except (ValueError, TypeError, httpx.InvalidURL):
        came = "one with @, not shown because a password may stand there" if "@" in str(url) else repr(str(url)[:200])
        raise RangeError(f"url is not an address, got {came}; write https://host or https://host:port") from None
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise RangeError("url must be https://..., or http:// on this machine")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise RangeError(f"http to {parts.hostname!r} would send the token in the clear; use https")
    if not (token.isascii() and token.isprintable() and token):
        raise RangeError("token must be the text that `sidelight token new` printed")
    if not patience >= 0:
        raise RangeError(f"patience must be seconds, at least 0, got {patience}")
    return (httpx.AsyncClient if awaited else httpx.Client)(
        base_url=url,
        headers={"Authorization": f"Bearer {token}"},
        timeout=timeout,
        follow_redirects=False,  # the token is sent to no other host
        verify=verify,
        transport=transport,
        trust_env=False,
    )
