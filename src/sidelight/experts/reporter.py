"""The client's side: bound the gains, charge the client's own ledger, add exact noise, store the report, hand it out.

The noise of a round is drawn once. The finished report is stored in the ledger before anything leaves, and asking again
gives the same bytes: fresh noise on a resend would let a server average the noise away.
"""

from __future__ import annotations

import os
from typing import Any, Self

from sidelight.errors import BudgetError, LedgerError, RangeError, ReleaseFailedError
from sidelight.experts.bounding import bounded_codes
from sidelight.experts.report import Report
from sidelight.experts.reporting import Reporting
from sidelight.guarantees import Claims, decimal_text
from sidelight.ledger import Ledger, Scope, Stored, open_ledger
from sidelight.noise import Entropy, OSEntropy, Source, rounded_gaussian
from sidelight.noise.source import OS_BRANDING

#: The kind of a request in the ledger.
_REQUEST = "experts_report"
#: What the names of reporters' scopes begin with.
_SCOPES = "experts/"


class Reporter:
    """Makes one client's reports under fixed public terms, with a ledger of its own that outlives the process.

    Guarantee: each report is μ-GDP for one event, as a statement about its bits (experts proof page, Theorem 1); all of
    them together satisfy the ledger's budget √rounds μ even for somebody who is in every round. Whatever the server or
    other clients do changes nothing. A ledger belongs to the client that it first reported for: under another name the
    same people would get a second budget, so another `client_id` is refused.

    Args:
        client_id: The client's public name.
        reporting: The terms.
        ledger: Where charges and reports are kept, of this client alone: an address, or an open ledger.
        index: The coordinate that this client reports, if the terms are for coordinates.
        entropy: For tests: seeded entropy brands every report, and needs a ledger for tests.

    >>> from sidelight.ledger import open_ledger
    >>> terms = Reporting(actions=3, mu=1, sensitivity="0.1", neighbours="presence", rounds=2)
    >>> with Reporter("ward 7", terms, ledger=open_ledger("sqlite://", testing=True)) as reporter:
    ...     first = reporter.report(1, [0.2, 0.9, 0.4])
    ...     first == reporter.report(1, [0.2, 0.9, 0.4]), reporter.rounds_left
    (True, 1)
    """

    def __init__(
        self,
        client_id: str,
        reporting: Reporting,
        *,
        ledger: str | os.PathLike[str] | Ledger,
        index: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        if not isinstance(client_id, str) or not 1 <= len(client_id) <= 200 or not client_id.isprintable():
            raise RangeError("client_id must be printable text of 1 to 200 characters")
        if (index is None) != (reporting.kind == "vector"):
            raise RangeError("index is the coordinate of a client whose terms say kind='coordinate', and of no other")
        if index is not None and not 0 <= index < reporting.actions:
            raise RangeError(f"index must lie in 0..{reporting.actions - 1}, got {index}")
        self.client_id = client_id
        self.reporting = reporting
        self.index = index
        self._entropy = OSEntropy() if entropy is None else entropy
        self._owned = not isinstance(ledger, Ledger)
        self._ledger = ledger if isinstance(ledger, Ledger) else open_ledger(ledger)
        if self._entropy.branding != OS_BRANDING and not self._ledger.testing:
            raise LedgerError("seeded noise is not private: pass open_ledger(url, testing=True), a ledger for tests")
        self._check_own_ledger()
        self._scope = self._ledger.open_scope(f"{_SCOPES}{client_id}", budget=reporting.budget)
        self._check_own_ledger()  # of two that come at once with two names, the first stays
        self._check_agreed()

    def report(self, round_: int, gains: Any, *, resume: bool = False) -> Report:
        """Return the report of a round: made, charged and stored the first time, and the same bytes ever after.

        `gains` is a vector (or one number, for a coordinate) of anything; what is no finite number becomes the terms'
        `fill`, what lies outside [0, gain_range] is clipped, all before the noise. None means no data: a report of pure
        noise, for clients whose absence would tell. Later calls for the same round ignore `gains`.

        `resume=True` after a crash that left the round without a report: the charge is paid again.

        Raises:
            BudgetError: the round is beyond the declared ones, or nothing is left. Nothing was made or charged.
        """
        self._check_round(round_)
        codes = bounded_codes(gains, self.reporting)  # a wrong length raises before the charge
        key = f"round {round_}"
        request = {
            "kind": _REQUEST,
            "client_id": self.client_id,
            "round": str(round_),
            "index": None if self.index is None else str(self.index),
            "terms": self.reporting.to_json(),
        }
        reserved = self._scope.reserve(self.reporting.claims, request=request, key=key, resume=resume)
        if isinstance(reserved, Stored):
            return Report.from_json(reserved.text)
        try:
            text = self._made(round_, codes).to_json()
        except Exception:
            reserved.fail()
            failed = True
        else:
            failed = False
            reserved.release(text)
        if failed:  # outside the handler: the cause may depend on data and must not hang on this error
            raise ReleaseFailedError("making the report failed; its charge stands and nothing was sent")
        return Report.from_json(text)

    def _made(self, round_: int, codes: Any) -> Report:
        with Source(self._entropy, declared="exact") as source:
            scale = self.reporting.noise_scale / self.reporting.grid
            noise = rounded_gaussian(self.reporting.coordinates, scale, source)
            nonce = f"{source.bits(128):032x}"
            brand = source.branding
        return Report(
            client_id=self.client_id,
            round=round_,
            kind=self.reporting.kind,
            index=self.index,
            values=tuple(int(code) + int(draw) for code, draw in zip(codes, noise, strict=True)),
            grid_bits=self.reporting.grid_bits,
            noise_scale=decimal_text(self.reporting.noise_scale),
            mu=decimal_text(self.reporting.exact_mu),
            nonce=nonce,
            entropy=brand,
        )

    def _check_own_ledger(self) -> None:
        """Refuse the ledger of another client: the name is all that would tell a second budget from the first."""
        names = (event.scope_id for event in self._ledger.events() if event.kind == "scope")
        first = next((name for name in names if name is not None and name.startswith(_SCOPES)), None)
        if first not in (None, f"{_SCOPES}{self.client_id}"):
            raise LedgerError(
                f"this ledger is that of the client {str(first).removeprefix(_SCOPES)!r}, and {self.client_id!r} would "
                "get a second budget for the same people; report under the first name, or, for other people, with a "
                "ledger of their own"
            )

    def _check_agreed(self) -> None:
        """Refuse terms that differ from those of earlier reports: a smaller sensitivity would cost the same μ."""
        made = self._scope.entries()  # of a reporter's scope each entry is a report, whatever its kind was called then
        ours, agreed = self.reporting.to_json(), made[0].request.get("terms") if made else None
        if not made or agreed == ours:
            return
        names = [name for name in ours if not isinstance(agreed, dict) or agreed.get(name) != ours[name]]
        raise LedgerError(
            f"{self.client_id!r} reported under other terms in this ledger ({', '.join(names)}); terms are fixed "
            "before the first round: reports under new ones are a new agreement, with a new ledger"
        )

    def _check_round(self, round_: int) -> None:
        if isinstance(round_, bool) or not isinstance(round_, int) or round_ < 1:
            raise RangeError(f"rounds are whole numbers from 1 on, got {round_!r}")
        if round_ > self.reporting.rounds:
            raise BudgetError(
                f"round {round_} is beyond the {self.reporting.rounds} rounds that were declared; nothing was made, "
                "charged or sent. More rounds are a new agreement with the people in the data: new terms, a new ledger",
                requested=f"round {round_}",
                remaining=f"rounds up to {self.reporting.rounds}",
                difference=f"{round_ - self.reporting.rounds} rounds",
            )

    @property
    def guarantee(self) -> Claims:
        """What one round costs one event."""
        return self.reporting.claims

    @property
    def rounds_left(self) -> int:
        """How many further reports the ledger would grant."""
        return max(0, self.reporting.rounds - len(self._scope.entries()))

    @property
    def scope(self) -> Scope:
        """The client's account in its ledger."""
        return self._scope

    def reports(self) -> list[Report]:
        """Return all reports made so far, in order."""
        return [Report.from_json(entry.text) for entry in self._scope.entries() if entry.text is not None]

    def close(self) -> None:
        """Close the ledger, if this reporter opened it."""
        if self._owned:
            self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Reporter({self.client_id!r}, kind={self.reporting.kind!r}, rounds={self.reporting.rounds})"
