"""Identities from a trusted proxy, which has checked a login and names the person in a header.

The header is accepted from the proxy's addresses and with its secret; otherwise the request is refused, not treated
as anonymous. The proxy must remove both headers from what clients send; a repeated header is refused.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from sidelight.errors import PlanError
from sidelight.server.config import ProxyIdentity
from sidelight.server.identity import ACTIONS, DAY, Holder
from sidelight.wire import ProblemError

if TYPE_CHECKING:
    from starlette.requests import Request

#: The header in which the proxy shows its secret.
SECRET_HEADER = "x-sidelight-proxy"
#: Used in place of a token's id; no token has it.
BY_PROXY = "proxy"
_SHORTEST_SECRET = 16


class TrustedProxy:
    """Reads the headers of one proxy."""

    def __init__(self, given: ProxyIdentity) -> None:
        try:
            self._secret = given.secret_file.read_bytes().strip()
        except OSError as error:
            raise PlanError(f"the secret of the proxy, {given.secret_file.name!r}: {error.strerror}") from None
        if len(self._secret) < _SHORTEST_SECRET:
            raise PlanError(f"the secret of the proxy has at least {_SHORTEST_SECRET} bytes")
        self._header, self._names = given.header.lower(), given.names
        self._networks = [ip_network(each) for each in given.addresses]

    def speaks(self, request: Request) -> bool:
        """Return whether a request has one of the proxy's headers, which then alone identify it."""
        return self._header in request.headers or SECRET_HEADER in request.headers

    def holder(self, request: Request, *, now: float) -> Holder:
        """Return the analyst whom the proxy names.

        Raises:
            ProblemError: `token`, for every mismatch.
        """
        names, secrets = (request.headers.getlist(each) for each in (self._header, SECRET_HEADER))
        direct = "" if request.client is None else request.client.host
        known = len(names) == 1 and len(secrets) == 1 and self._is_proxy(direct)
        same = hmac.compare_digest("".join(secrets).encode("latin-1"), self._secret)
        analyst = self._names.get(names[0]) if known and same else None
        if analyst is None:
            raise ProblemError("token")
        return Holder(analyst=analyst, token_id=BY_PROXY, tables=(), actions=ACTIONS, expires=now + DAY)

    def _is_proxy(self, address: str) -> bool:
        try:
            return any(ip_address(address) in network for network in self._networks)
        except ValueError:
            return False


def is_still_named(given: ProxyIdentity | None, analyst: str) -> bool:
    """Return whether the file still maps a proxy's name to an analyst: a worker checks before it charges."""
    names: Mapping[str, str] = {} if given is None else given.names
    return analyst in names.values()
