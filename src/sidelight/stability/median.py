"""The median, exactly or with very little noise, wherever the data agrees on it; a refusal elsewhere.

Classic propose-test-release: the proposal is that one record moves the median by at most `spread`. How many records
have to change until that is false is read off the order statistics near the middle; no data sets are searched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import floor, log

from sidelight.aggregates import Ranks, collect_ranks
from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError, SchemaError
from sidelight.grid import CODE_LIMIT, Grid
from sidelight.guarantees import Amount, Neighbours, Row, decimal_text, exact
from sidelight.mechanisms.additive import LaplaceNoise
from sidelight.mechanisms.tests_and_bounds import LaplaceTest
from sidelight.noise import Source
from sidelight.quantiles.outcomes import rehearse, step_grid
from sidelight.records import Number, Schema, Table
from sidelight.release import TailBound
from sidelight.session import Answer
from sidelight.stability.propose_test_release import Passed, PreparedTest, ProposingQuery, amounts, row_budget


@dataclass(frozen=True)
class StableMedian(ProposingQuery):
    """Release the (lower) median if few records cannot move it far, else refuse.

    Guarantee: ApproxDP(epsilon, delta) for the schema's unit, exact on the machine (stability proof page, Theorems 1
    and 4): the test spends `test_share` of epsilon, the noise the rest, and delta is the chance of a false pass. With
    `spread=0` there is no noise, the median comes out exactly, and the test spends all of epsilon.

    Accuracy: Laplace noise of scale spread / (epsilon (1 - test_share)). Refuses where few records could move the
    median further than `spread`: nineteen of twenty answer where some ln(5/delta)/(epsilon test_share) must change
    before, with `spread=0` some ln(5/delta)/epsilon.

    Args:
        column: A `Number` column with bounds, and a granularity unless there is a `resolution`; may be left out where
            it is the only one.
        epsilon, delta: The price.
        spread: How far one record may move the median, in the units of the column, best from public knowledge.
        test_share: The share of epsilon for the test.
        resolution: The step that records are rounded to; the column's granularity if left out.
        neighbours: REPLACE treats the number of rows as public, not that of the values in them: a replacement may also
            take one away or bring one.

    >>> from sidelight.records import Number
    >>> number = Number("hours", lower=0, upper=99, granularity=1)
    >>> hours = Table({"hours": [40] * 700 + [20] * 200 + [60] * 100}, schema=[number])
    >>> StableMedian("hours", epsilon=1, delta="1e-6").release(hours).value
    40.0
    """

    column: str | None = None
    epsilon: Amount = field(kw_only=True)
    delta: Amount = field(kw_only=True)
    spread: Amount = field(default=0, kw_only=True)
    test_share: Amount = field(default="1/2", kw_only=True)
    resolution: Amount | None = field(default=None, kw_only=True)
    neighbours: Neighbours = field(default=Neighbours.ADD_REMOVE, kw_only=True)
    _wanted = "a stable median wants sl.Table(data, schema=[sl.Number(..., lower=..., upper=...)])"

    def __post_init__(self) -> None:
        exact(self.spread, name="spread")
        share = exact(self.test_share, name="test_share")
        if not 0 < share < 1:
            raise RangeError(f"test_share must lie strictly between 0 and 1, got {self.test_share}")
        if self.neighbours not in (Neighbours.ADD_REMOVE, Neighbours.REPLACE):
            raise RangeError(f"the median's neighbours are ADD_REMOVE or REPLACE, got {self.neighbours}")

    def prepare(self, schema: Schema) -> PreparedMedian:
        """Check the query against the schema and price it. Opens no data."""
        number = self._number(schema)
        resolution = None if self.resolution is None else exact(self.resolution, name="resolution")
        grid = replace(step_grid(number, resolution=resolution), dither_bits=0)
        rehearse(number, grid)
        budget = row_budget(self.epsilon, self.delta, unit=schema.unit, neighbours=self.neighbours)
        steps = floor(exact(self.spread, name="spread") / grid.resolution)
        if steps > CODE_LIMIT:
            raise RangeError(
                f"spread must be at most 2**61 steps of {decimal_text(grid.resolution)}; one wider than the bounds of "
                f"{number.name!r} says nothing"
            )
        share = exact(self.test_share, name="test_share") if steps else Fraction(1)
        noise_epsilon = budget.epsilon * (1 - share)
        noise_scale = float(steps * grid.resolution / noise_epsilon) if steps else 0.0
        return PreparedMedian(
            claims=budget.claims,
            within=budget.pure,
            test=LaplaceTest(epsilon=budget.epsilon * share, false_pass=budget.delta),
            request={
                "kind": "stable_median",
                "column": number.name,
                **amounts(self, "epsilon", "delta"),
                "spread": decimal_text(steps * grid.resolution),
                "test_share": decimal_text(share),
                "resolution": decimal_text(grid.resolution),
                "neighbours": self.neighbours.value,
            },
            refusal="a few records could move the median further than the spread that was proposed",
            error=TailBound(
                unit="units of the column",
                assumption="records are clamped to the bounds and rounded to the resolution",
                fixed=(noise_scale * log(2),),
                per_log=(noise_scale,),
                largest=float((grid.last - grid.first) * grid.resolution),  # both medians are clamped to the bounds
            ),
            column=number.name,
            grid=grid,
            steps=steps,
            noise_epsilon=noise_epsilon,
        )

    def _number(self, schema: Schema) -> Number:
        numbers = [column for column in schema.columns if isinstance(column, Number)]
        if self.column is None and len(numbers) != 1:
            raise SchemaError("which column? Write StableMedian(column, ...)")
        number = numbers[0] if self.column is None else schema.number(self.column)
        if number.lower is None or number.upper is None:
            raise SchemaError(
                f"the median of {number.name!r} needs bounds; declare Number({number.name!r}, lower=..., upper=...)"
            )
        return number


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedMedian(PreparedTest[Ranks]):
    """A `StableMedian` fitted to a schema; one record moves it by at most `steps` steps of the grid."""

    column: str
    grid: Grid
    steps: int
    noise_epsilon: Fraction

    def look(self, table: Table, source: Source) -> Ranks:
        """Sort the column."""
        return collect_ranks(table, self.column, self.grid, source)

    def distance(self, secret: Ranks, *, cap: int) -> int:
        """Return how many records could move the median too far."""
        order, neighbours = _order(secret, self.grid), self.claims.neighbours
        return median_distance(order, secret.size, self.steps, neighbours=neighbours, cap=cap)

    def answer(self, secret: Ranks, parameter: Passed, source: Source) -> Answer:
        """Return the median, with noise unless it is proposed not to move at all."""
        code = _order(secret, self.grid)((secret.size - 1) // 2)
        if self.steps:
            moved = Bounded(code, Fraction(self.steps), "l1", self.claims.neighbours, Row())
            code = int(LaplaceNoise(moved, epsilon=self.noise_epsilon).release(source))
        code = min(max(code, self.grid.first), self.grid.last)
        return Answer(value=self.grid.value(code), labels=("median",))


def _order(ranks: Ranks, grid: Grid) -> Callable[[int], int]:
    """Return x_i for i = -1..n: the bounds stand before the first record and after the last."""
    size = ranks.size

    def at(i: int) -> int:
        if i < 0:
            return grid.first
        return ranks.order(i + 1) if i < size else grid.last

    return at


def median_distance(order: Callable[[int], int], size: int, spread: int, *, neighbours: Neighbours, cap: int) -> int:
    """Return how many records must change until one more can move the median by more than `spread`, at most `cap`.

    `order(i)` is the i-th smallest of `size` integers, with the lower bound at -1 and the upper bound at `size`.
    Replace: the records between x_i and x_j that lie around the middle are moved away, j - i - 1 of them, for the best
    pair that is further apart than the spread. Add or remove: the pair may lie anywhere, the records between are
    removed, and one more change is needed for each by which the pair is off the middle (Theorem 4).

    >>> x = [0, *[5] * 9, 100]
    >>> median_distance(lambda i: x[i + 1], 9, 0, neighbours=Neighbours.REPLACE, cap=50)
    4
    """
    if neighbours is Neighbours.REPLACE:
        return _replaced(order, size, spread, cap)
    return _added_or_removed(order, size, spread, cap)


def _replaced(order: Callable[[int], int], size: int, spread: int, cap: int) -> int:
    middle = (size - 1) // 2
    best, right = cap, min(size, middle + cap + 1)
    for left in range(middle, max(-1, middle - cap) - 1, -1):
        nearest = max(middle, left + 1)
        if right < nearest or order(right) - order(left) <= spread:
            continue
        while right > nearest and order(right - 1) - order(left) > spread:
            right -= 1
        best = min(best, right - left - 1)
    return best


def _added_or_removed(order: Callable[[int], int], size: int, spread: int, cap: int) -> int:
    middle = size // 2  # x_middle - x_(middle - 1) is how far one record moves the median
    best, right = cap, max(-1, middle - 1 - cap) + 1
    for left in range(max(-1, middle - 1 - cap), min(size - 1, middle - 1 + cap) + 1):
        right = max(right, left + 1)
        while right < size and right - left - 1 < best and order(right) - order(left) <= spread:
            right += 1
        if order(right) - order(left) <= spread:
            continue  # too far away to count, or the bounds themselves are no further apart
        off = (size - right) - (left + 1)  # records above minus records below: 0 or 1 is balanced
        best = min(best, right - left - 1 + (-off if off < 0 else max(0, off - 1)))
    return best
