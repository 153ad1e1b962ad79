"""One connection to a server: the same bytes are sent again until they are answered, and little is believed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from sidelight.errors import ServiceError
from sidelight.web import http_client
from sidelight.wire import error_of

#: Bytes of an answer that are read at most.
MOST_BYTES = 16 * 2**20
#: Statuses after which the same request may succeed.
_PASSING = (429, 502, 503, 504)


class Connection:
    """Sends requests with a token; nothing is sent to another host."""

    def __init__(self, url: str, token: str, *, patience: float, verify: Any, transport: Any) -> None:
        self._http = http_client(url, token, patience=patience, timeout=40.0, verify=verify, transport=transport)
        self.patience = patience

    def get(self, path: str, *, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the JSON of an address."""
        return self._ask("GET", path, None, headers or {})

    def post(self, path: str, content: bytes, *, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Send bytes, again and again if need be, and return the JSON that answers them."""
        return self._ask("POST", path, content, {"Content-Type": "application/json", **(headers or {})})

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _ask(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> dict[str, Any]:
        import httpx

        end, pause = time.monotonic() + self.patience, 0.2
        while True:
            try:
                status, text = self._once(method, path, content, headers)
                if status < 400:
                    return _object(text)
                refused: Exception = error_of(_object(text))
                if status not in _PASSING:
                    raise refused
            except httpx.TransportError as error:
                refused = ServiceError(f"the server cannot be reached ({type(error).__name__})", code="unreachable")
            if time.monotonic() + pause > end:
                raise refused from None
            time.sleep(pause)
            pause = min(2 * pause, 5.0)

    def _once(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        found = b""
        with self._http.stream(method, path, content=content, headers=dict(headers)) as answer:
            for part in answer.iter_bytes():
                found += part
                if len(found) > MOST_BYTES:
                    raise ServiceError(f"the answer has more than {MOST_BYTES} bytes", code="too-large")
            return answer.status_code, found


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ServiceError("the answer is not JSON of a sidelight server; is this its address?", code="unknown")
    return found
