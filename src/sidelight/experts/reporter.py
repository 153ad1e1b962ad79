"""The client's side: bound the gains, charge the client's own ledger, add exact noise, store the report, hand it out.

The noise of a round is drawn once. The finished report is stored in the ledger before anything leaves, and asking again
gives the same bytes: fresh noise on a resend would let a server average the noise away.
"""

from __future__ import annotations

import os
import re
from collections import UserList, deque
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import BudgetError, LedgerError, RangeError, ReleaseFailedError
from sidelight.experts.player import Floats
from sidelight.experts.report import NoisyReport
from sidelight.experts.reporting import NEW_TERMS, Reporting
from sidelight.guarantees import Amount, Claims, decimal_text, positive
from sidelight.guarantees.amounts import whole
from sidelight.ledger import Ledger, Scope, Stored, open_ledger
from sidelight.mechanisms.additive import priced_gaussian
from sidelight.mechanisms.meter import Meter
from sidelight.mechanisms.price import DrawPrice
from sidelight.noise import Entropy, OSEntropy, Source
from sidelight.noise.source import OS_BRANDING
from sidelight.records.cells import numbers_of
from sidelight.session.suppressed_output import suppress_output

# From whatever a client holds to bounded integers, before any noise, without ever raising for what a value is.
#
# A gain that is missing or not finite becomes the public fill, one outside [0, c] is clipped, and all are rounded
# to the grid. Only the form, which is public, can be wrong: the length, the number of dimensions, a container
# without an order, and one that declares a type of floats that is too coarse. A list, or an array of objects, declares
# none: a coarse float in it is missing, whatever the others are, so that no gain decides whether a report is made.

#: Floats that cannot hold a gain to 2^-40 of its range: rounding would move neighbours further apart than declared.
_TOO_COARSE = ("float16", "float32")
#: What a container says of its type, sparse and encoded ones too, if it holds these or no real numbers. Arrow says
#: "float" and "halffloat".
_SAYS_COARSE = re.compile(r"float(4|6|8|16|32)(?!\d)|halffloat|complex|bytes|\bfloat\b.*\[pyarrow\]", re.IGNORECASE)

#: What a container that has a type of its own has, if not a buffer.
_SAYS_A_TYPE = ("dtype", "type", "__array__", "__array_interface__", "__array_struct__")


def bounded_codes(gains: Any, reporting: Reporting) -> NDArray[np.int64]:
    """Return the gains as integers in 0..largest_code; None means no data at all, and every gain is then the fill.

    Neighbours' codes differ by at most `grid_sensitivity` in units of the grid: clipping moves no two values apart, and
    `rint` moves each by at most half a step, exactly.
    """
    values = _floats(gains, reporting.coordinates)
    fill = float(reporting.exact_fill)
    limit = 2.0 * float(reporting.exact_gain_range)
    finite = np.where(np.isfinite(values), values, fill)
    steps = np.rint(np.ldexp(np.clip(finite, -limit, limit), reporting.grid_bits))  # ldexp and rint are exact
    codes: NDArray[np.int64] = np.clip(steps, 0, reporting.largest_code).astype(np.int64)
    return codes


def _floats(gains: Any, count: int) -> Floats:
    if gains is None:
        return np.full(count, np.nan)
    _check_form(gains, count)
    with suppress_output():  # a warning about a value would tell that the value is there
        given = _masked(gains) if isinstance(gains, np.ma.MaskedArray) else _whole(gains)
    if given.ndim == 0 and count == 1:
        given = given.reshape(1)
    if given.shape != (count,):
        raise RangeError(f"this client reports {count} gains a round, got shape {given.shape}")
    return given


def _check_form(gains: Any, count: int) -> None:
    """Refuse what cannot be a vector of gains, by its type alone: a set would have as many entries as values differ."""
    if isinstance(gains, Mapping | Set):
        raise RangeError(
            f"gains must stand in the order of the actions: a list or an array, got {type(gains).__name__}"
        )
    dimensions = getattr(gains, "shape", ())
    if isinstance(dimensions, tuple) and len(dimensions) > 1:
        raise RangeError(f"this client reports {count} gains a round, got shape {dimensions}")
    for dtype in _types(gains):
        if _SAYS_COARSE.search(dtype):
            raise RangeError(
                f"gains of type {dtype} are too coarse for the declared sensitivity, or no numbers; compute them in "
                "float64"
            )


def _types(gains: Any) -> Iterator[str]:
    """Return the type of the numbers that a container says it holds, by its own type.

    A list, or an array of objects, has none, whatever its entries are: each is read by itself, and a coarse one is
    missing. If all of them being coarse were refused, the last gain would decide where the others are.
    """
    if _is_untyped(gains):
        return
    try:
        own = getattr(gains, "dtype", None)
        if own is None and hasattr(gains, "type"):
            yield f"{gains.type}[pyarrow]"
        elif own is None:  # what NumPy finds in it is its type
            with suppress_output():
                found = np.asarray(gains).dtype
            yield found.name if found.kind == "f" else ""
        for each in (own, getattr(getattr(own, "categories", None), "dtype", None)):
            yield str(getattr(each, "name", each))
    except Exception:  # what does not say its type is no number either
        yield ""


def _is_untyped(gains: Any) -> bool:
    """Return whether gains are one gain, or a list or the like of them, each of which can be anything."""
    if isinstance(gains, list | tuple | deque | UserList | str | bytes | np.generic):
        return True
    if isinstance(gains, np.ndarray):
        return gains.dtype == object and gains.ndim == 1
    if any(hasattr(gains, name) for name in _SAYS_A_TYPE):
        return False
    try:
        memoryview(gains).release()
    except TypeError:  # no buffer: NumPy would take its type from the entries
        return True
    return False


def _is_coarse(entry: Any) -> bool:
    kind = type(entry)
    if issubclass(kind, (np.float16, np.float32)):
        return True
    return kind is np.ndarray and entry.ndim == 0 and entry.dtype.name in _TOO_COARSE


def _masked(gains: np.ma.MaskedArray[Any, Any]) -> Floats:
    """Read a masked array; entries that are masked are missing."""
    mask = np.ma.getmaskarray(gains)
    given = _whole(np.ma.getdata(gains))
    return np.asarray(np.where(mask, np.nan, given)) if mask.dtype == np.bool_ else given


def _whole(gains: Any) -> Floats:
    """Read all entries at once where they have one type, else each by itself; what is no number is NaN."""
    entries = None
    if not _is_untyped(gains):
        try:
            given = np.asarray(gains)
            if given.ndim <= 1 and given.dtype.kind in "biuf":  # numbers: no entry decides how another is read
                return given.astype(np.float64)
            if given.ndim == 1 and given.dtype.kind in "OUT":
                entries = list(given.tolist())
        except KeyboardInterrupt:
            raise
        except BaseException:  # whatever an entry does when asked for its value, it must not show
            pass
    try:
        if entries is None:
            entries = [gains] if issubclass(type(gains), (str, bytes)) else list(gains)
    except KeyboardInterrupt:
        raise
    except BaseException:
        entries = [gains]
    return numbers_of(np.nan if _is_coarse(entry) else entry for entry in entries)


#: The kind of a request in the ledger.
_REQUEST = "experts_report"

#: What the names of reporters' scopes begin with.
_SCOPES = "experts/"


def _check_size(client_id: str, reporting: Reporting, size: Amount | None) -> None:
    """Refuse terms that name no size of this client, or one that its gains are not divided by."""
    reporting.noise_scale_of(client_id)
    if (size is None) != (reporting.sizes is None):
        raise RangeError(
            "size is what this client divides its gains by (its staffed beds, say), and is said exactly where the "
            "terms name sizes: only the client can tell whether the terms have it right"
        )
    if size is not None and reporting.exact_size(client_id) > positive(size, name="size"):
        raise RangeError(
            f"the terms say that the size of {client_id!r} is {decimal_text(reporting.exact_size(client_id))}, more "
            f"than the {decimal_text(positive(size, name='size'))} that its gains are divided by: its noise would be "
            "too small for the guarantee. Agree on terms with a size that is not larger"
        )


class Reporter:
    """Makes one client's reports under fixed public terms, with a ledger of its own that outlives the process.

    Guarantee: each report is μ-GDP for one event, as a statement about its bits (experts proof page, Theorem 1); all of
    them together satisfy the ledger's budget √rounds μ even for a person who is in every round. Whatever the server or
    other clients do changes nothing. A ledger belongs to the client that it first reported for: under another name the
    same people would get a second budget, so another `client_id` is refused.

    Args:
        client_id: The client's public name.
        reporting: The terms.
        ledger: Where charges and reports are kept, of this client alone: an address, or an open ledger.
        index: The coordinate that this client reports, if the terms are for coordinates.
        size: What this client knows that its gains are divided by, if the terms name sizes. Terms that name a larger
            one promise more than they keep, and are refused.
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
        size: Amount | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        if not isinstance(client_id, str) or not 1 <= len(client_id) <= 200 or not client_id.isprintable():
            raise RangeError("client_id must be printable text of 1 to 200 characters")
        if (index is None) != (reporting.kind == "vector"):
            raise RangeError("index is the coordinate of a client whose terms say kind='coordinate', and of no other")
        if index is not None and not 0 <= index < reporting.actions:
            raise RangeError(f"index must lie in 0..{reporting.actions - 1}, got {index}")
        _check_size(client_id, reporting, size)
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
        self._agreed = False
        self._check_agreed()

    def report(self, round_: int, gains: Any, *, resume: bool = False) -> NoisyReport:
        """Return the report of a round: made, charged and stored the first time, and the same bytes ever after.

        `gains` is a vector, or one number for a coordinate: its type and length are public, and refused where they do
        not fit. Its entries may be anything; what is no finite number becomes the terms' `fill`, what lies outside
        [0, gain_range] is clipped, all before the noise. None means no data: a report of pure noise, for clients whose
        absence would tell. Later calls for the same round ignore `gains`.

        `resume=True` after a crash that left the round without a report: the charge is paid again.

        Raises:
            BudgetError: the round is beyond the declared ones, or nothing is left. Nothing was made or charged.
            LedgerError: the first report of this ledger was made under other terms.
        """
        round_ = whole(round_, name="round_")
        self._check_round(round_)
        self._check_agreed()  # another reporter may have been first since this one was opened
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
            return NoisyReport.from_json(reserved.text)
        try:
            reserved.look(self._check_agreed)  # of two first reports at once the later charge sees the earlier one
        except LedgerError:
            with suppress(LedgerError):
                reserved.fail()
            raise
        text = None
        with suppress(Exception):  # the cause may depend on data and must not hang on the error below
            text = self._made(round_, codes).to_json()
        if text is None:
            with suppress(LedgerError):
                reserved.fail()
            raise ReleaseFailedError("making the report failed; its charge stands and nothing was sent")
        reserved.release(text)
        return NoisyReport.from_json(text)

    def _made(self, round_: int, codes: Any) -> NoisyReport:
        claims = self.reporting.claims
        meter = Meter(claims)
        with Source(self._entropy, declared="exact", meter=meter) as source:
            eta = self.reporting.noise_scale_of(self.client_id)
            scale = eta / self.reporting.grid
            price = DrawPrice(
                law="rounded Gaussian",
                claims=claims,
                samples=(("rounded_gaussian", scale),),
                statistic=f"{self.reporting.coordinates} gains of one round",
                theorem="experts proof page",
            )
            noise = priced_gaussian(self.reporting.coordinates, scale, price=price, source=source)
            with source.free("the report's number"):
                nonce = f"{source.bits(128):032x}"
            brand = source.branding
        meter.settle()
        return NoisyReport(
            client_id=self.client_id,
            round=round_,
            kind=self.reporting.kind,
            index=self.index,
            values=tuple(int(code) + int(draw) for code, draw in zip(codes, noise, strict=True)),
            grid_bits=self.reporting.grid_bits,
            noise_scale=decimal_text(eta),
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
        if self._agreed:  # the first report stays the first
            return
        made = self._scope.page(limit=1)  # each entry of a reporter's scope is a report, whatever its kind was called
        ours, agreed = self.reporting.to_json(), made[0].request.get("terms") if made else None
        if not made or agreed == ours:
            self._agreed = bool(made)
            return
        theirs = agreed if isinstance(agreed, dict) else {}
        names = [name for name in sorted({*ours, *theirs}) if theirs.get(name) != ours.get(name)]
        raise LedgerError(
            f"{self.client_id!r} reported under other terms in this ledger ({', '.join(names)}); terms are fixed "
            f"before the first round. {NEW_TERMS}"
        )

    def _check_round(self, round_: int) -> None:
        if round_ > self.reporting.rounds:
            raise BudgetError(
                f"round {round_} is beyond the {self.reporting.rounds} rounds that were declared; nothing was made, "
                f"charged or sent. {NEW_TERMS}",
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

    def reports(self) -> list[NoisyReport]:
        """Return all reports made so far, in order."""
        return [NoisyReport.from_json(entry.text) for entry in self._scope.entries() if entry.text is not None]

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
