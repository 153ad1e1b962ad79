"""The best of several attacks on one pair: chosen on one half of the runs, judged on the other.

Attacks are columns of numbers, one for each run: every number of the release, whether it failed or was refused, a
linear classifier and a sum of likelihood ratios, both trained on the first quarter. The second quarter chooses column
and event, and the other half bounds the two probabilities of that one event, so the search needs no correction. The
time that a run took is judged the same way and kept apart: no claim speaks of it.
"""

from __future__ import annotations

import base64
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.audit.sampled import Audit, Cells, LowerBound
from sidelight.errors import ClaimError
from sidelight.guarantees import GDP, ZCDP, ApproxDP, BoundedRange, Claim, Claims, PureDP
from sidelight.noise import Entropy, Source
from sidelight.records import Table
from sidelight.release import encode_value
from sidelight.session.query import Answer, Prepared, Refusal

#: Runs a mechanism once: a table and fresh seeded bytes in, whatever is released out. What it raises is an outcome.
Run = Callable[[Table, Entropy], Any]
Floats = NDArray[np.float64]

#: More numbers of one release than this are not looked at one by one.
MOST_NUMBERS = 400


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One run as an attacker sees it: numbers by name, whether it ended in an error, and its processor time."""

    numbers: Mapping[str, float]
    raised: bool
    seconds: float


def run_of(prepared: Prepared) -> Run:
    """Return how the release pipeline runs a prepared query, without an account."""

    def run(table: Table, entropy: Entropy) -> Any:
        with Source(entropy, declared=prepared.numerics) as source:
            return prepared.run(table, source)

    return run


def look(run: Run, table: Table, entropy: Entropy) -> Seen:
    """Run once and return what was seen."""
    start, raised = time.thread_time(), False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            released = run(table, entropy)
            seconds = time.thread_time() - start
            numbers = dict(_numbers_of(released))
    except Exception as error:  # whatever it is: that it came is what an attacker sees
        seconds, raised = time.thread_time() - start, True
        numbers = {f"raised {type(error).__name__}": 1.0}
    return Seen(numbers=numbers, raised=raised, seconds=seconds)


def as_columns(seen: Sequence[Sequence[Seen]]) -> tuple[list[str], list[Floats]]:
    """Return the names of all numbers that any run showed, and a matrix for each sample; what was not there is NaN."""
    names = list(dict.fromkeys(name for sample in seen for each in sample for name in each.numbers))
    place = {name: number for number, name in enumerate(names)}
    matrices = []
    for sample in seen:
        matrix = np.full((len(sample), len(names)), np.nan)
        for row, each in enumerate(sample):
            for name, number in each.numbers.items():
                matrix[row, place[name]] = number
        matrices.append(matrix)
    return names, matrices


def _numbers_of(released: Any) -> Iterator[tuple[str, float]]:
    if isinstance(released, Refusal):
        yield f"refused {released.reason}", 1.0
        return
    if isinstance(released, Answer):
        text = {"value": encode_value(released.value), "labels": list(released.labels)}
        if released.error is not None:
            text["error"] = released.error.to_json()
        released = json.loads(json.dumps(text, allow_nan=False))  # as the pipeline writes it
    for count, each in enumerate(_walk(released, "")):
        if count >= MOST_NUMBERS:
            return
        yield each


def _walk(thing: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(thing, bool | int | float | np.number):
        yield path or "value", float(thing)
    elif isinstance(thing, str):
        yield f"{path} = {thing[:40]}", 1.0
    elif isinstance(thing, np.ndarray):
        yield from _walk(thing.tolist(), path)
    elif isinstance(thing, Mapping):
        if set(thing) >= {"bytes", "dtype"}:  # a long array
            yield from _walk(np.frombuffer(base64.b64decode(thing["bytes"]), thing["dtype"]).tolist(), path)
            return
        for name, each in thing.items():
            yield from _walk(each, f"{path}/{name}")
    elif isinstance(thing, list | tuple):
        yield f"{path} length", float(len(thing))
        for place, each in enumerate(thing):
            yield from _walk(each, f"{path}[{place}]")
            if isinstance(each, str):
                yield f"{path} has {each[:40]}", 1.0
    elif thing is not None:
        yield f"{path} = {str(thing)[:40]}", 1.0


#: How many columns are searched for an event, by how far apart they look on the first quarter.
MOST_COLUMNS = 12
#: Columns that the classifiers learn from.
_MOST_LEARNED = 60
_BINS = 8

Measure = Callable[[Audit], LowerBound]
Values = tuple[Floats, Floats]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What the best attack proves about one claim.

    Args:
        claim: The claim, as text.
        claimed: Its amount: epsilon, mu or rho.
        refuted: Every smaller amount is refuted, with the audit's confidence.
        attack: The column that was looked at.
        event: What was looked for in it, in words, with its counts.
        surely: The same as `refuted` with a confidence of 1 - 1e-7: above `claimed` it is no accident.
    """

    claim: str
    claimed: float
    refuted: float
    attack: str
    event: str
    surely: float

    @property
    def share(self) -> float:
        """How much of the claim was refuted: above 1 the claim is false."""
        return self.refuted / self.claimed


def measures_of(claims: Claims, *, delta: float | None) -> list[tuple[Claim, float, Measure]]:
    """Return each claim that samples can speak about, its amount, and how an audit bounds that amount.

    Claims that only a curve describes are judged by the epsilon that they prove at `delta`.
    """
    pure, found = claims.pure(), []
    wanted: list[Claim] = [c for c in claims if isinstance(c, GDP | ZCDP | ApproxDP)]
    if pure is not None:
        wanted = [pure]  # whatever else is claimed of it follows, and is looser
    if delta is not None and pure is None and (at := claims.approx_at(str(delta))) is not None:
        wanted.append(at)
    for claim in dict.fromkeys(wanted):
        measure = _measure(claim)
        found.append((claim, *measure))
    if not found:
        raise ClaimError(f"an audit needs a claim of PureDP, ApproxDP, GDP or ZCDP, got {claims}; give a delta")
    return found


def _measure(claim: Claim) -> tuple[float, Measure]:
    if isinstance(claim, PureDP | BoundedRange):
        return float(claim.epsilon), lambda audit: audit.epsilon()
    if isinstance(claim, ApproxDP):
        delta = float(claim.delta)
        return float(claim.epsilon), lambda audit: audit.epsilon(delta)
    if isinstance(claim, GDP):
        return float(claim.mu), lambda audit: audit.mu()
    assert isinstance(claim, ZCDP)
    return float(claim.rho), lambda audit: audit.rho()


def judge(
    seen: tuple[Sequence[Seen], Sequence[Seen]],
    claims: Claims,
    *,
    delta: float | None,
    failure: float,
    surely: float,
) -> list[Judged]:
    """Return for each claim what the best attack refutes; `failure` is shared out among the claims."""
    measures = measures_of(claims, delta=delta)
    columns = _columns(seen)
    judged = []
    for claim, claimed, measure in measures:
        # Each column's event and its worth are found on the first half; only the winner meets the second.
        worths = [_worth(values, measure, failure / len(measures), among=len(values[0]) // 2) for _, values in columns]
        name, values = columns[int(np.argmax(worths))]
        first, second = (_audit(values, share / len(measures)) for share in (failure, surely))
        bound = measure(first)
        judged.append(
            Judged(
                claim=str(claim),
                claimed=claimed,
                refuted=bound.value,
                attack=name,
                event=str(bound),
                surely=measure(second).value,
            )
        )
    return judged


def judge_time(seen: tuple[Sequence[Seen], Sequence[Seen]], *, failure: float) -> float:
    """Return the epsilon that running time alone refutes: a fact about this machine, no claim speaks of it."""
    values = [np.array([each.seconds for each in sample]) for sample in seen]
    return _audit((values[0], values[1]), failure).epsilon().value


def promise(
    seen: tuple[Sequence[Seen], Sequence[Seen]], claims: Claims, *, delta: float | None, failure: float
) -> float:
    """Return about how much of a claim an attack on this pair could refute: for choosing a pair, it proves nothing."""
    columns = _columns(seen, most=3)
    return max(
        _worth((first, second), measure, failure, among=len(first)) / claimed
        for _, claimed, measure in measures_of(claims, delta=delta)
        for _, (first, second) in columns
    )


def _parts(values: Floats) -> tuple[Floats, Floats, Floats]:
    quarter = len(values) // 4
    return values[:quarter], values[quarter : 2 * quarter], values[2 * quarter :]


def _audit(values: Values, failure: float) -> Audit:
    first, second = (_parts(each) for each in values)
    cells = Cells.of(first[0], second[0])
    parts = zip(first, second, strict=True)
    ordering, choosing, test = ((cells.count(one), cells.count(other)) for one, other in parts)
    return Audit(cells=cells, ordering=ordering, choosing=choosing, test=test, draws=len(first[2]), failure=failure)


def _worth(values: Values, measure: Measure, failure: float, *, among: int) -> float:
    """Return what an audit of the first `among` runs would say whose second half chooses and tests at once."""
    half = among // 2
    cells = Cells.of(*(each[:half] for each in values))
    ordering, choosing = (
        (cells.count(values[0][part]), cells.count(values[1][part])) for part in (slice(half), slice(half, 2 * half))
    )
    made = Audit(cells=cells, ordering=ordering, choosing=choosing, test=choosing, draws=half, failure=failure)
    return measure(made).value


def _columns(seen: tuple[Sequence[Seen], Sequence[Seen]], *, most: int = MOST_COLUMNS) -> list[tuple[str, Values]]:
    names, (first, second) = as_columns(seen)
    train = [_parts(each)[0] for each in (first, second)]
    distances = told_apart(*train)
    order = np.argsort(-distances, kind="stable")
    found: list[tuple[str, Values]] = []
    known: set[bytes] = set()
    for number in order:  # the ends of an interval and the like move together: one of them is enough
        values = _filled(first[:, number]), _filled(second[:, number])
        form = np.unique(np.concatenate(values), return_inverse=True)[1].astype(np.int32).tobytes()
        if len(found) >= most or (found and distances[number] == 0):
            break
        if form not in known:
            known.add(form)
            found.append((names[number], values))
    learned = order[:_MOST_LEARNED]
    for name, learn in (("a linear classifier", _linear), ("likelihood ratios of all numbers", _ratios)):
        score = learn(train[0][:, learned], train[1][:, learned])
        found.append((name, (score(first[:, learned]), score(second[:, learned]))))
    return found


def _filled(values: Floats) -> Floats:
    return np.where(np.isnan(values), -np.inf, np.clip(values, -1e300, 1e300))


def told_apart(first: Floats, second: Floats) -> Floats:
    """Return for each column how far apart the two samples look: the largest gap of their distributions."""
    gaps = np.zeros(first.shape[1])
    for number in range(first.shape[1]):
        one, other = np.sort(_filled(first[:, number])), np.sort(_filled(second[:, number]))
        both = np.unique(np.concatenate([one, other]))
        shares = [np.searchsorted(each, both, side="right") / len(each) for each in (one, other)]
        gaps[number] = np.max(np.abs(shares[0] - shares[1]))
    return gaps


def _linear(first: Floats, second: Floats) -> Callable[[Floats], Floats]:
    """Return Fisher's linear classifier on numbers in robust units, a little regularised."""
    pooled = np.where(np.isnan(both := np.vstack([first, second])), 0.0, np.clip(both, -1e150, 1e150))
    middle = np.median(pooled, axis=0)
    spread = np.median(np.abs(pooled - middle), axis=0) * 1.4826
    rough = np.std(np.clip(pooled - middle, -1e100, 1e100), axis=0)
    spread = np.where(spread > 0, spread, np.where(rough > 0, rough, 1.0))

    def units(values: Floats) -> Floats:
        here = np.where(np.isnan(values), 0.0, np.clip(values, -1e150, 1e150))
        return np.hstack([np.clip((here - middle) / spread, -6, 6), np.isnan(values).astype(np.float64)])

    one, other = units(first), units(second)
    within = (np.cov(one.T, bias=True) + np.cov(other.T, bias=True)) / 2
    within = np.atleast_2d(within) + 0.01 * np.eye(one.shape[1])
    weights = np.linalg.solve(within, one.mean(axis=0) - other.mean(axis=0))
    return lambda values: np.asarray(units(values) @ weights)


def _ratios(first: Floats, second: Floats) -> Callable[[Floats], Floats]:
    """Return the sum over all numbers of the log-ratio of how often their range came in the two samples."""
    tables: list[tuple[Any, Floats]] = []
    for number in range(first.shape[1]):
        one, other = _filled(first[:, number]), _filled(second[:, number])
        pooled = np.sort(np.concatenate([one, other]))
        edges = np.unique(pooled[np.arange(1, _BINS) * len(pooled) // _BINS])
        counts = [np.bincount(np.searchsorted(edges, each, side="right"), minlength=_BINS) for each in (one, other)]
        tables.append((edges, np.log((counts[0] + 1.0) / (counts[1] + 1.0))))

    def score(values: Floats) -> Floats:
        total = np.zeros(len(values))
        for number, (edges, ratios) in enumerate(tables):
            total += ratios[np.searchsorted(edges, _filled(values[:, number]), side="right")]
        return total

    return score
