"""`Client`: sends a reporter's reports to a service, and sends the same bytes again until they are acknowledged.

Noise is drawn once: the reporter stores a report in the client's own ledger before the first byte leaves, so a resend
after a lost answer, a crash or a restart is the same report with the same nonce, which the service counts once.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from sidelight.errors import ServiceError
from sidelight.experts.report import NoisyReport
from sidelight.experts.reporter import Reporter
from sidelight.experts.server import REFUSED_RECEIPTS, Receipt
from sidelight.readable import shown_address
from sidelight.web import http_client

#: Receipts of a report that is stored there.
_ACKNOWLEDGED = tuple(receipt.value for receipt in (Receipt.ACCEPTED, Receipt.DUPLICATE, Receipt.POSTPONED))
#: Statuses after which the same request may succeed.
_PASSING = (408, 429, 500, 502, 503, 504)


@dataclass(frozen=True, kw_only=True)
class OpenRound:
    """The round that a service has open, and the action it chose for it."""

    round: int
    action: int
    action_name: str
    seconds_left: float
    reports: int
    clients: int


class Client:
    """Reports to an experts service over HTTP.

    Guarantee: that of the reporter. What this class adds leaves the client's machine only after the noise.

    The service's terms are compared with the reporter's before the first report is made: a service that asks for other
    terms gets nothing, and nothing is charged. Which data belong to a round is for the caller to say; a service that
    calls the same data two rounds gets two reports, and the ledger counts both.

    Args:
        url: Where the service is: https, or http on this machine.
        token: The client's token.
        reporter: Makes the reports; its name is the client's.
        patience: Seconds in which a request is tried again before `ServiceError` is raised.
        verify: The certificate authorities to trust: the usual ones, or an `ssl.SSLContext`.
        transport: For tests: an httpx transport in place of the network.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        reporter: Reporter,
        patience: float = 60.0,
        verify: Any = True,
        transport: Any = None,
    ) -> None:
        self._http = http_client(url, token, patience=patience, timeout=10.0, verify=verify, transport=transport)
        self.reporter = reporter
        self._patience = patience
        self._agreed = False

    def check_terms(self) -> None:
        """Compare the service's terms with the reporter's; once is enough.

        Raises:
            ServiceError: they differ. Nothing was made or charged.
        """
        if self._agreed:
            return
        theirs = self._asked("GET", "/v1/terms").get("terms")
        ours = self.reporter.reporting.to_json()
        if theirs != ours:
            names = [name for name in ours if not isinstance(theirs, dict) or theirs.get(name) != ours[name]]
            raise ServiceError(
                f"the service has other terms than this client agreed to ({', '.join(names) or 'more'}); nothing "
                "was made, charged or sent",
                code="other_terms",
            )
        self._agreed = True

    def open_round(self) -> OpenRound | None:
        """Return the round that is open, or None when all were played."""
        body = self._asked("GET", "/v1/round")
        if body.get("state") != "open":
            return None
        try:
            return msgspec.convert(body, OpenRound)
        except msgspec.ValidationError as error:
            raise ServiceError(
                f"the service describes no round ({error}); is it sidelight's?", code="malformed"
            ) from None

    def rounds(self, *, poll_seconds: float = 1.0) -> Iterator[OpenRound]:
        """Yield each round when it opens, the open one first, until all were played."""
        last = 0
        while (now := self.open_round()) is not None:
            if now.round > last:
                last = now.round
                yield now
            else:
                time.sleep(min(poll_seconds, max(0.01, now.seconds_left)))

    def report(self, round_: int, gains: Any, *, resume: bool = False) -> Receipt:
        """Make the report of a round if it is not made yet, and send it until it is acknowledged.

        Say the same again at any time, after a crash too: the same bytes are sent, and counted once.

        Raises:
            BudgetError: the reporter's ledger grants no report of this round.
            ServiceError: refused, or not acknowledged within `patience`; the report stays stored and can be sent again.
        """
        self.check_terms()
        return self.send(self.reporter.report(round_, gains, resume=resume))

    def send(self, report: NoisyReport) -> Receipt:
        """Send a finished report until it is acknowledged, and return what became of it."""
        body = self._asked("POST", "/v1/reports", report=report)
        if body.get("code") in REFUSED_RECEIPTS:
            return REFUSED_RECEIPTS[body["code"]]
        if body.get("nonce") != report.nonce or body.get("round") != report.round:
            raise ServiceError("the service acknowledged another report than the one sent", code="malformed")
        if body.get("receipt") not in _ACKNOWLEDGED:
            raise ServiceError("the service did not say what became of the report", code="malformed")
        return Receipt(body["receipt"])

    def _asked(self, method: str, path: str, *, report: NoisyReport | None = None) -> dict[str, Any]:
        import httpx

        content = None if report is None else report.to_json().encode()
        headers = {} if content is None else {"Content-Type": "application/json"}
        until = time.monotonic() + self._patience
        attempt = 0
        while True:
            try:
                answer = self._http.request(method, path, content=content, headers=headers)
                problem = f"status {answer.status_code}"
                if answer.status_code not in _PASSING:
                    return _understood(answer)
            except httpx.TransportError as error:
                problem = type(error).__name__
            attempt += 1
            wait = _wait(attempt, content or path.encode())
            if time.monotonic() + wait > until:
                raise ServiceError(
                    f"no answer from the service in {self._patience:g} seconds and {attempt} attempts ({problem}); a "
                    "report that was made is stored, and can be sent again",
                    code="unreachable",
                )
            time.sleep(wait)

    def close(self) -> None:
        """Close the connections. The reporter stays open."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({shown_address(str(self._http.base_url))!r}, client_id={self.reporter.client_id!r})"


def _understood(answer: Any) -> dict[str, Any]:
    try:
        body = answer.json()
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict) or not isinstance(body.get("code", ""), str):
        raise ServiceError(
            f"status {answer.status_code} without a JSON object; is it a sidelight service?", code="malformed"
        )
    if answer.status_code >= 300 and body.get("code") not in REFUSED_RECEIPTS:
        code = str(body.get("code", "malformed"))
        raise ServiceError(f"the service refused ({code}): {body.get('message', '')}", code=code)
    return body


def _wait(attempt: int, what: bytes) -> float:
    """Return the seconds before the next attempt: doubling up to 5, spread between clients by what they send."""
    spread = int.from_bytes(hashlib.sha256(what + bytes([attempt % 256])).digest()[:4], "little") / 2**32
    return min(5.0, 0.05 * 2.0 ** min(attempt, 8)) * (0.5 + 0.5 * spread)
