"""A fixed batch of queries at one price: its form and its claims.

Inside the server a batch is one query of its own kind, whose JSON names all of its queries: the same key, digest, slot
and entry of the ledger serve both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from sidelight.accounting import batch
from sidelight.errors import RangeError
from sidelight.guarantees import Amount, Claims
from sidelight.guarantees.amounts import decimal_text, exact
from sidelight.wire import ProblemError

#: The kind of a batch, as `release_batch_through` writes it into its request, and the most queries of one.
TOGETHER: Final = "together"
MOST_TOGETHER: Final = 20
#: A pair is charged where its epsilon is at most this share of the sum's: less does not justify a delta.
_WORTH_A_DELTA: Final = Fraction(19, 20)


def read_together(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the batch of a body with `queries` and `delta`.

    Raises:
        ProblemError: it is not a batch.
    """
    queries, delta = found.get("queries"), found.get("delta")
    right = isinstance(queries, list) and 1 <= len(queries) <= MOST_TOGETHER and delta is not None
    if not right or not all(isinstance(each, dict) for each in queries or ()) or "query" in found:
        raise ProblemError("malformed", f"a batch has queries, a list of 1 to {MOST_TOGETHER} objects, and delta")
    return {"kind": TOGETHER, "queries": queries, "delta": _plain(str(delta))}


def _plain(amount: str) -> str:
    """Return the normal form of an amount, so that 1e-9 and "0.000000001" agree; pricing refuses other texts."""
    try:
        return decimal_text(exact(amount, name="delta"))
    except RangeError:
        return amount


def parts_of(query: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the queries of a batch, or a single query as a list."""
    return list(query["queries"]) if query.get("kind") == TOGETHER else [query]


def price_together(claims: Sequence[Claims], *, delta: Amount) -> Claims:
    """Return the claim by which a batch is charged: the sum if all are pure, or a pair that saves epsilon.

    >>> from sidelight.guarantees import PureDP
    >>> print(price_together([Claims.of(PureDP("0.01"))] * 2, delta="1e-9"))
    PureDP(ε = 0.02)
    >>> print(price_together([Claims.of(PureDP("0.01"))] * 400, delta="1e-5"))
    ApproxDP(ε = 0.723353, δ = 1e-5)
    """
    return declared(batch(claims, delta=delta), delta=delta)


def declared(price: Claims, *, delta: Amount) -> Claims:
    """Return the claim of a batch's price that all scopes of a shared tree are charged."""
    pure, pair = price.pure(), price.approx_at(delta)
    if pair is not None and (pure is None or pair.epsilon < pure.epsilon * _WORTH_A_DELTA):
        return Claims.of(pair)
    return price if pure is None else Claims.of(pure)
