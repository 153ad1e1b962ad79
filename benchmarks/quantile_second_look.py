"""What the second look into crowded parts is worth: largest gaps and bounds of many quantiles with one look and two."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np

import sidelight as sl
from benchmarks.measuring import sized
from benchmarks.quantile_many import Draw, gaps_of
from benchmarks.rounded_laws import likely_error
from sidelight.quantiles.forms import refined_counts as parts
from sidelight.quantiles.tree import even_levels

RECORDS, EPSILON, LEVELS, TRIALS = sized(100_000, 1_000), "0.1", 99, sized(40, 1)

LAWS: dict[str, Draw] = {
    "a fifth beyond a gap": lambda rng, rows: rng.exponential(size=rows) - 50 * (rng.random(rows) < 0.2),
    "three modes": lambda rng, rows: rng.choice([-20.0, 0.0, 20.0], rows) + rng.standard_normal(rows),
    "arcsine": lambda rng, rows: rng.beta(0.5, 0.5, rows),
    "logistic": lambda rng, rows: rng.logistic(size=rows),
}


def line_of(name: str, trials: int = TRIALS) -> str:
    """Return for one look and for two: mean largest gap, median of likely error over error, and how many held."""
    cells = []
    for worth in (np.inf, parts._WORTH):  # of no part is a second look worth it; as it is
        rng, found = np.random.default_rng(len(name)), []
        with patch.object(parts, "_WORTH", worth):
            for _ in range(trials):
                values = np.sort(LAWS[name](rng, RECORDS))
                release = sl.Quantiles(even_levels(LEVELS), epsilon=EPSILON).release(values)
                gaps, bounds = gaps_of(values, release.value, LEVELS), likely_error(release)
                found.append((gaps.max(), bounds.max() / gaps.max(), bool((gaps <= bounds).all())))
        gap, ratio, held = zip(*found, strict=True)
        cells.append(f"{np.mean(gap):.0f} ± {np.std(gap) / trials**0.5:.0f} / {np.median(ratio):.1f} / {sum(held)}")
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Print the table of the quantiles proof page, section 5.4."""
    for name in LAWS:
        print(line_of(name), flush=True)


if __name__ == "__main__":
    main()
