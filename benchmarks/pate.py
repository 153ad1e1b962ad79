"""PATE on MNIST: what a private test of the votes saves against plain noise, where votes are clear and where not.

Private: the 60,000 training digits. Public: the 10,000 test digits; 7,000 of them with their labels simulate teachers,
and the votes of these simulated teachers on the other 3,000 digits choose the queries (20 of each simulated label with
the clearest votes; the 200 with the closest votes) and the proposal. No private vote takes part in any choice. Without
MNIST generated blobs stand in. Run: python -m benchmarks.pate
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid

import sidelight as sl
from benchmarks import real_data
from benchmarks.baselines.smooth_votes import SmoothBound, SmoothVotes
from benchmarks.measuring import sized
from sidelight.stability.pate import (
    VoteCost,
    cheapest_proposal,
    log_error_probability,
    noisy_max_renyi,
    quantiles_of,
    simulate_votes,
    vote_distance,
)

DELTA = "1e-5"
BLOBS, TEST = sized((70_000, 10_000), (3_000, 1_000))
QUERIES, CLASSES = sized(200, 20), 10
#: Teachers and noise: the smallest number that was asked for, and that of the thesis's figure.
SETTINGS = sized(((250, 20), (400, 40)), ((30, 5),))


@dataclass(frozen=True, eq=False)
class Digits:
    """Private rows, public rows with labels, and public rows that may be asked about."""

    name: str
    rows: np.ndarray
    labels: np.ndarray
    public: np.ndarray
    public_labels: np.ndarray
    pool: np.ndarray
    pool_labels: np.ndarray


@cache
def digits() -> Digits:
    """Read MNIST in 14 x 14 pixels, or make blobs."""
    folder = real_data.find("mnist")
    if folder is None:
        from sklearn.datasets import make_blobs

        x, y = make_blobs(BLOBS, n_features=20, centers=CLASSES, cluster_std=6, random_state=0)
        train, test, y_train, y_test = x[:-TEST], x[-TEST:], y[:-TEST], y[-TEST:]
    else:
        with np.load(folder / "mnist.npz") as file:
            train, test = _small(file["x_train"]), _small(file["x_test"])
            y_train, y_test = file["y_train"].astype(int), file["y_test"].astype(int)
    order = np.random.default_rng(0).permutation(len(test))
    asked, known = order[: 3 * len(order) // 10], order[3 * len(order) // 10 :]
    name = "generated blobs" if folder is None else "MNIST"
    return Digits(name, train, y_train, test[known], y_test[known], test[asked], y_test[asked])


def _small(images: np.ndarray) -> np.ndarray:
    pixels = images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(images), -1)
    return np.sqrt(pixels / 255)  # darker strokes count less; a public choice


@cache
def simulated(teachers: int) -> np.ndarray:
    """Return public votes on the pool."""
    data = digits()
    return simulate_votes(
        NearestCentroid(),
        data.public,
        data.public_labels,
        data.pool,
        classes=range(CLASSES),
        teachers=teachers,
        rows_a_teacher=len(data.rows) // teachers,
        rng=np.random.default_rng(1),
    )


def clear_queries(votes: np.ndarray) -> np.ndarray:
    """Return the pool's places with the clearest simulated votes, as many of each simulated label."""
    gaps, winners = _gaps(votes), votes.argmax(axis=1)
    order = np.argsort(-gaps, kind="stable")
    return np.concatenate([order[winners[order] == label][: QUERIES // CLASSES] for label in range(CLASSES)])


def close_queries(votes: np.ndarray) -> np.ndarray:
    """Return the pool's places with the closest simulated votes."""
    return np.argsort(_gaps(votes), kind="stable")[:QUERIES]


def _gaps(votes: np.ndarray) -> np.ndarray:
    ordered = np.sort(votes, axis=1)
    return ordered[:, -1] - ordered[:, -2]


def fitted(teachers: int, noise: int, places: np.ndarray, **rest: object) -> sl.PATE:
    """Fit through the pipeline on the private rows."""
    data = digits()
    model = sl.PATE(
        NearestCentroid(),
        LogisticRegression(max_iter=300),
        teachers=teachers,
        classes=range(CLASSES),
        noise_scale=noise,
        delta=DELTA,
        n_jobs=1,
        **{"expected_votes": simulated(teachers)[places], **rest},
    )
    ids = [f"digit {place}" for place in range(len(data.rows))]
    return model.fit(data.rows, data.labels, record_ids=ids, queries=data.pool[places])


@cache
def measure() -> dict[str, float]:
    """Return prices as shares of the plain price, accuracies, and seconds; a refusal where votes are clear is inf."""
    data, found = digits(), {}
    for teachers, noise in SETTINGS:
        votes = simulated(teachers)
        clear, close = clear_queries(votes), close_queries(votes)
        model = fitted(teachers, noise, clear)
        price, released = model.price(QUERIES), isinstance(model.release_, sl.Release)
        found[f"clear_share_{teachers}"] = price.epsilon / price.plain if released else float("inf")
        found[f"clear_epsilon_{teachers}"], found[f"plain_epsilon_{teachers}"] = price.epsilon, price.plain
        if released:
            found[f"label_accuracy_{teachers}"] = float((model.labels_ == data.pool_labels[clear]).mean())
            rest = np.setdiff1d(np.arange(len(data.pool)), clear)
            found[f"student_accuracy_{teachers}"] = float(model.score(data.pool[rest], data.pool_labels[rest]))
        said = fitted(teachers, noise, close)  # the model says in advance that no proposal pays
        found[f"close_share_{teachers}"] = said.price(QUERIES).epsilon / said.price(QUERIES).plain
        found[f"close_said_{teachers}"] = float(said.proposal_ is None and isinstance(said.release_, sl.Release))
        refused = fitted(teachers, noise, close, proposal=model.proposal_, expected_votes=None)
        found[f"close_refused_{teachers}"] = float(isinstance(refused.release_, sl.Refused))
        found[f"close_refused_share_{teachers}"] = refused.price(QUERIES).epsilon / price.plain
    teachers = SETTINGS[0][0]
    votes = simulated(teachers)
    usual = sl.PATE(
        teachers=teachers,
        classes=range(CLASSES),
        delta=DELTA,
        expected_votes=votes[clear_queries(votes)],
    )
    found["clear_share_250_usual_noise"] = usual.price(QUERIES).epsilon / usual.price(QUERIES).plain
    return found | speed()


def speed() -> dict[str, float]:
    """Time everything that is computed about 1,000 votes: 100 orders, both tests, and the choice of a proposal."""
    rng = np.random.default_rng(2)
    votes = rng.multinomial(400, [0.91, *[0.01] * 9], size=sized(1000, 20))
    start = time.perf_counter()
    logs = log_error_probability(votes, noise_scale=40)
    for order in range(2, sized(102, 4)):
        noisy_max_renyi(logs, noise_scale=40, order=order).sum()
    cost = VoteCost(noise_scale=40, order=25, classes=10)
    quantiles = quantiles_of(votes, cost, tie_margin=0)
    vote_distance(quantiles, cost, budget=1.0, cap=400)
    smooth = SmoothVotes(budget=1, delta=DELTA)
    SmoothBound(
        cost=cost,
        smoothness=float(smooth.smoothness),
        sensitivity_scale=15,
        sum_scale=15,
        failure=5e-6,
    ).sensitivity(quantiles)
    analysed = time.perf_counter()
    cheapest_proposal(1000, 40, delta=DELTA, votes=votes)
    return {"analysis_seconds": analysed - start, "choice_seconds": time.perf_counter() - analysed}


if __name__ == "__main__":
    print(digits().name)
    for figure, value in measure().items():
        print(f"{figure:28} {value:.4g}")
