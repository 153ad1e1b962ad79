"""The plan of a release by whole marginals: shares, rounds, noise and price, all known before the rows are opened.

With m rounds each measured marginal has an expected total-variation error of e(m) from the noise alone; a marginal that
is not measured has whatever error the fit leaves. Measuring is worth it while e(m) is small. The rule takes the largest
m with e(m) <= 0.02, at least the number of columns and at most the number of candidates. The size of the table enters
through its public or released number, so the private rows are not asked again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import floor

import numpy as np

from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError
from sidelight.guarantees import GDP, ZCDP, Amount, Claims, Neighbours, PureDP, exact
from sidelight.guarantees.amounts import whole
from sidelight.guarantees.claims import Context
from sidelight.mechanisms.budget import Budget, share_of, together
from sidelight.noise import Source
from sidelight.synthesis.domain import Domain
from sidelight.synthesis.measurement import MOST_ROWS, NoisyRows, PrivateMarginals, Protection, noise_of, noisy_rows
from sidelight.synthesis.spaces import MOST_DENSE_CELLS
from sidelight.synthesis.workload import Marginal, Workload

#: The expected error of a measured marginal up to which another one is worth measuring.
WORTHWHILE = 0.02


@dataclass(frozen=True, kw_only=True)
class EnginePlan:
    """What the plans of all engines share: select, measure, refit; again. Their price is divided here.

    Guarantee: `claims`, for whatever the rows are. Selection, noise and number of rows are exact on the machine, the
    refit is post-processing (synthesis proof page, Theorem 3).

    Args:
        domain, workload: What rows look like, and what should be answered well.
        price: The total.
        protection: Whom it protects.
        rows: The public number of rows, for replacing one; None for adding and removing, where a noisy number of rows
            is released with `size_share` of the price.
        rounds: How many measurements are selected and made.
        selection_share: Of a round's price, for the selection.
    """

    domain: Domain
    workload: Workload
    price: Budget
    protection: Protection = Protection()  # noqa: RUF009  # frozen
    rows: int | None = None
    rounds: int | None = None
    selection_share: Amount = Fraction(1, 2)
    size_share: Amount = Fraction(1, 50)

    def __post_init__(self) -> None:
        for name in ("selection_share", "size_share"):
            object.__setattr__(self, name, share_of(getattr(self, name), name=name))
        check_sizes(self.protection, rows=self.rows, rounds=self.rounds)
        _ = self.claims

    @property
    def total_rounds(self) -> int:
        """How many rounds there are."""
        raise NotImplementedError

    @property
    def measured(self) -> Bounded:
        """What a round measures, of no rows."""
        raise NotImplementedError

    @property
    def _round_share(self) -> Fraction:
        size = Fraction(0) if self.rows is not None else exact(self.size_share, name="size_share")
        return (1 - size) / self.total_rounds

    @cached_property
    def size_price(self) -> Budget:
        """For the number of rows."""
        return self.price.part(exact(self.size_share, name="size_share"))

    @cached_property
    def selection_price(self) -> Budget:
        """For each selection."""
        return self.price.part(self._round_share * exact(self.selection_share, name="share"))

    @cached_property
    def measurement_price(self) -> Budget:
        """For each measurement."""
        return self.price.part(self._round_share * (1 - exact(self.selection_share, name="share")))

    @cached_property
    def claims(self) -> Claims:
        """What the whole release costs."""
        context: Context = {"neighbours": self.protection.neighbours, "unit": self.protection.unit}
        parts = [
            (self.total_rounds, self.selection_price.selection_claims(**context)),
            (self.total_rounds, self.measurement_price.on(self.measured).claims),
        ]
        if self.rows is None:
            parts.append((1, self.size_price.on(self.protection.bounded(0, "l1")).claims))
        return together(parts)


@dataclass(frozen=True, kw_only=True)
class MarginalPlan(EnginePlan):
    """Select a badly answered marginal, measure all of it, refit; again.

    Without `rounds` there is one for each column of the workload.
    """

    selection_share: Amount = Fraction(1, 10)

    def __post_init__(self) -> None:
        super().__post_init__()
        largest = max(self.candidates, key=lambda each: each.cells(self.domain))
        if largest.cells(self.domain) > MOST_DENSE_CELLS:  # found here: its counts would not fit, after the charge
            raise RangeError(
                f"the marginal {largest} has {largest.cells(self.domain):.3g} cells, at most {MOST_DENSE_CELLS:.2g} "
                "can be measured; ask for marginals of fewer columns, or coarser bins"
            )

    @cached_property
    def candidates(self) -> tuple[Marginal, ...]:
        """The marginals that may be measured."""
        return self.workload.partitions(self.domain)

    @cached_property
    def total_rounds(self) -> int:
        """How many rounds there are: never more than candidates."""
        columns = {name for each in self.candidates for name in each.columns}
        return min(self.rounds or len(columns), len(self.candidates))

    @property
    def mean_cells(self) -> float:
        """The mean number of cells of a marginal of the workload."""
        return float(
            np.mean([each.cells(self.domain) for each in self.workload.partitions(self.domain, closure=False)])
        )

    @property
    def measured(self) -> Bounded:
        """The counts of a marginal of no rows."""
        return self.protection.bounded(np.zeros(2, np.int64), self.price.norm)

    @cached_property
    def mean_error(self) -> float:
        """The mean absolute noise of a cell."""
        return float(noise_of(self.measurement_price, self.protection)["mean_error"])

    @cached_property
    def deviation(self) -> float:
        """The standard deviation of the noise of a cell."""
        return float(noise_of(self.measurement_price, self.protection)["deviation"])


@dataclass(frozen=True, kw_only=True)
class SizedPlan(MarginalPlan):
    """The rest of a plan after its number of rows was released: all of the price left is for the rounds.

    Guarantee: as for `MarginalPlan`, with `price` what the number of rows has left. Here `rows` is a released number,
    and neighbours may still add or remove a row; `first_rows` is that number as it came out.
    """

    first_rows: NoisyRows

    def __post_init__(self) -> None:
        for name in ("selection_share", "size_share"):
            object.__setattr__(self, name, exact(getattr(self, name), name=name))


def check_sizes(protection: Protection, *, rows: int | None, rounds: int | None) -> None:
    """Refuse numbers of rows and rounds that make no plan."""
    if (protection.neighbours is Neighbours.REPLACE) != (rows is not None):
        raise RangeError("the number of rows is public exactly where a row is replaced: give rows, or neither")
    if rows is not None:
        whole(rows, name="rows", most=MOST_ROWS)
    if rounds is not None:
        whole(rounds, name="rounds")


def worthwhile_rounds(plan: MarginalPlan, rows: float) -> int:
    """Return the number of rounds for a table with this number of rows."""
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
    later = SizedPlan(
        domain=plan.domain,
        workload=plan.workload,
        protection=plan.protection,
        price=left,
        rows=int(first.rows),
        first_rows=first,
        rounds=plan.rounds,
        selection_share=plan.selection_share,
    )
    return replace(later, rounds=later.rounds or worthwhile_rounds(later, first.rows))


def nominal_claims(price: Budget, protection: Protection) -> Claims:
    """Return the claim of a whole price, which no plan exceeds, however many rounds it has."""
    context: Context = {"neighbours": protection.neighbours, "unit": protection.unit}
    if price.kind == "mu":
        return Claims.of(GDP.from_squares(price.amount, **context))
    if price.kind == "rho":
        return Claims.of(ZCDP(price.amount, **context))
    return Claims.of(PureDP(price.amount, **context))
