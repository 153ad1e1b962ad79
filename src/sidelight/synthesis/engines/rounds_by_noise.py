"""How many marginals to measure, from public and released numbers: as many as the noise lets be worth it.

With m rounds each measured marginal has an expected total-variation error of e(m) from the noise alone; a marginal that
is not measured has whatever error the fit leaves. Measuring is worth it while e(m) is small. The rule takes the largest
m with e(m) <= 0.02, at least the number of columns and at most the number of candidates. The size of the table enters
through its public or released number, so the private rows are not asked again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor

from sidelight.guarantees import GDP, ZCDP, Claims, PureDP, exact
from sidelight.guarantees.claims import Context
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.synthesis.engines.plan import MarginalPlan
from sidelight.synthesis.measuring.measurement import NoisyRows, noisy_rows
from sidelight.synthesis.measuring.private_marginals import PrivateMarginals, Protection

#: The expected error of a measured marginal up to which another one is worth measuring.
WORTHWHILE = 0.02


@dataclass(frozen=True, kw_only=True)
class SizedPlan(MarginalPlan):
    """The rest of a plan after its number of rows was released: all of the price left is for the rounds.

    Guarantee: as for `MarginalPlan`, with `price` what the number of rows has left. Here `rows` is a released number,
    and neighbours may still add or remove a row; `first_rows` is that number as it came out.
    """

    first_rows: NoisyRows

    def __post_init__(self) -> None:
        for name in ("selection_share", "size_share", "one_way_share"):
            object.__setattr__(self, name, exact(getattr(self, name), name=name))


def worthwhile_rounds(plan: MarginalPlan, rows: float) -> int:
    """Return the number of rounds for a table of so many rows."""
    most = len(plan.candidates)
    least = min(most, len({name for each in plan.candidates for name in each.columns}))
    # the noise of m rounds is m times (Laplace) or √m times (Gaussian) that of one
    power = 1 if plan.price.kind == "epsilon" else 2
    error_of_one = replace(plan, rounds=1).mean_error * plan.mean_cells / (2 * max(rows, 1.0))
    return min(max(floor((WORTHWHILE / error_of_one) ** power), least), most)


def sized(plan: MarginalPlan, counts: PrivateMarginals, *, source: Source) -> MarginalPlan:
    """Settle the number of rounds; under adding and removing, release the number of rows first, with its share.

    Guarantee: `nominal_claims` of the plan's whole price: the number of rows costs at most its share, and whatever it
    says, the rounds cost at most the rest (adaptive composition).
    """
    if plan.rows is not None:
        return replace(plan, rounds=plan.rounds or worthwhile_rounds(plan, float(plan.rows)))
    first = noisy_rows(counts, price=plan.size_price, source=source)
    left = plan.price.part(1 - exact(plan.size_share, name="size_share"))
    shared = {name: getattr(plan, name) for name in ("domain", "workload", "protection", "closure", "prior_weight")}
    later = SizedPlan(
        **shared,
        price=left,
        rows=int(first.rows),
        first_rows=first,
        rounds=plan.rounds,
        selection_share=plan.selection_share,
        one_way_share=exact(plan.one_way_share, name="share") / (1 - exact(plan.size_share, name="share")),
    )
    return replace(later, rounds=later.rounds or worthwhile_rounds(later, first.rows))


def nominal_claims(price: Budget, protection: Protection) -> Claims:
    """Return the claim of a whole price, of which no plan uses more, whatever its rounds."""
    context: Context = {"neighbours": protection.neighbours, "unit": protection.unit}
    if price.kind == "mu":
        return Claims.of(GDP.from_squares(price.amount, **context))
    if price.kind == "rho":
        return Claims.of(ZCDP(price.amount, **context))
    return Claims.of(PureDP(price.amount, **context))
