"""Streams for tests: without noise, with recorded rows, and many at once."""

import numpy as np

from sidelight.mechanisms import prefix_sums as run_module
from sidelight.noise import Source, rounded_gaussian
from sidelight.testing import SeededEntropy


def silence(monkeypatch):
    """Switch off the noise of every run. Only tests can: no parameter does this."""
    monkeypatch.setattr(run_module, "_noise", lambda plan, source: np.zeros(plan.size, np.int64))


def exact_rows(plan, vectors):
    """The exact integer rows of a stream, as one long vector: what the noise must hide."""
    encoding = plan.factorisation.start(plan.size, largest_code=plan.quantiser.radius)
    rows = []

    def record(exact):
        rows.append(np.array(exact, dtype=object))
        return exact

    for vector in vectors:
        encoding.add(plan.quantiser.codes(np.asarray(vector, dtype=float)), record)
    return np.concatenate(rows)


def blurred_rows(plan, scalars, count, seed, *, scale):
    """`count` independent runs of a stream of numbers: shape (rows, count)."""
    encoding = plan.factorisation.start(count, largest_code=plan.quantiser.radius)
    rows = []
    with Source(SeededEntropy("streams", path=[seed])) as source:

        def blur(exact):
            rows.append(exact + rounded_gaussian(count, scale, source))
            return rows[-1]

        for scalar in scalars:
            code = int(plan.quantiser.codes(np.array([scalar]))[0])
            encoding.add(np.full(count, code, np.int64), blur)
    return np.array(rows, dtype=float)
