"""Power of the auditor: nearly tight claims, attacked where theory predicts the largest loss.

    python -m benchmarks.audit_tight

For each mechanism the pair of data sets, the prior and the statistic are those for which the proof shows a loss close
to the claim. The refuted share of the claim then depends on the number of runs alone, so an auditor that refutes less
than 0.6 of it is broken, or the noise is larger than necessary. As everywhere, one half of the runs chooses the event,
and the other half judges it (`sidelight.audit.audit`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.descent_transcripts import transcript_of
from benchmarks.measuring import sized
from sidelight.audit import Sampler, audit, one_by_one
from sidelight.audit.attacks import measures_of
from sidelight.guarantees import Claims
from sidelight.noise import Source
from sidelight.records import Table
from sidelight.regression.descent.plan import plan_descent
from sidelight.regression.descent.targets import Targets
from sidelight.regression.rows import BoundedArrays
from sidelight.testing import SeededEntropy

#: One minus the confidence of what is shown, and of what would be called a refutation.
FAILURE, SURELY = 0.05, 1e-7
_GRID = [sl.Number("x", lower=0, upper=4, granularity=1)]
#: Of the values 2, 3 and 4 against 0 before the data speaks: so rare that their share shows nearly the whole epsilon.
_ODDS = 0.08
_PRIOR = sl.priors.Histogram([-0.5, 0.5, 1.5, 2.5, 3.5, 4.5], [1.0, 1e-9, _ODDS / 3, _ODDS / 3, _ODDS / 3])
#: Rows of one class at the bound of the norm; the canary is of the other class at the same place.
_CROWD = 10


@dataclass(frozen=True, kw_only=True)
class Tight:
    """What was refuted of a claim that can nearly be reached.

    Args:
        claim: The claim, as text.
        claimed: Its amount.
        refuted: Every smaller amount is excluded with 95 % confidence.
        surely: The same with a confidence of 1 - 1e-7.
        event: What was looked for, in words, with its counts.
        where: The pair of data sets and what is looked at.
        runs: On each of the two data sets.
        seconds: How long it took.
    """

    claim: str
    claimed: float
    refuted: float
    surely: float
    event: str
    where: str
    runs: int
    seconds: float

    @property
    def share(self) -> float:
        """How much of the claim was refuted."""
        return self.refuted / self.claimed

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def quantile(*, runs: int = sized(16_000, 8)) -> Tight:
    """Attack a median: two records at 1, and a third at 4, which moves the odds of the two sides by all of epsilon."""
    query = sl.Quantiles([0.5], column="x", epsilon=1, prediction=_PRIOR)
    return _of_query(query, ([1, 1], [1, 1, 4]), "two records at 1, and one more at 4; a prior of 1 to 12", runs)


def count(*, runs: int = sized(6_000, 8)) -> Tight:
    """Attack a count in epsilon."""
    return _of_query(sl.Count(where=sl.col("x") > 1, epsilon=1), ([], [4]), "no record, and one", runs)


def gaussian(*, runs: int = sized(6_000, 8)) -> Tight:
    """Attack a count in mu."""
    return _of_query(sl.Count(where=sl.col("x") > 1, mu=1), ([], [4]), "no record, and one", runs)


def logistic(*, runs: int = sized(800, 4)) -> Tight:
    """Attack a logistic regression by the exact likelihood ratio of everything that its descent releases."""
    targets = Targets(kind="logistic", classes=(0, 1))
    plan = plan_descent(targets=targets, features=1, epsilon=4, delta="1e-3", data_norm=1)
    crowd = np.ones((_CROWD + 1, 1)), np.array([1] * _CROWD + [0])
    tables = [BoundedArrays(crowd[0][:size], crowd[1][:size], policy=plan.policy) for size in (_CROWD, _CROWD + 1)]

    def drawn(side: int, name: str) -> Sampler:
        source = Source(SeededEntropy("tight", path=[name]))
        pair = tables if side == 0 else tables[::-1]
        return one_by_one(lambda: (1 - 2 * side) * transcript_of(plan, pair, source=source).loss())

    where = f"{_CROWD} rows of a class at the bound, and one of the other; likelihood ratio of the whole transcript"
    return judged((drawn(0, "without"), drawn(1, "with")), plan.claims, where, runs)


CASES: dict[str, Callable[..., Tight]] = {
    "quantile": quantile,
    "count": count,
    "gaussian": gaussian,
    "logistic": logistic,
}


def attacked_tight() -> Iterator[tuple[str, Tight]]:
    """Attack them all."""
    for name, attack in CASES.items():
        yield name, attack()


def measure() -> dict[str, float]:
    """Return the least share of a claim that was refuted, how many claims are false, and how long it took."""
    found = dict(attacked_tight())
    for name, each in found.items():
        print(f"{name}: {each.share:.2f} of {each.claim}; {each.event}; {each.seconds:.0f} s", file=sys.stderr)
    return {
        "share": min(each.share for each in found.values()),
        "refuted": float(sum(each.surely > each.claimed for each in found.values())),
        "seconds": sum(each.seconds for each in found.values()),
    }


def _of_query(query: Any, values: tuple[list[float], list[float]], where: str, runs: int) -> Tight:
    tables = [Table({"x": np.array(each, dtype=float)}, schema=_GRID) for each in values]
    prepared = query.prepare(tables[0].schema)

    def drawn(table: Table, name: str) -> Sampler:
        source = Source(SeededEntropy("tight", path=[name]))
        return one_by_one(lambda: float(np.asarray(_number(prepared.run(table, source).value)).reshape(-1)[0]))

    return judged((drawn(tables[0], "first"), drawn(tables[1], "second")), prepared.claims, where, runs)


def _number(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else value["count"]


def judged(samplers: tuple[Sampler, Sampler], claims: Claims, where: str, runs: int) -> Tight:
    """Attack two samplers and return what falls of the one claim that an audit speaks about."""
    begun = time.monotonic()
    (claim, claimed, measured), *others = measures_of(claims, delta=None)
    assert not others, "each of these has one claim that an audit speaks about"
    found = audit(*samplers, draws=runs, failure=FAILURE)
    bound = measured(found)
    return Tight(
        claim=str(claim),
        claimed=claimed,
        refuted=bound.value,
        surely=measured(replace(found, failure=SURELY)).value,
        event=str(bound),
        where=where,
        runs=runs,
        seconds=time.monotonic() - begun,
    )


if __name__ == "__main__":
    print(measure())
