"""Random histories whose declared epsilons and deltas fit a default budget: how many requests are refused all the same.

`python -m benchmarks.budget_histories` prints the count over 2,000 of them; the proof that it is 0 is on the accounting
proof page, section 6. And how many small pure queries are granted by the sum, and with routes named.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction

from benchmarks.measuring import sized
from sidelight.accounting import ROUTES, Rule, Totals, batch
from sidelight.guarantees import GDP, ZCDP, ApproxDP, BoundedRange, Claims, PureDP
from sidelight.guarantees.conversions import gdp_within

F = Fraction
HISTORIES = sized(2000, 1)


def history(generator: random.Random, epsilon: Fraction, delta: Fraction) -> list[tuple[Claims, Fraction]]:
    """Split a budget, all of it or most, among events of every kind that declares its price."""
    eighths = [[generator.randint(0, 7) for _ in range(8)] for _ in range(2)]  # which event gets each eighth
    events = []
    for number in range(8):
        e, d = (budget * each.count(number) / 8 for budget, each in zip((epsilon, delta), eighths, strict=True))
        kind = generator.choice(["pure", "range", "approx", "gaussian", "gaussian", "both", "batch"])
        if e == 0:
            continue
        if kind in ("pure", "range") or d == 0:
            events.append((Claims.of(PureDP(e) if kind == "pure" else BoundedRange(e)), F(0)))
        elif kind == "approx":
            events.append((Claims.of(ApproxDP(e, d)), d))
        elif kind == "batch":
            events.append((batch([Claims.of(ApproxDP(e / 2, d / 2))] * 2), d))
        else:
            mu = GDP(gdp_within(e, d))
            events.append((Claims.of(mu, ApproxDP(e, d)) if kind == "both" else Claims.of(mu), d))
    if generator.random() < 0.3:
        events.append((Claims.of(ZCDP(F(1, 1000))), F(0)))  # last: without a declared pair, no plain sum can follow
    return events


def refused_though_the_sum_fits(seed: int, *, histories: int) -> int:
    """Count, over random mixed histories whose declared prices fit, the requests that a default budget refuses."""
    generator, refused = random.Random(seed), 0
    for _ in range(histories):
        epsilon, delta = generator.choice([(F(3), F("1e-6")), (F("0.7"), F("3e-8"))])
        rule, totals = Rule.for_budget(ApproxDP(epsilon, delta)), Totals.zero()
        for claims, d in history(generator, epsilon, delta):
            too_much = rule.charges(Claims.of(PureDP(9)))[0]
            assert not rule.grants(totals, too_much)  # a refused request changes nothing
            after = _asked(rule, totals, claims, delta=d or None)
            refused += after is None and claims.zcdp() != ZCDP(F(1, 1000))
            totals = after or totals
    return refused


def _asked(rule: Rule, totals: Totals, claims: Claims, *, delta: Fraction | None) -> Totals | None:
    charge = rule.charge(claims, totals=totals, delta=delta)
    return totals.plus(charge) if rule.grants(totals, charge) else None


def small_pure_queries(rule: Rule, epsilon: Fraction) -> int:
    """Count how many equal pure queries a rule grants."""
    totals, granted = Totals.zero(), 0
    options = rule.charges(Claims.of(PureDP(epsilon)))
    while rule.grants(totals, charge := rule.choose(totals, options)):
        totals, granted = totals.plus(charge), granted + 1
    return granted


def measure() -> Mapping[str, float]:
    """Count the refusals of all histories."""
    return {"refused": float(refused_though_the_sum_fits(21, histories=HISTORIES))}


if __name__ == "__main__":
    print(measure())
    budget = ApproxDP(3, "1e-6")
    print({"sum first": small_pure_queries(Rule.for_budget(budget), F("0.01"))})
    print({"routes named": small_pure_queries(Rule.for_budget(budget, routes=ROUTES), F("0.01"))})
