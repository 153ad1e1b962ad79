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

from sidelight.errors import RangeError
from sidelight.guarantees import GDP, ZCDP, Amount, Claims, Neighbours, PureDP, exact
from sidelight.guarantees.claims import Context
from sidelight.mechanisms.budget import Budget, together
from sidelight.noise import Source
from sidelight.synthesis.cells.domain import Domain
from sidelight.synthesis.cells.spaces import MOST_DENSE_CELLS
from sidelight.synthesis.cells.workload import Marginal, Workload
from sidelight.synthesis.fitting.refit import PRIOR_WEIGHT
from sidelight.synthesis.measuring.measurement import MOST_ROWS, NoisyRows, noise_of, noisy_rows
from sidelight.synthesis.measuring.private_marginals import PrivateMarginals, Protection

#: The expected error of a measured marginal up to which another one is worth measuring.
WORTHWHILE = 0.02


@dataclass(frozen=True, kw_only=True)
class MarginalPlan:
    """Select a badly answered marginal, measure all of it, refit; again.

    Guarantee: `claims`, for whatever the rows are. Selection, noise and number of rows are exact on the machine, the
    refit is post-processing (synthesis proof page, Theorem 3).

    Args:
        domain, workload: What rows look like, and what should be answered well.
        price: The total.
        protection: Whom it protects.
        rows: The public number of rows, for replacing one; None for adding and removing, where a noisy number of rows
            is released with `size_share` of the price.
        rounds: How many marginals are selected and measured; None for the number of columns of the workload.
        selection_share: Of a round's price, for the selection.
        one_way_share: Of the price, to measure all one-way marginals first; 0 for none.
        closure: Whether subsets of the workload's marginals may be measured, too.
        prior_weight: τ of the refit.
    """

    domain: Domain
    workload: Workload
    price: Budget
    protection: Protection = Protection()  # noqa: RUF009  # frozen
    rows: int | None = None
    rounds: int | None = None
    selection_share: Amount = Fraction(1, 10)
    size_share: Amount = Fraction(1, 50)
    one_way_share: Amount = Fraction(0)
    closure: bool = True
    prior_weight: float = PRIOR_WEIGHT

    def __post_init__(self) -> None:
        for name in ("selection_share", "size_share", "one_way_share"):
            share = exact(getattr(self, name), name=name)
            if not (0 <= share < 1) or (share == 0 and name != "one_way_share"):
                raise RangeError(f"{name} must lie strictly between 0 and 1, got {getattr(self, name)}")
            object.__setattr__(self, name, share)
        check_sizes(self.protection, rows=self.rows, rounds=self.rounds)
        if not self.prior_weight > 0:
            raise RangeError(f"prior_weight must be positive, got {self.prior_weight}")
        if self._round_share <= 0:
            raise RangeError("the shares leave nothing for the rounds; lower size_share or one_way_share")
        largest = max(self.candidates, key=lambda each: each.cells(self.domain))
        if largest.cells(self.domain) > MOST_DENSE_CELLS:  # found here: its counts would not fit, after the charge
            raise RangeError(
                f"the marginal {largest} has {largest.cells(self.domain):.3g} cells, at most {MOST_DENSE_CELLS:.2g} "
                "can be measured; ask for marginals of fewer columns, or coarser bins"
            )
        _ = self.claims

    @cached_property
    def candidates(self) -> tuple[Marginal, ...]:
        """The marginals that may be measured."""
        return self.workload.partitions(self.domain, closure=self.closure)

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
    def one_way(self) -> tuple[Marginal, ...]:
        """The one-way marginals that are measured first."""
        if not self.one_way_share:
            return ()
        names = self.domain.in_order(name for each in self.candidates for name in each.columns)
        return tuple(Marginal((name,)) for name in names)

    @property
    def _round_share(self) -> Fraction:
        size = Fraction(0) if self.rows is not None else exact(self.size_share, name="size_share")
        return 1 - size - exact(self.one_way_share, name="one_way_share")

    @cached_property
    def size_price(self) -> Budget:
        """For the number of rows."""
        return self.price.part(exact(self.size_share, name="size_share"))

    @cached_property
    def one_way_price(self) -> Budget:
        """For each one-way marginal."""
        return self.price.part(exact(self.one_way_share, name="one_way_share") / len(self.one_way))

    @cached_property
    def selection_price(self) -> Budget:
        """For each selection."""
        return self.price.part(self._round_share / self.total_rounds * exact(self.selection_share, name="share"))

    @cached_property
    def measurement_price(self) -> Budget:
        """For each selected marginal."""
        return self.price.part(self._round_share / self.total_rounds * (1 - exact(self.selection_share, name="share")))

    @cached_property
    def mean_error(self) -> float:
        """The mean absolute noise of a cell."""
        return float(noise_of(self.measurement_price, self.protection)["mean_error"])

    @cached_property
    def deviation(self) -> float:
        """The standard deviation of the noise of a cell."""
        return float(noise_of(self.measurement_price, self.protection)["deviation"])

    @cached_property
    def claims(self) -> Claims:
        """What the whole release costs."""
        protection = self.protection
        empty = protection.bounded(np.zeros(2, np.int64), self.price.norm)
        context: Context = {"neighbours": protection.neighbours, "unit": protection.unit}
        parts = [
            (self.total_rounds, self.selection_price.selection_claims(**context)),
            (self.total_rounds, self.measurement_price.on(empty).claims),
        ]
        if self.rows is None:
            parts.append((1, self.size_price.on(protection.bounded(0, "l1")).claims))
        if self.one_way:
            parts.append((len(self.one_way), self.one_way_price.on(empty).claims))
        return together(parts)


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


def check_sizes(protection: Protection, *, rows: int | None, rounds: int | None) -> None:
    """Refuse numbers of rows and rounds that make no plan."""
    if (protection.neighbours is Neighbours.REPLACE) != (rows is not None):
        raise RangeError("the number of rows is public exactly where a row is replaced: give rows, or neither")
    if rows is not None and (isinstance(rows, bool) or not 1 <= rows <= MOST_ROWS):
        raise RangeError(f"rows must be a whole number from 1 to 2**40, got {rows!r}")
    if rounds is not None and (isinstance(rounds, bool) or rounds < 1):
        raise RangeError(f"rounds must be a whole number of at least 1, got {rounds!r}")


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
