"""Membership inference by shadow models: whether one person was among the rows of a model or a synthetic table.

    python -m benchmarks.membership

The attacker knows the population and the person, and trains shadow models: rows of the population without the person
(first sampler) and with the person (second). Every run draws other rows, so the attacker knows no other person's row
(Shokri et al. 2017, Carlini et al. 2022). The score of a model is the loss at the person's row, that of a synthetic
table the number of rows like the person's. Half of the shadow models choose the threshold and half judge it. The attack
works on a method without protection; on ours its lower bound of epsilon stays below the claim.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.audit_tight import Tight, judged
from benchmarks.measuring import sized
from sidelight.audit import Sampler, one_by_one
from sidelight.guarantees import Claims
from sidelight.session.query import prepare_query
from sidelight.testing import seeded_release

ROWS = 30
SCHEMA = [
    sl.Number("a", lower=-1, upper=1),
    sl.Number("b", lower=-1, upper=1),
    sl.Category("c", ["no", "yes"], other=None),
]
#: A row against the rule that all others follow.
PERSON = (1.0, 1.0, "no")
#: What a method without protection is held against.
ONE = Claims.of(sl.PureDP(1))

Attack = Callable[[dict[str, Any], int], float]


def population(rng: np.random.Generator, *, person: bool) -> dict[str, Any]:
    """Return rows that follow a rule, and the person's if wanted."""
    a, b = rng.uniform(-1, 1, (2, ROWS))
    c = np.where(a + b > 0, "yes", "no").astype(object)
    if person:
        a, b, c = np.append(a, PERSON[0]), np.append(b, PERSON[1]), np.append(c, PERSON[2])
    return {"a": a, "b": b, "c": c}


def unprotected_model(columns: dict[str, Any], seed: int) -> float:
    """Fit a nearest neighbour, and return how sure it is of the person's label."""
    distance = (columns["a"] - PERSON[0]) ** 2 + (columns["b"] - PERSON[1]) ** 2
    return float(columns["c"][int(np.argmin(distance))] == PERSON[2])


def unprotected_table(columns: dict[str, Any], seed: int) -> float:
    """Draw a table from the rows, and return how many of its rows are the person's."""
    chosen = np.random.default_rng(seed).integers(0, len(columns["a"]), 4 * ROWS)
    return float(np.sum((columns["a"][chosen] == PERSON[0]) & (columns["c"][chosen] == PERSON[2])))


MODEL = sl.ModelQuery(model=sl.LogisticRegression(epsilon=1, delta="1e-4"), target="c")
TABLE = sl.SyntheticTable(sl.marginals(2), epsilon=1, delta="1e-4", bins={"a": 3, "b": 3})


def our_model(columns: dict[str, Any], seed: int) -> float:
    """Fit our logistic regression, and return its predictor at the person's row."""
    return float(_released(MODEL, columns, seed).value @ np.array([*PERSON[:2], 1.0]))


def our_table(columns: dict[str, Any], seed: int) -> float:
    """Make our synthetic table, and return the share of the person's corner in it."""
    rows = sl.Synthetic(_released(TABLE, columns, seed)).table(400)
    near = (np.asarray(rows["a"]) > 1 / 3) & (np.asarray(rows["b"]) > 1 / 3) & (np.asarray(rows["c"]) == PERSON[2])
    return float(np.mean(near))


#: Shadow models of each kind. With fewer than some 110 nothing would be refuted with a confidence of 1 - 1e-7, not even
#: a table that always tells who is in it.
UNPROTECTED = sized(2000, 8)
RUNS: dict[Attack, int] = sized({our_model: 400, our_table: 120}, {our_model: 4, our_table: 4})


def _released(query: Any, columns: dict[str, Any], seed: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return seeded_release(query, sl.Table(columns, schema=SCHEMA), seed=seed)


def _sampler(attack: Attack, *, person: bool) -> Sampler:
    seeds = iter(range(10**9))

    def one() -> float:
        seed = 2 * next(seeds) + person
        return attack(population(np.random.default_rng([7, seed]), person=person), seed)

    return one_by_one(one)


def shadowed(attack: Attack, claims: Claims, *, runs: int) -> Tight:
    """Attack with this number of shadow models of each kind."""
    samplers = _sampler(attack, person=False), _sampler(attack, person=True)
    return judged(samplers, claims, "rows of a population, and the same with one person", runs)


def claims_of(query: Any) -> Claims:
    """Return the (epsilon, delta) that a query was asked for."""
    proved = prepare_query(query, sl.Schema(SCHEMA)).claims.approx_at("1e-4")
    assert proved is not None
    return Claims.of(proved)


def cases(*, long: bool = False) -> dict[str, Callable[[], Tight]]:
    """Return the attacks by name."""
    factor = 5 if long else 1
    return {
        "nearest neighbour, unprotected": lambda: shadowed(unprotected_model, ONE, runs=UNPROTECTED),
        "synthetic rows drawn from the rows, unprotected": lambda: shadowed(unprotected_table, ONE, runs=UNPROTECTED),
        "sl.LogisticRegression": lambda: shadowed(our_model, claims_of(MODEL), runs=RUNS[our_model] * factor),
        "sl.SyntheticTable": lambda: shadowed(our_table, claims_of(TABLE), runs=RUNS[our_table] * factor),
    }


def measure() -> dict[str, float]:
    """Return the least epsilon shown of what is unprotected, and the largest share of a claim of ours."""
    found = {name: attack() for name, attack in cases().items()}
    for name, each in found.items():
        print(f"{name}: {each.refuted:.2f} of {each.claim}; {each.event}; {each.seconds:.0f} s", file=sys.stderr)
    unprotected = [each.refuted for name, each in found.items() if name.endswith("unprotected")]
    return {
        "unprotected": min(unprotected),
        "refuted": float(sum(each.surely > each.claimed for name, each in found.items() if name.startswith("sl."))),
    }


if __name__ == "__main__":
    print(measure())
