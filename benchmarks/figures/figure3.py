"""Figure 3: public data of one kind of books, private data that is more and more of another kind; epsilon 1.

Must show: the public quantiles degrade as the share of the other kind grows; for pages the robust PubFit degrades less
than the plain one, and is never much worse than Uniform. On the stand-in the last holds loosely for the paper's hedge
(a tenth of the prior) and well for this library's (a half).

The paper has History (public) and Poetry; those files are not to be had. The stand-in are the books of a freely shared
list with and without a publisher of comics: shorter, less varied in length, and rated higher.
"""

from __future__ import annotations

import re

import numpy as np

import sidelight as sl
from benchmarks import real_data
from benchmarks.baselines.public_quantiles import public_quantiles
from benchmarks.figures.command import Figure, Size
from benchmarks.figures.figure2 import predictions
from benchmarks.figures.panel import Curve, Panel, Trend
from benchmarks.figures.releases import Records
from benchmarks.learning import DECILES, ROWS
from sidelight.quantiles import nonprivate_gap, quantile_tree

COMICS = re.compile(
    "viz|marvel|dc comics|vertigo|tokyopop|dark horse|manga|image comics|wildstorm|fantagraphics|oni press"
    "|andrews mcmeel|comics|top shelf",
    re.IGNORECASE,
)
HELD_OUT = 1000


def books() -> tuple[str, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Return ratings and pages of (other books, comics)."""
    folder = real_data.find("goodreads_books")
    if folder is None:
        rng = np.random.default_rng(4)
        usual = (rng.normal(3.95, 0.28, 10_000), rng.lognormal(5.7, 0.6, 10_000))
        others = (rng.normal(4.08, 0.32, 1000), rng.lognormal(5.2, 0.3, 1000))
        rating, pages = (np.clip(usual[0], 0, 5), np.clip(others[0], 0, 5)), (np.rint(usual[1]), np.rint(others[1]))
        return "STAND-IN: generated books", {"rating": (rating[0].round(2), rating[1].round(2)), "pages": pages}
    rating, pages, publisher = real_data.columns(folder / "books.parquet", "average_rating", "num_pages", "publisher")
    comics = np.array([bool(COMICS.search(str(name))) for name in publisher])
    usable = (pages > 0) & (rating > 0)
    parts = (usable & ~comics, usable & comics)
    rating = rating.astype(float).round(2)
    found = {
        "rating": (rating[parts[0]], rating[parts[1]]),
        "pages": (pages[parts[0]].astype(float), pages[parts[1]].astype(float)),
    }
    return "STAND-IN: Goodreads list; comics take the part of Poetry", found


def measure(size: Size) -> list[Panel]:
    """Return a panel for ratings and one for pages."""
    data, found = books()
    shares = np.linspace(0, 1, 11 if size.full else 6)
    settings = {
        "rating": (2.5, 0.5, 0.01, [sl.priors.Uniform(0, 5)] * len(DECILES)),
        "pages": (200.0, 25.0, 1.0, [sl.priors.Uniform(0, 1000 / (1 - level)) for level in DECILES]),
    }
    panels = []
    for name, (usual, others) in found.items():
        location, scale, step, bounds = settings[name]
        shuffled = np.random.default_rng(103).permutation(usual)
        sample = sl.PublicData(shuffled[HELD_OUT:], f"{name} of usual books")
        ways = predictions(sample, location=location, scale=scale, step=step, bounds=list(bounds))
        tree = quantile_tree(DECILES, epsilon=1)
        flat = np.rint(public_quantiles(sample, levels=DECILES) / step)
        errors = {key: np.empty((len(shares), size.trials)) for key in ("public quantiles", *ways)}
        for i, share in enumerate(shares.tolist()):
            draws = _draws(shuffled[:HELD_OUT], others, share=share, step=step, trials=size.trials)
            errors["public quantiles"][i] = [nonprivate_gap(d.codes, DECILES, flat).mean() for d in draws]
            for key, priors in ways.items():
                errors[key][i] = [d.release(tree, priors)[1].mean() for d in draws]
        curves = {key: Curve.of(each) for key, each in errors.items()}
        panels.append(Panel(f"Book {name}, ε = 1", data, "share of the other kind", shares, curves))
    return panels


def _draws(usual: np.ndarray, others: np.ndarray, *, share: float, step: float, trials: int) -> list[Records]:
    moved = round(share * ROWS)
    rng = np.random.default_rng(104)
    draws = []
    for t in range(trials):
        kept, new = rng.permutation(usual)[: ROWS - moved], rng.permutation(others)[:moved]
        draws.append(Records.of(np.concatenate([kept, new]), step=step, seed=(3, t)))
    return draws


def trends(panels: list[Panel], size: Size) -> list[Trend]:
    """State what must show."""
    found = []
    for panel in panels:
        before, after = panel.at("public quantiles", 0), panel.at("public quantiles", 1)
        found.append(
            Trend(f"{panel.title}: the public quantiles degrade", f"{before:.1f} to {after:.1f}", after > 1.5 * before)
        )
    pages = panels[1]
    lost = {name: pages.at(name, 1) - pages.at(name, 0) for name in ("PubFit", "PubFit robust", "public Cauchy")}
    worst = {
        name: max(pages.curves[name].mean / pages.curves["Uniform"].mean)
        for name in ("PubFit", "PubFit robust", "PubFit, our hedge")
    }
    flat = pages.at("public quantiles", 1) - pages.at("public quantiles", 0)
    return [
        *found,
        Trend(
            "pages: the robust PubFit degrades less than the plain one, and than the public quantiles",
            f"by {lost['PubFit robust']:.2f} against {lost['PubFit']:.2f} and {flat:.2f} ranks",
            lost["PubFit robust"] < min(lost["PubFit"], flat),
        ),
        Trend(
            "pages: hedged, it is never much worse than Uniform (a tenth: twice its error; our half: a quarter more)",
            "at worst {PubFit robust:.2f} and {PubFit, our hedge:.2f} times, plain {PubFit:.2f}".format(**worst),
            worst["PubFit robust"] < 2 and worst["PubFit, our hedge"] < 1.25,
        ),
    ]


FIGURE = Figure(
    number=3,
    title="Public data of another population",
    note="Nine deciles of 100 records, ε = 1. Mean over data sets of the average gap; the band is one standard error.",
    measure=measure,
    trends=trends,
    quick=Size(trials=40),
    paper=Size(trials=40),
)

if __name__ == "__main__":
    FIGURE.main()
