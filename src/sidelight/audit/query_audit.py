"""Audit any query: search for a hard pair, run it many times with branded noise, let the best attack speak.

Data sets are made from the schema; no row of anybody is read, and nothing is charged. What comes out is a lower bound:
it can show that a claim is false, never that it is true.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sidelight.audit.attacks import Judged, Run, Seen, as_columns, judge, judge_time, look, promise, run_of, told_apart
from sidelight.audit.pairs import Pair, PairSearch
from sidelight.audit.sampled import USUAL_FAILURE
from sidelight.errors import RangeError
from sidelight.guarantees import Claims, Neighbours, claims_to_replace
from sidelight.noise import Source
from sidelight.readable import at_least
from sidelight.records import Column, Schema
from sidelight.session.query import Query, declared_delta, prepare_query
from sidelight.testing import SeededEntropy

#: Runs of each data set, pairs tried, and runs for each of those, unless other numbers are asked for.
USUAL_RUNS = 4000
USUAL_TRIES = 60
_LOOKS = 12
#: Where no claim names a delta and none is pure.
_USUAL_DELTA = 1e-6
_SEARCH_SHARE = 0.3
_LEAST_HEAT = 24


@dataclass(frozen=True, kw_only=True)
class QueryAudit:
    """What an audit of one query tried and what it could refute.

    Args:
        kind: The kind of query.
        neighbours: Which pairs were tried: "add_remove" or "replace".
        numerics: Whether the claim is for the released bits, or for the real-number algorithm.
        judged: For each claim, how much of it the best attack refutes.
        pair: The hardest pair found, in words; it is generated.
        pairs_tried: How many pairs the search looked at.
        runs: Runs on each of the two data sets of that pair.
        failure: The probability with which a bound may wrongly exceed the truth.
        raised: In how many runs on the first and on the second data set something was raised.
        time_epsilon: What running time alone refutes, on this machine; no claim speaks of it.
        seconds: How long the audit took.
    """

    kind: str
    neighbours: str
    numerics: str
    judged: tuple[Judged, ...]
    pair: str
    pairs_tried: int
    runs: int
    failure: float
    raised: tuple[int, int]
    time_epsilon: float
    seconds: float

    @property
    def share(self) -> float:
        """The largest part of a claim that was refuted: above 1 a claim is false, near 1 the audit has teeth."""
        return max(each.share for each in self.judged)

    @property
    def best(self) -> Judged:
        """The claim of which the largest part was refuted."""
        return max(self.judged, key=lambda each: each.share)

    @property
    def refuted(self) -> bool:
        """Whether a claim is false, with a confidence of 1 - 1e-7."""
        return any(each.surely > each.claimed for each in self.judged)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> QueryAudit:
        """Read what `to_json` wrote."""
        judged = tuple(Judged(**each) for each in data["judged"])
        return cls(**{**data, "judged": judged, "raised": tuple(data["raised"])})

    def __str__(self) -> str:
        best = self.best
        verdict = "REFUTED" if self.refuted else "stands"
        return (
            f"{self.kind}: {best.claim} {verdict}; refuted up to {at_least(best.refuted)} of {best.claimed:.3g} by "
            f"{best.attack} ({self.pairs_tried} pairs, {self.runs} runs of each of two, {self.seconds:.0f} s)"
        )


def audit_query(
    query: Query,
    schema: Schema | list[Column],
    *,
    runs: int = USUAL_RUNS,
    tries: int = USUAL_TRIES,
    seconds: float | None = None,
    neighbours: Neighbours | None = None,
    failure: float = 0.05,
    seed: int | str = 0,
) -> QueryAudit:
    """Attack a query's claim on data sets that are generated from a schema.

    Args:
        query: The query.
        schema: The columns that it is asked of.
        runs: How often it is run on each data set of the hardest pair found, a multiple of 4.
        tries: How many pairs the search looks at.
        seconds: About how long it may take; fewer runs are made where `runs` would take longer.
        neighbours: Another relation than that of the claim: with REPLACE, claims for adding and removing are
            converted as the library converts them, and that is what is attacked.
        failure: How often a bound may exceed the truth: 0.05 for a confidence of 95 %.
        seed: Another one gives other noise and another search.

    Returns:
        What was refuted of each claim, on which pair, by which attack.

    >>> import sidelight as sl
    >>> found = audit_query(sl.Count(epsilon=1), [sl.Category("job", ["nurse", "cook"])], runs=200, tries=6)
    >>> found.refuted, found.runs, 0 <= found.share < 1.5
    (False, 200, True)
    """
    declared = schema if isinstance(schema, Schema) else Schema(schema)
    prepared = prepare_query(query, declared)
    if prepared.brings_private_data:
        raise RangeError(
            f"a {prepared.request['kind']} query brings rows or votes of its own, and an audit would show what "
            "they are, again and again and unpaid; attack it with audit_runs, on data that you invent for each side"
        )
    delta = declared_delta(getattr(query, "model", query))  # a model as a query keeps its price to itself
    return audit_runs(
        run_of(prepared),
        declared,
        claims=prepared.claims,
        kind=str(prepared.request["kind"]),
        delta=None if delta is None else float(delta),
        runs=runs,
        tries=tries,
        seconds=seconds,
        neighbours=neighbours,
        failure=failure,
        seed=seed,
        kept=prepared.kept_nodes(),
    )


def audit_runs(
    run: Run,
    schema: Schema,
    *,
    claims: Claims,
    kind: str,
    delta: float | None = None,
    runs: int = USUAL_RUNS,
    tries: int = USUAL_TRIES,
    seconds: float | None = None,
    neighbours: Neighbours | None = None,
    failure: float = 0.05,
    seed: int | str = 0,
    kept: tuple[str, Mapping[str, str]] | None = None,
) -> QueryAudit:
    """Attack anything that releases something of a table: as `audit_query`, for code that is not a query.

    Args:
        run: Runs it once on a table, with these bytes as its entropy, and returns what is released.
        schema: The columns of the table.
        claims: What is claimed of it.
        kind: What to call it.
        delta: The delta at which claims that are curves are judged.
        runs: As in `audit_query`, and so are the others.
        tries: Pairs of the search.
        seconds: About how long.
        neighbours: Another relation.
        failure: One minus the confidence.
        seed: Of noise and search.
        kept: Of totals that are published exactly: the column, and in which of them each label is counted.
    """
    if runs < 8 or runs % 4:
        raise RangeError(f"runs must be a multiple of 4 of at least 8, got {runs}; half of them choose the attack")
    if tries < 1:
        raise RangeError(f"tries must be at least 1, got {tries}; 60 pairs are usual")
    if not 0 < failure < 1:
        raise RangeError(f"failure must lie strictly between 0 and 1, got {failure}; 0.05 is a confidence of 95 %")
    claims, relation = _claims_for(claims, neighbours)
    begun = time.monotonic()
    entropy = SeededEntropy(f"audit {seed}")
    looked = 0

    def score(pair: Pair) -> float:
        nonlocal looked
        looked += 1
        return _distance(run, pair, schema, entropy)

    with Source(entropy.child("search")) as source:
        search = PairSearch(schema, neighbours=relation, source=source, kept=kept)
        pairs, tried = search.best(
            score, tries=tries if seconds is None else _affordable(score, search, tries, seconds)
        )
    if seconds is not None:
        left, cost = seconds - (time.monotonic() - begun), (time.monotonic() - begun) / (2 * _LOOKS * looked)
        runs = min(runs, max(8, int(left / cost / 2.7) // 4 * 4))
    if delta is None and claims.pure() is None and not claims.items:
        delta = _USUAL_DELTA

    def drawn(pair: Pair, count: int, stage: str) -> tuple[list[Seen], list[Seen]]:
        tables = pair.tables(schema)
        seen: tuple[list[Seen], list[Seen]] = ([], [])
        for number in range(count):  # by turns, so that what slows the machine slows both
            for side in (0, 1):
                seen[side].append(look(run, tables[side], entropy.child(f"{stage} {number} of {side}")))
        return seen

    heat = runs // 12  # a third of the runs decides between the finalists
    pair = pairs[0]
    if heat >= _LEAST_HEAT and len(pairs) > 1:
        pair = max(pairs, key=lambda each: promise(drawn(each, heat, "heat"), claims, delta=delta, failure=failure))
    seen = drawn(pair, runs, "run")
    return QueryAudit(
        kind=kind,
        neighbours=relation.value,
        numerics=claims.numerics,
        judged=tuple(judge(seen, claims, delta=delta, failure=failure, surely=USUAL_FAILURE)),
        pair=str(pair),
        pairs_tried=tried,
        runs=runs,
        failure=failure,
        raised=(sum(each.raised for each in seen[0]), sum(each.raised for each in seen[1])),
        time_epsilon=judge_time(seen, failure=failure),
        seconds=time.monotonic() - begun,
    )


def _claims_for(claims: Claims, neighbours: Neighbours | None) -> tuple[Claims, Neighbours]:
    if neighbours is None or neighbours is claims.neighbours:
        return claims, claims.neighbours
    if neighbours is Neighbours.REPLACE and claims.neighbours is Neighbours.ADD_REMOVE:
        return claims_to_replace(claims), neighbours
    raise RangeError(
        f"a claim for {claims.neighbours.value} says nothing about {neighbours.value}; leave neighbours out"
    )


def _affordable(score: Callable[[Pair], float], search: PairSearch, tries: int, seconds: float) -> int:
    """Return how many pairs fit into the part of the time that the search may take; the first look is timed."""
    first = search.starts()[0]
    score(first)  # caches and imports
    begun = time.monotonic()
    score(first)
    return int(min(tries, max(4, _SEARCH_SHARE * seconds / max(time.monotonic() - begun, 1e-4))))


def _distance(run: Run, pair: Pair, schema: Schema, entropy: SeededEntropy) -> float:
    """Return how far a pair's outcomes lie apart, in units of their noise, from a few runs with the same bytes.

    With the same bytes on both sides additive noise cancels in the difference, so a few runs show the shift.
    """
    tables = pair.tables(schema)
    seen = [[look(run, table, entropy.child(f"look {number}")) for number in range(_LOOKS)] for table in tables]
    _, (first, second) = as_columns(seen)
    first, second = (np.clip(np.where(np.isnan(each), 0.0, each), -1e100, 1e100) for each in (first, second))
    shift = np.abs((first - second).mean(axis=0))
    spread = (first.std(axis=0) + second.std(axis=0)) / 2
    parts = shift / (spread + shift / _LOOKS + 1e-300)
    largest = np.sort(parts)[::-1]
    if not len(largest):
        return 0.0
    # The largest counts, and a little what the others add to it: a classifier sees them all. Of a choice among few
    # outcomes the numbers say little, and how many of the choices became others says more.
    changed = np.max(np.abs(told_apart(first, second)))
    return float(largest[0] + 0.1 * np.sqrt(np.sum(largest[1:6] ** 2)) + 2 * changed)
