"""`ReleasedDistribution`: what `sl.Distribution` is released as. Public numbers only: what is read off it is free."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.guarantees.amounts import whole
from sidelight.noise import OSEntropy, Source, uniform
from sidelight.readable import number_text
from sidelight.registry import import_with_extras

Floats = NDArray[np.float64]
#: What a bound may assume about the data: nothing, or that it is spread out, without undeclared ties.
Assuming = Literal["nothing", "spread"]

#: The quantiles that are shown: five percent, ten percent, ...
VENTILES = tuple(place / 20 for place in range(1, 20))


class ReleasedDistribution(Mapping[str, Any]):
    """Hold a private cumulative distribution: `cdf(x)`, `quantile(q)`, `histogram(bins)`, `sample(count)`, `plot()`.

    A released value, not written by hand. Whatever is read off it costs nothing more. As a mapping it has
    `quantiles` (at five percent, ten percent, ...), `values`, `shares` and `total`.

    Args:
        values: Places in order; a place may stand there more than once, where the distribution jumps.
        shares: What share of the records lies at or below each.
        total: The number of records, as released.
        steps: Whether records lie at these places only; else they are spread evenly between neighbours.
        granularity: The step on which values lie, or None.
        rank_error: The bounds on the errors of the shares of all values, times `total`, as (fixed, per_log) of a
            `TailBound`; one number stands for all of them. They hold wherever the records lie.
        likely: The same, of smaller bounds: an estimate, measured and not proved; None without one.

    >>> known = ReleasedDistribution(values=[0.0, 1.0, 3.0], shares=[0.1, 0.5, 0.9], total=1000.0)
    >>> known.cdf([1.0, 2.0]).tolist(), known.quantile(0.5)
    ([0.5, 0.7], 1.0)
    >>> known.histogram([0, 1, 3])[0].round().tolist()
    [500.0, 500.0]
    """

    __slots__ = ("granularity", "likely", "rank_error", "shares", "steps", "total", "values_")

    def __init__(
        self,
        *,
        values: ArrayLike,
        shares: ArrayLike,
        total: float,
        steps: bool = False,
        granularity: float | None = None,
        rank_error: tuple[ArrayLike, ArrayLike] | None = None,
        likely: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        self.values_: Floats = _frozen(values)
        self.shares: Floats = _frozen(shares)
        if self.values_.shape != self.shares.shape or self.values_.ndim != 1 or not self.values_.size:
            raise RangeError("a distribution has one share for each of its values, and at least one value")
        if any((each[1:] < each[:-1]).any() for each in (self.values_, self.shares)):
            raise RangeError("the values and the shares of a distribution do not decrease")
        self.total = float(total)
        self.steps = bool(steps)
        self.granularity = granularity
        self.rank_error = self._bounds(rank_error)
        self.likely = self._bounds(likely)

    def _bounds(self, given: tuple[ArrayLike, ArrayLike] | None) -> tuple[Floats, Floats] | None:
        if given is None:
            return None
        try:
            fixed, per_log = (_frozen(np.broadcast_to(each, self.shares.shape)) for each in given)
        except ValueError:
            raise RangeError("rank_error has one bound for each of the values, or one for all") from None
        return fixed, per_log

    def cdf(self, x: ArrayLike) -> Any:
        """Return the share of the records at or below x.

        Beyond the outermost released values it is 0 and 1: nothing is extrapolated.

        Args:
            x: One number or several.

        Returns:
            A float, or an array of them.
        """
        places = np.asarray(x, np.float64)
        after = np.searchsorted(self.values_, places, "right")
        padded = np.concatenate([[0.0], self.shares])
        found = padded[after]
        if not self.steps:
            low = np.clip(after - 1, 0, self.values_.size - 1)
            high = np.clip(after, 0, self.values_.size - 1)
            width = self.values_[high] / 4 - self.values_[low] / 4  # quarters: no distance overflows
            inside = (after > 0) & (after < self.values_.size) & (width > 0)
            part = np.divide(places / 4 - self.values_[low] / 4, width, out=np.zeros(places.shape), where=inside)
            found = found + np.clip(part, 0.0, 1.0) * np.where(inside, self.shares[high] - self.shares[low], 0.0)
        found = np.where(after == self.values_.size, 1.0, found)
        return _plain(np.where(np.isnan(places), np.nan, found))

    def quantile(self, q: ArrayLike) -> Any:
        """Return the value below which the share q of the records lies.

        Args:
            q: One level or several, from 0 to 1.

        Returns:
            A float, or an array of them; never outside the released values.
        """
        levels = np.asarray(q, np.float64)
        if not ((levels >= 0) & (levels <= 1)).all():
            raise RangeError("levels of quantiles lie between 0 and 1; for a percentile write 0.25")
        if self.steps:
            places = np.searchsorted(self.shares, levels, "right")
            return _plain(self.values_[np.minimum(places, self.values_.size - 1)])
        largest = max(float(np.abs(self.values_).max()), 1e-300)
        found = np.interp(levels, self.shares, self.values_ / largest) * largest  # slopes of huge values overflow
        at = np.minimum(np.searchsorted(self.shares, levels), self.shares.size - 1)
        found = np.where(self.shares[at] == levels, self.values_[at], found)  # what was released comes back as it was
        if self.granularity is not None:
            found = np.floor(found / self.granularity + 1e-9) * self.granularity
        return _plain(np.clip(found, self.values_[0], self.values_[-1]))

    def histogram(self, bins: int | ArrayLike = 20) -> tuple[Floats, Floats]:
        """Return how many records lie in bins.

        Args:
            bins: The edges of the bins, increasing; or how many of equal width there are.

        Returns:
            The counts (not whole numbers) and the edges, as `numpy.histogram` does; a bin holds its lower edge, the
            last one both.
        """
        edges = np.asarray(bins, np.float64)
        if edges.ndim == 0:
            if not (1 <= edges <= 100_000 and float(edges).is_integer()):
                raise RangeError(f"bins is a number of bins of at least 1, or their edges, got {bins!r}")
            edges = 2 * np.linspace(self.values_[0] / 2, self.values_[-1] / 2, int(edges) + 1)  # no overflow
        if edges.ndim != 1 or edges.size < 2 or not (np.diff(edges) >= 0).all():
            raise RangeError("the edges of bins increase, and there are at least two of them")
        below = np.atleast_1d(self.cdf(np.nextafter(edges, -np.inf)))  # a bin holds its lower edge
        below[-1] = float(self.cdf(edges[-1]))
        return self.total * np.diff(below), edges

    def sample(self, count: int) -> Floats:
        """Draw made-up records from the distribution: as many as you like, at no cost.

        Args:
            count: How many.

        Returns:
            An array of them, in no order.
        """
        count = whole(count, name="count", least=0)
        with Source(OSEntropy()) as source:
            return np.atleast_1d(np.asarray(self.quantile(uniform(count, source))))

    def band(self, x: ArrayLike, *, confidence: float = 0.95, assuming: Assuming | None = None) -> tuple[Any, Any]:
        """Return a lower and an upper bound of the true share at or below x, for all x at once.

        Every released value has its own bound: as many records as its share says lie below it, up to that. At x the
        band follows from the values on both sides of x, and is narrow where ranks are known well, as in the tails.

        Args:
            x: One number or several.
            confidence: With which probability they all hold, if there are no fewer records than were released less two
                deviations of that number's noise (or, where a size was declared, than that).
            assuming: "nothing", the default, holds wherever the records lie and tie. "spread" is the narrower band of
                the likely error: an estimate, measured and not proved. Records count as they are
                declared: within the column's bounds, and on its steps (without these, to 48 bits).
        """
        if not 0 < confidence < 1:
            raise RangeError(f"confidence must lie strictly between 0 and 1, got {confidence}; 0.95 is a usual choice")
        if assuming not in (None, "nothing", "spread"):
            raise RangeError(f'assuming is "nothing", which is the default, or "spread", got {assuming!r}')
        bounds = self.likely if assuming == "spread" else self.rank_error
        if bounds is None:
            without = "a likely error" if assuming == "spread" else "a bound on its error that assumes nothing"
            raise RangeError(f"this distribution was released without {without}")
        fixed, per_log = bounds
        off = np.maximum(fixed - per_log * float(np.log(1 - confidence)), 0.0) / max(self.total, 1.0)
        # At or below x lie at least as many as at or below every value up to x, and at most as many as below every
        # value after it; where records lie at values only, no more than at or below the last of those up to x.
        least = np.maximum.accumulate(np.append(0.0, self.shares - off))
        most = np.minimum.accumulate(np.append(1.0, (self.shares + off)[::-1]))[::-1]
        if self.steps:
            least[-1], most = 1.0, np.concatenate([[0.0], most[: self.shares.size - 1], [1.0]])
        places = np.asarray(x, np.float64)
        after, unknown = np.searchsorted(self.values_, places, "right"), np.isnan(places)
        return _plain(np.where(unknown, np.nan, least[after])), _plain(np.where(unknown, np.nan, most[after]))

    def plot(self, axes: Any = None, *, confidence: float = 0.95, assuming: Assuming | None = None) -> Any:
        """Draw the distribution with its band.

        Args:
            axes: Axes of matplotlib; new ones if left out.
            confidence: Of the band.
            assuming: As in `band`.

        Returns:
            The axes.
        """
        if axes is None:
            axes = import_with_extras("matplotlib.pyplot").subplots()[1]
        low, high = self.quantile([0.005, 0.995])
        places = self.values_[(self.values_ >= low) & (self.values_ <= high)]
        places = np.unique(np.append(np.linspace(low, high, 100), places))
        if self.rank_error is not None or assuming == "spread":
            band = self.band(places, confidence=confidence, assuming=assuming)
            axes.fill_between(places, *band, step="post", alpha=0.25, linewidth=0)
        axes.step(places, self.cdf(places), where="post")
        axes.set_ylim(0, 1)
        axes.set_ylabel("share of the records at or below")
        return axes

    @property
    def quantiles(self) -> Floats:
        """The quantiles at five percent, ten percent, ..., which reports show."""
        return np.asarray(self.quantile(np.array(VENTILES)))

    def __getitem__(self, name: str) -> Any:
        if name == "values":
            return self.values_
        if name in ("quantiles", "shares", "total"):
            return getattr(self, name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(("quantiles", "shares", "total", "values"))

    def __len__(self) -> int:
        return 4

    def to_json(self) -> dict[str, Any]:
        """Return everything as numbers and lists of them."""
        return {
            "values": self.values_.tolist(),
            "shares": self.shares.tolist(),
            "total": self.total,
            "steps": self.steps,
            "granularity": self.granularity,
            "rank_error": None if self.rank_error is None else [each.tolist() for each in self.rank_error],
            **({} if self.steps else {"likely": self.likely and [each.tolist() for each in self.likely]}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReleasedDistribution:
        """Return the distribution that `to_json` wrote.

        Earlier versions stored the likely error as the error, and the worst case, if any, separately.
        """
        given = dict(data)
        if "likely" not in given:
            beside = given.pop("regardless", None)
            if not given.get("steps"):
                given |= {"likely": given.get("rank_error"), "rank_error": beside}
        bounds = {name: given.get(name) for name in ("rank_error", "likely")}
        return cls(**{**given, **{name: None if each is None else (each[0], each[1]) for name, each in bounds.items()}})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReleasedDistribution) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]  # a mapping

    def __repr__(self) -> str:
        low, middle, high = (number_text(each, digits=6) for each in self.quantile([0.05, 0.5, 0.95]).tolist())
        return f"distribution of about {self.total:,.0f} records: 5 % {low}, 50 % {middle}, 95 % {high}"


def _frozen(values: ArrayLike) -> Floats:
    copy = np.array(values, np.float64)
    copy.setflags(write=False)
    return copy


def _plain(found: NDArray[Any]) -> Any:
    """Return a float for one number, an array for several."""
    return float(found) if np.ndim(found) == 0 else np.asarray(found)
