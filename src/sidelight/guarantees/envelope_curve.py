"""The remove profile of losses whose curvature falls as their slope grows: logistic and log-cosh.

The loss is at most W(V) = sup over t in [0, 1] of log(1 + ratio · b(t)) + mu² t²/2 + mu t V, V standard normal, with
b(t) = t(1-t) for the logistic loss and b(t) = 1-t² for log-cosh (objective-perturbation proof page, Theorem 1). From a
known threshold on W is the Gaussian loss itself, so the profile is the Gaussian's there (Theorem 2), in certified
decimals. Below the threshold it is summed over cells of V in floats: W is bounded from above by tangents of its concave
part and chords of its convex part, between nodes by its chord (W is convex), and within a cell by Jensen's inequality.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, get_args

from sidelight.errors import ClaimError, nearest
from sidelight.guarantees.amounts import decimal_text
from sidelight.guarantees.derived_curves import gaussian_upper, raised, tail_from, with_output
from sidelight.guarantees.intervals import gaussian_delta, round_up

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

EnvelopeShape = Literal["logistic", "log_cosh"]
_NODES = 4001
_SLOPES = 2048
_KNOTS = 1025
#: Sums of some thousand positive floats and the special functions in them: far below this.
_SUM_SLACK = 1e-10


@dataclass(frozen=True)
class EnvelopeCurve:
    """Loss at most W(V) + N(output_mu²/2, output_mu²); `ratio` is 4β/λ (logistic) or β/λ (log-cosh)."""

    mu: Fraction
    ratio: Fraction
    shape: EnvelopeShape = "logistic"
    output_mu: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.shape not in get_args(EnvelopeShape):
            raise ClaimError(f"an unknown envelope {self.shape!r}; {nearest(self.shape, get_args(EnvelopeShape))}")

    @property
    def threshold(self) -> Fraction:
        """The point from which on the profile without output noise is the Gaussian's (Theorem 2)."""
        m = self.mu * self.mu / 2
        if self.shape == "logistic":
            return max(Fraction(0), self.ratio - m)
        return max(self.ratio, 2 * self.ratio - m)

    def delta(self, x: Fraction) -> Fraction:
        if x >= self.threshold and (not self.output_mu or x > _table(self)[0][-1]):
            return self._closed(x)
        import numpy as np

        found = Fraction(float(_summed(self, np.array([float(x) * (1 - 1e-15)]))[0]))
        # just above the threshold the term of the output noise in the closed form is larger than the sum is
        return min(Fraction(1), found, *([self._closed(x)] if x >= self.threshold else []))

    def floats(self, x: Floats) -> Floats:
        import numpy as np

        edge = float(self.threshold)
        whole = float(with_output(self.mu, self.output_mu))
        closed = gaussian_upper(whole, x)
        if self.output_mu:
            closed = closed + gaussian_upper(float(self.output_mu), x - edge)
        knots, heights = _table(self)
        # δ is convex in e^x: the chord between two knots lies above it
        end = knots[-1]
        chord = np.where(x > end, 1.0, np.interp(np.expm1(np.minimum(x, end)), np.expm1(knots), heights))
        # float(threshold) may lie below the threshold by an ulp
        values = np.where(x > edge * (1 + 1e-15), np.minimum(closed, chord), chord)
        return raised(values)

    def gaussian_tail_from(self, mu: float) -> float | None:
        edge = float(self.threshold) * (1 + 1e-12)
        if not self.output_mu:
            return edge if float(self.mu) <= mu else None
        whole = float(with_output(self.mu, self.output_mu))
        found = tail_from([(1.0, whole, 0.0), (1.0, float(self.output_mu), edge)], mu)
        return None if found is None else max(found, edge)

    def to_json(self) -> dict[str, Any]:
        return {
            "type": "envelope",
            "mu": decimal_text(self.mu),
            "ratio": decimal_text(self.ratio),
            "shape": self.shape,
            "output_mu": decimal_text(self.output_mu),
        }

    def _closed(self, x: Fraction) -> Fraction:
        """δ(x; S) + δ(x - threshold; output), x at or above the threshold."""
        total = gaussian_delta(with_output(self.mu, self.output_mu), x)
        if self.output_mu:
            total = total + gaussian_delta(self.output_mu, x - self.threshold)
        return min(Fraction(1), round_up(total.upper))


def envelope_loss(curve: EnvelopeCurve, v: Floats) -> Floats:
    """Bound W at points v (standard normal units) from above: tangents of the concave part, chords of the convex."""
    import numpy as np

    s, k, m = float(curve.mu), float(curve.ratio), float(curve.mu) ** 2 / 2
    edges = np.linspace(0.0, 1.0, _SLOPES + 1)
    middle, half = (edges[1:] + edges[:-1]) / 2, 0.5 / _SLOPES
    if curve.shape == "logistic":
        bump, rise = middle * (1 - middle), 1 - 2 * middle
    else:
        bump, rise = 1 - middle * middle, -2 * middle
    height, slope = np.log1p(k * bump), k * rise / (1 + k * bump)
    left = height - slope * half + m * edges[:-1] ** 2
    right = height + slope * half + m * edges[1:] ** 2
    # the two bounds of a cell are lines in v through its edges: W lies below the largest of these lines
    heights = np.maximum(np.append(left, -np.inf), np.append(-np.inf, right))
    kept = _concave_hull(edges, heights)
    turns = -np.diff(heights[kept]) / np.diff(edges[kept]) / s  # v from which on the next line is the larger
    best = kept[np.searchsorted(turns, v)]
    out = heights[best] + s * v * edges[best]
    gaussian = np.maximum(float(curve.threshold), m + s * v)  # Theorem 2: W <= max(threshold, m + s v)
    slack = 1e-14 * (1 + np.abs(s * v))  # also for a turn that falls to the neighbour's side by rounding
    return np.asarray(np.minimum(out + slack, gaussian) * (1 + 1e-14) + 1e-15, dtype=np.float64)


def _concave_hull(x: Floats, y: Floats) -> NDArray[np.intp]:
    """Return the points of the upper concave hull: of lines of slope x and height y those largest somewhere."""
    import numpy as np

    points = list(zip(x.tolist(), y.tolist(), strict=True))
    kept: list[int] = []
    for i, (at, height) in enumerate(points):
        while len(kept) > 1:
            (x0, y0), (x1, y1) = points[kept[-2]], points[kept[-1]]
            if (y1 - y0) * (at - x0) > (height - y0) * (x1 - x0):
                break
            kept.pop()
        kept.append(i)
    return np.asarray(kept, dtype=np.intp)


@lru_cache(maxsize=64)
def _cells(curve: EnvelopeCurve) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the cells' masses, W at their left and right end, and W's chord at their conditional mean."""
    import numpy as np
    from scipy.special import ndtr

    far = np.array([-38.0, -20.0, -12.0])
    nodes = np.concatenate([far, np.linspace(-9.0, 10.0, _NODES), -far[::-1]])
    loss = np.maximum.accumulate(envelope_loss(curve, nodes))
    low, high = nodes[:-1], nodes[1:]
    # Φ(b) - Φ(a) on the side where it does not cancel
    mass = np.where(low >= 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low)) * (1 + 1e-12)
    density = np.exp(-nodes * nodes / 2) / np.sqrt(2 * np.pi)
    middle = np.divide(density[:-1] - density[1:], mass, out=high.copy(), where=mass > 1e-250)
    share = np.clip((middle - low) / (high - low) + 1e-9, 0.0, 1.0)
    wide = (high - low) > 1.0  # the outermost cells: take the right end
    share = np.where(wide, 1.0, share)
    chord = loss[:-1] + (loss[1:] - loss[:-1]) * share
    return mass, loss[:-1], loss[1:], chord


def _summed(curve: EnvelopeCurve, x: Floats) -> Floats:
    """Sum P(cell) · E over the output noise of (1 - e^(x - W - G))₊, each cell bounded from above.

    The integrand is concave in the loss where x - W lies below `_concave_until`: Jensen; else the cell's right end.
    From twelve deviations of the output noise above x on it is 1 - e^(x - W) up to its tail, so those cells are sums
    from the right; only the cells within twelve deviations are added one by one.
    """
    import numpy as np

    mass, left, right, chord = _cells(curve)
    output = float(curve.output_mu)
    reach = 12 * output
    jensen = np.searchsorted(left, x - _concave_until(output), side="left")
    first = np.searchsorted(right, x - reach, side="right")
    last = np.maximum(jensen, np.searchsorted(chord, x + reach, side="right"))
    last = np.maximum(last, first)
    tails = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
    weighted = np.append(np.cumsum((mass * np.exp(-chord))[::-1])[::-1], 0.0)
    far, shrunk = tails[last], np.exp(x) * weighted[last]
    out = far - shrunk + 2e-12 * (far + shrunk)  # sums of some thousand floats are off by less
    counts = last - first
    starts = np.cumsum(counts) - counts
    owner = np.repeat(np.arange(x.size), counts)
    cell = np.arange(int(counts.sum())) - starts[owner] + first[owner]
    loss = np.where(cell >= jensen[owner], chord[cell], right[cell])
    near = mass[cell] * gaussian_upper(output, x[owner] - loss)
    out = out + np.bincount(owner, weights=near, minlength=x.size)
    if output:  # cells further than twelve deviations on either side
        out = out + 2 * float(gaussian_upper(output, np.array([reach]))[0])
    # beyond the outermost nodes lies less than 1e-300 of the mass
    return np.asarray(np.clip(out * (1 + _SUM_SLACK) + 1e-290, 0.0, 1.0), dtype=np.float64)


@lru_cache(maxsize=256)
def _concave_until(output: float) -> float:
    """Return a point below which δ(y; output) is concave in y: φ(t)/Φ(-t) <= output, t = y/output + output/2."""
    if output == 0:
        return 0.0
    import numpy as np
    from scipy.special import log_ndtr

    low, high = -40.0, 40.0
    for _ in range(100):
        t = (low + high) / 2
        hazard = float(np.exp(-t * t / 2 - log_ndtr(-t))) / float(np.sqrt(2 * np.pi))
        low, high = (t, high) if hazard <= output else (low, t)
    return output * (low - 1e-6 - output / 2)


@lru_cache(maxsize=64)
def _table(curve: EnvelopeCurve) -> tuple[Floats, Floats]:
    """Tabulate the summed profile on knots of [0, beyond the threshold]."""
    import numpy as np

    end = float(curve.threshold) + 8 * float(curve.output_mu) + 1e-6
    reach = float(curve.mu) ** 2 / 2 + 10 * float(curve.mu)
    end = max(end, min(end + reach, 2 * end))
    knots = np.linspace(0.0, end, _KNOTS)
    return knots, np.minimum.accumulate(_summed(curve, knots))
