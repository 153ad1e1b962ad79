"""A fit of a private mixture as a picture for the docs: public rows, and synthetic rows of the released mixture.

Generated rows of six columns. Left: all public rows. Right: as many synthetic rows as there were private
ones are drawn from the release (a part is shown), with ellipses that hold 95 %. Seeded, so that the picture stays as it
is. Run `python -m benchmarks.figures.gaussian_mixture` to write docs/images/gaussian-mixture.svg.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import sidelight as sl
from benchmarks.figures.picture import BLUE, GREEN, INK, OCHRE, PURPLE
from benchmarks.measuring import written
from benchmarks.mixtures import Mixture
from sidelight.gaussians.estimate import FittedGaussian
from sidelight.testing import SeededSession

PICTURE = written(Path(__file__).parent.parent.parent / "docs" / "images" / "gaussian-mixture.svg")
COMPONENTS, COLUMNS, ROWS, PUBLIC, SHOWN = 4, 6, 20_000, 40, 600


def fitted() -> tuple[np.ndarray, sl.GaussianMixture]:
    """Return the public rows and the model."""
    rng = np.random.default_rng(5)
    mixture = Mixture.of(COMPONENTS, COLUMNS, 7.0, rng)
    rows, public = mixture.draw(ROWS, rng)[0], mixture.draw(PUBLIC, rng)[0]
    table = sl.Table(rows, schema=[sl.Number(f"x{place}") for place in range(COLUMNS)])
    session = SeededSession(table, budget=sl.ZCDP("0.5"), seed=5)
    return public, sl.GaussianMixture(COMPONENTS, prediction=public, rho="0.5", session=session).fit(rows)


def plane(means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the plane of the released means, which shows them best: an origin and two directions."""
    origin = means.mean(axis=0)
    return origin, np.linalg.svd(means - origin)[2][:2]


def draw(path: Path = PICTURE) -> None:
    """Write the picture."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    public, model = fitted()
    origin, directions = plane(model.means_)
    synthetic, labels = model.sample(SHOWN, seed=1)
    plt.rcParams.update({"font.family": "sans-serif", "svg.hashsalt": "sidelight", "svg.fonttype": "none"})
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.4), sharex=True, sharey=True, layout="constrained")
    known = (public - origin) @ directions.T
    axes[0].plot(*known.T, "o", color=INK, ms=4)
    axes[0].set_title(f"{PUBLIC} public rows", loc="left", fontsize=11)
    shown = (synthetic - origin) @ directions.T
    for place, colour in enumerate((BLUE, GREEN, OCHRE, PURPLE)):
        axes[1].plot(*shown[labels == place].T, ".", color=colour, ms=3, alpha=0.55)
        turned = FittedGaussian(
            (model.means_[place] - origin) @ directions.T, directions @ model.covariances_[place] @ directions.T
        )
        for axis in axes:
            axis.plot(*turned.ellipse().T, color=colour, linewidth=1.6)
    axes[1].set_title("synthetic rows of the released mixture, ρ = 0.5", loc="left", fontsize=11)
    for axis in axes:
        axis.set_aspect("equal")
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_xlabel("first direction of the released means")
    axes[0].set_ylabel("second direction")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, facecolor="white", metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Write the picture."""
    draw()


if __name__ == "__main__":
    main()
